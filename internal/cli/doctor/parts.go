package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// poolAge is the least time without a tick of a left-over pool.
const poolAge = 24 * time.Hour

// parts are the parts of one sort that exist, by a complete answer.
type parts struct {
	names   map[string]bool
	at      time.Time // of the answer
	unknown string    // why there is no complete answer; empty: names has all parts
}

// lack reports whether the part of a record is gone, by an answer that is newer than the record.
func (p parts) lack(name string, written time.Time) bool {
	return p.unknown == "" && !p.names[name] && !written.IsZero() && p.at.Sub(written) >= settled
}

// poolParts are the parts of a pool by its newest tick. Groups have the tokens of their keys.
type poolParts struct{ nodes, groups, apps parts }

// partsOf returns the parts that a tick names. If it does not name all of them, they are unknown.
func partsOf(now time.Time, r api.TickRecord) poolParts {
	p := parts{names: map[string]bool{}, at: r.At, unknown: incomplete(now, r)}
	if p.unknown != "" {
		return poolParts{p, p, p}
	}
	nodes, groups, apps := p, p, p
	nodes.names, groups.names = map[string]bool{}, map[string]bool{}
	for i := range r.Case.Nodes {
		nodes.names[r.Case.Nodes[i].ID] = true
	}
	for _, id := range r.Snapshot.Others {
		nodes.names[id] = true
	}
	for _, g := range r.Snapshot.Groups {
		if token, err := state.GroupToken(g.ID); err == nil {
			groups.names[token] = true
		}
	}
	for _, app := range r.Case.Input.Apps {
		apps.names[app.Name] = true
	}
	return poolParts{nodes, groups, apps}
}

// incomplete returns why a tick does not name all parts of its pool as they are now; empty: it does.
func incomplete(now time.Time, r api.TickRecord) string {
	if late, _, _ := strings.Cut(explain.Overdue(now, r, nil), ": "); late != "" {
		return late
	}
	listed := 0
	for _, g := range r.Snapshot.Groups {
		listed += g.Instances
		if g.Unknown != nil {
			return fmt.Sprintf("group %s could not be read: %s", decide.OneLine(g.ID), decide.OneLine(g.Unknown.Why))
		}
	}
	switch {
	case r.At.After(now.Add(pools.ClockTolerance)):
		return "its last tick is in the future: correct the clocks of its host and of this one"
	case r.Failed != "":
		return "its last tick ended early: " + decide.OneLine(r.Failed)
	case r.Paused != nil:
		return "the pool is paused, so its ticks read nothing"
	case r.Case == nil:
		return "its last tick has no decision"
	case r.Snapshot.Missing != "":
		return "groups may be missing: " + decide.OneLine(r.Snapshot.Missing)
	case len(r.Case.Nodes)+len(r.Snapshot.Others) != listed:
		return fmt.Sprintf("its last tick names %d of %d instances: another version of weir wrote it", len(r.Case.Nodes)+len(r.Snapshot.Others), listed)
	}
	return ""
}

// pool returns the parts of a pool by its newest tick, which is read once.
func (l *leftOvers) pool(ctx context.Context, name string) poolParts {
	p, read := l.known[name]
	if read {
		return p
	}
	var r api.TickRecord
	err := l.readable(names.LedgerStream(l.exam.Cluster, name))
	if err == nil {
		r, err = history.Pool{JS: l.js, Cluster: l.exam.Cluster, Pool: name}.Last(ctx)
	}
	if err != nil {
		none := parts{unknown: decide.OneLine(err.Error())}
		p = poolParts{none, none, none}
	} else {
		p = partsOf(l.now, r)
	}
	for _, one := range []*parts{&p.nodes, &p.groups, &p.apps} {
		if one.unknown != "" {
			one.unknown = fmt.Sprintf("pool %s: %s", name, one.unknown)
		}
	}
	l.known[name] = p
	return p
}

