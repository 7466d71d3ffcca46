package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// progressEvery is the number of copied messages between two lines of progress.
const progressEvery = 5000

// streams copies the cluster's records and evidence from the streams of all pools to those of each pool.
func (m *migration) streams(ctx context.Context) error {
	ledger, err := m.oldStream(ctx, state.OldLedgerStream, "decision")
	if err != nil {
		return err
	}
	evidence, err := m.oldStream(ctx, state.OldEvidenceStream, "evidence")
	if err != nil {
		return err
	}
	results := map[string]*PoolResult{}
	of := func(pool string) *PoolResult {
		if results[pool] == nil {
			results[pool] = &PoolResult{Pool: pool}
		}
		return results[pool]
	}
	for pool, n := range ledger.pools {
		of(pool).Records = n
	}
	for pool, n := range evidence.pools {
		of(pool).Evidence = n
	}
	for _, pool := range slices.Sorted(maps.Keys(results)) {
		m.result.Pools = append(m.result.Pools, *results[pool])
		m.result.Old = true
	}
	if m.DryRun {
		return nil
	}
	if err := errors.Join(m.narrow(ctx, ledger), m.narrow(ctx, evidence)); err != nil {
		return err
	}
	for _, r := range m.result.Pools {
		if err := m.copyPool(ctx, r, ledger.stream, evidence.stream); err != nil {
			return err
		}
	}
	m.streamed = true
	return nil
}

// copyPool copies the records and the evidence of one pool.
func (m *migration) copyPool(ctx context.Context, r PoolResult, ledger, evidence jetstream.Stream) error {
	n := 0
	copied := func() {
		if n++; n%progressEvery == 0 {
			m.progress("pool %s: %d records copied in this run, of %d", r.Pool, n, r.Records)
		}
	}
	if r.Records > 0 {
		m.progress("pool %s: %d records", r.Pool, r.Records)
		c := state.LedgerConfig{Cluster: m.Cluster, Pool: r.Pool, Replicas: m.Replicas}
		if err := state.AdoptRecords(ctx, m.JS, ledger, c, time.Now().Add(-state.DefaultLedgerAge), m.bounded, copied); err != nil {
			return err
		}
	}
	if r.Evidence > 0 {
		m.progress("pool %s: %d objects of evidence", r.Pool, r.Evidence)
		return state.AdoptEvidence(ctx, m.JS, evidence, m.Cluster, r.Pool, m.Replicas, m.bounded, func() {})
	}
	return nil
}

// oldStream is a stream of all pools of the old layout.
type oldStream struct {
	stream   jetstream.Stream // nil: missing
	kind     string           // the second token of its subjects
	pools    map[string]int   // messages of each pool of the cluster, without parts
	clusters []string         // other clusters with messages
}

func (m *migration) oldStream(ctx context.Context, name, kind string) (oldStream, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	o := oldStream{kind: kind, pools: map[string]int{}}
	stream, err := m.JS.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return o, nil
	}
	if err != nil {
		return o, fmt.Errorf("open stream %s: %w", name, err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter("weir.*."+kind+".>"))
	if err != nil {
		return o, fmt.Errorf("open stream %s: %w", name, err)
	}
	o.stream = stream
	others := map[string]bool{}
	for subject, n := range info.State.Subjects {
		tokens := strings.Split(subject, ".") // weir, the cluster, the kind, the pool
		switch {
		case len(tokens) < 4 || !names.Valid(tokens[1]) || !names.Valid(tokens[3]):
		case tokens[1] != m.Cluster:
			others[tokens[1]] = true
		case kind == "decision" && len(tokens) != 4: // parts
		default:
			o.pools[tokens[3]] += int(n)
		}
	}
	o.clusters = slices.Sorted(maps.Keys(others))
	return o, nil
}

// narrow takes the cluster's subjects from an old stream: the new streams have them. Other clusters keep theirs.
func (m *migration) narrow(ctx context.Context, o oldStream) error {
	if o.stream == nil {
		return nil
	}
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	c := o.stream.CachedInfo().Config
	others, err := m.oldClusters(ctx, o.clusters)
	if err != nil {
		return err
	}
	subjects := remaining(c.Subjects, m.Cluster, others)
	if len(subjects) == 0 {
		subjects = []string{"weir-old." + o.kind}
	}
	if slices.Equal(subjects, c.Subjects) {
		return nil
	}
	if len(others) > 0 {
		m.progress("stream %s keeps the subjects of clusters %s: migrate them before their daemons restart", c.Name, strings.Join(others, ", "))
	}
	c.Subjects = subjects
	if _, err := m.JS.UpdateStream(ctx, c); err != nil {
		return fmt.Errorf("take the subjects of cluster %s from stream %s: %w", m.Cluster, c.Name, err)
	}
	return nil
}

// remaining returns the subjects of an old stream without those of the cluster. A wildcard in place of a cluster becomes
// one subject for each other cluster.
func remaining(subjects []string, cluster string, others []string) (left []string) {
	for _, s := range subjects {
		rest, wild := strings.CutPrefix(s, "weir.*.")
		switch {
		case wild:
			for _, other := range others {
				left = append(left, names.Subject(other, rest))
			}
		case !strings.HasPrefix(s, names.Subject(cluster, "")):
			left = append(left, s)
		}
	}
	slices.Sort(left)
	return slices.Compact(left)
}

// oldClusters returns the clusters among those, and all with a bucket of state, that are not migrated.
func (m *migration) oldClusters(ctx context.Context, recorded []string) ([]string, error) {
	all := map[string]bool{}
	for _, c := range recorded {
		all[c] = true
	}
	listed := m.JS.StreamNames(ctx, jetstream.WithStreamListSubject("$KV.>"))
	for name := range listed.Name() {
		cluster, ok := strings.CutPrefix(name, "KV_"+OldBucket(""))
		if !ok || cluster == m.Cluster || !names.Valid(cluster) {
			continue
		}
		has, err := m.isState(ctx, OldBucket(cluster))
		if err != nil {
			return nil, err
		}
		if !has {
			continue
		}
		s, _, _, err := m.schema(ctx, OldBucket(cluster))
		if err != nil {
			return nil, err
		}
		if s.Version >= versionMoved {
			delete(all, cluster)
		} else {
			all[cluster] = true
		}
	}
	if err := listed.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return nil, fmt.Errorf("list the buckets of other clusters: %w", err)
	}
	return slices.Sorted(maps.Keys(all)), nil
}