// apps returns the apps of the pool: those of its last tick, of its file, and all rows of the cluster.
func (l *leftOvers) apps(ctx context.Context) parts {
	p := l.pool(ctx, l.exam.Pool).apps
	if p.unknown != "" {
		return p
	}
	var rows integrity.Contents
	bucket := names.AppsBucket(l.exam.Cluster)
	err := l.readable(kvbucket.Stream(bucket))
	if err == nil {
		rows, err = integrity.Read(ctx, l.js, bucket)
	}
	if err != nil {
		return parts{unknown: decide.OneLine(err.Error())}
	}
	p.names = maps.Clone(p.names)
	for _, row := range rows.Keys {
		p.names[row.Name] = p.names[row.Name] || !row.Deleted
	}
	for app := range l.site.Pool.Programs() {
		p.names[app] = true
	}
	p.names[sigproto.DefaultApp] = true
	return p
}

// machines returns the machines of all pools of the cluster: those with a ledger, and those with a file.
func (l *leftOvers) machines(ctx context.Context) parts {
	listed, filed, err := l.allPools(ctx)
	if err != nil {
		return parts{unknown: decide.OneLine(err.Error())}
	}
	all := slices.Concat(listed, filed)
	slices.Sort(all)
	p := parts{names: map[string]bool{}, at: l.now}
	for _, pool := range slices.Compact(all) {
		of := l.pool(ctx, pool).nodes
		if of.unknown != "" {
			return of
		}
		for id := range of.names {
			p.names[id] = true
		}
		if of.at.Before(p.at) {
			p.at = of.at
		}
	}
	return p
}

// readable returns an error if the role may not read a stream. Without the right, a request would get no answer.
func (l *leftOvers) readable(stream string) error {
	if !l.exam.role.may("$JS.API.STREAM.INFO." + stream) {
		return fmt.Errorf("%v may not read %s", l.exam.role, stream)
	}
	return nil
}

var errPoolsNotListed = errors.New("this role may not list the pools of the cluster")

// allPools returns the pools of the cluster that have a ledger, and those with a file.
func (l *leftOvers) allPools(ctx context.Context) (listed, filed []string, err error) {
	if !l.exam.role.may("$JS.API.STREAM.NAMES") {
		return nil, nil, errPoolsNotListed
	}
	if listed, err = state.Pools(ctx, l.js, l.exam.Cluster); err != nil {
		return nil, nil, err
	}
	if filed, err = config.Pools(l.site.Configs, l.exam.Cluster); err != nil {
		return nil, nil, fmt.Errorf("list the files of the pools: %w", err)
	}
	return listed, filed, nil
}

// pools returns a finding if pools with streams have no file, and no tick for a day. Only an operator can decide that they are gone.
func (l *leftOvers) pools(ctx context.Context) []Finding {
	listed, filed, err := l.allPools(ctx)
	if err != nil {
		return nil // the records of machines need the pools, and have the cause
	}
	var old []string
	for _, pool := range listed {
		ledger := names.LedgerStream(l.exam.Cluster, pool)
		if slices.Contains(filed, pool) || l.readable(ledger) != nil {
			continue
		}
		s, err := l.js.Stream(ctx, ledger)
		if err != nil {
			continue // unknown
		}
		info := s.CachedInfo()
		last := info.Created
		if info.State.LastTime.After(last) {
			last = info.State.LastTime
		}
		if l.now.Sub(last) >= poolAge {
			old = append(old, fmt.Sprintf("%s (since %s)", pool, explain.Time(last)))
		}
	}
	if old == nil {
		return nil
	}
	c := l.exam.Cluster
	return []Finding{{Result: Warned, Detail: fmt.Sprintf("%d pools with streams have no file in %s, and no tick for a day: %s", len(old), filepath.Join(l.site.Configs, c), list(old)),
		Fix: fmt.Sprintf("if such a pool is gone for good, delete its streams with \"nats stream rm\": KV_weir-pool:%[1]s:POOL, KV_weir-placer:%[1]s:POOL, %s, %s and %s",
			c, names.LedgerStream(c, "POOL"), names.SummaryStream(c, "POOL"), names.EvidenceStream(c, "POOL"))}}
}
