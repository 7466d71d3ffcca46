package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// defaultTimeout bounds one request unless the configuration does.
const defaultTimeout = 10 * time.Second

// Config configures a migration.
type Config struct {
	JS      jetstream.JetStream
	Cluster string
	Holder  string // this process, in the leases
	// Replicas of new buckets and streams; 0: 1.
	Replicas int
	// DryRun reads, and writes nothing.
	DryRun bool
	// Exclusive: no other process uses the bus. Unreleased leases are taken at once.
	Exclusive bool
	// IgnoreAlarms migrates data that a reader reports as damaged or lost.
	IgnoreAlarms bool
	// Progress prints a line; nil: no progress.
	Progress func(line string)
	TTL      time.Duration // of the leases that Run takes; 0: state.DefaultTTL
	Timeout  time.Duration // of one request; 0: 10 s
}

// Result is what a migration has copied, or would copy.
type Result struct {
	Cluster string `json:"cluster"`
	DryRun  bool   `json:"dry_run"`
	// Old: the cluster had data of the old layout that was not migrated before.
	Old    bool         `json:"old"`
	Leases int          `json:"leases"`
	State  int          `json:"state_keys"`
	Orders int          `json:"order_keys"`
	Apps   int          `json:"apps"`
	Kept   []string     `json:"kept,omitempty"` // keys of the new buckets that another process wrote meanwhile
	Pools  []PoolResult `json:"pools"`
	Digest string       `json:"digest,omitempty"` // SHA-256 of the copied keys and values
}

// PoolResult is what was copied of one pool, earlier runs included.
type PoolResult struct {
	Pool     string `json:"pool"`
	Records  int    `json:"records"`
	Evidence int    `json:"evidence"`
}

// String returns one line for people.
func (r Result) String() string {
	if !r.Old {
		return fmt.Sprintf("cluster %s has no data of the old layout", r.Cluster)
	}
	did := "moved"
	if r.DryRun {
		did = "would move"
	}
	records, evidence := 0, 0
	for _, p := range r.Pools {
		records, evidence = records+p.Records, evidence+p.Evidence
	}
	return fmt.Sprintf("cluster %s: %s %d keys of state, %d orders, %d applications, %d records and %d objects of evidence of %d pools",
		r.Cluster, did, r.State, r.Orders, r.Apps, records, evidence, len(r.Pools))
}

// migration is one run.
type migration struct {
	Config
	result Result
	held   *held // nil: the old bucket is missing or sealed
	// streamed: this run has copied the streams.
	streamed bool
}

// OldBucket returns the name of a cluster's bucket of state and orders in the old layout.
func OldBucket(cluster string) string { return "weir_" + cluster }

// OldAppsBucket returns the name of a cluster's bucket of applications in the old layout.
func OldAppsBucket(cluster string) string { return "weir_" + cluster + "_apps" }

// Run migrates the data of a cluster, or continues an interrupted migration. Without old data it does nothing.
func Run(ctx context.Context, c Config) (Result, error) {
	if !names.Valid(c.Cluster) || c.Holder == "" {
		return Result{}, fmt.Errorf("migrate cluster %q: the name of the cluster or of the holder is invalid", c.Cluster)
	}
	if c.TTL == 0 {
		c.TTL = state.DefaultTTL
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	m := &migration{Config: c, result: Result{Cluster: c.Cluster, DryRun: c.DryRun, Pools: []PoolResult{}}}
	if err := m.run(ctx); err != nil {
		return m.result, fmt.Errorf("migrate cluster %s: %w", c.Cluster, err)
	}
	return m.result, nil
}

func (m *migration) progress(format string, args ...any) { m.Progress(fmt.Sprintf(format, args...)) }

func (m *migration) run(ctx context.Context) error {
	buckets, err := m.openOld(ctx)
	if err != nil {
		return err
	}
	if !buckets.exist() {
		return m.streams(ctx)
	}
	status, err := m.targetStatus(ctx)
	switch {
	case err != nil:
		return err
	case status == targetComplete:
		return nil
	case status == targetForeign:
		return fmt.Errorf("bucket %s is in use, and it was not made by a migration: "+
			"stop its daemons, copy what you need, delete the bucket, and run the command again", names.StateBucket(m.Cluster))
	}
	m.result.Old = true
	old, err := m.readOld(ctx, buckets)
	if err != nil {
		return err
	}
	if err := m.checkAlarms(old); err != nil {
		return err
	}
	if m.DryRun {
		return m.dryRun(ctx, buckets, old)
	}
	if buckets.state == nil || buckets.state.CachedInfo().Config.Sealed {
		return m.finish(ctx, buckets)
	}
	return m.underLeases(ctx, func(ctx context.Context) error {
		if err := m.copyAll(ctx, buckets); err != nil {
			return err
		}
		return m.seal(ctx, buckets)
	}, func() error { return m.finish(ctx, buckets) })
}

// dryRun fills the result without a write.
func (m *migration) dryRun(ctx context.Context, buckets oldBuckets, old contents) error {
	if buckets.state != nil && !buckets.state.CachedInfo().Config.Sealed {
		free, err := m.freeLeases(ctx, buckets.state)
		if err != nil {
			return err
		}
		m.result.Leases = len(free)
	}
	m.count(m.plan(old))
	return m.streams(ctx)
}

// underLeases runs work while this process has all leases of the old bucket, then after. It releases the leases if
// work fails.
func (m *migration) underLeases(ctx context.Context, work func(context.Context) error, after func() error) error {
	buckets, err := m.openOld(ctx)
	if err != nil {
		return err
	}
	free, err := m.freeLeases(ctx, buckets.state)
	if err != nil {
		return err
	}
	m.held, err = m.take(ctx, free)
	if err != nil {
		m.held.release(ctx)
		return err
	}
	m.result.Leases = len(free)
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := m.held.renew(working); err != nil {
			cancel(err)
		}
	}()
	err = work(working)
	if cause := context.Cause(working); err != nil && cause != nil && ctx.Err() == nil {
		err = errors.Join(cause, err)
	}
	cancel(nil)
	<-ended
	if err != nil {
		m.held.release(ctx)
		return err
	}
	m.held = nil
	return after()
}

// copyAll copies the streams, then the keys of the old buckets.
func (m *migration) copyAll(ctx context.Context, buckets oldBuckets) error {
	if err := m.createTarget(ctx, buckets); err != nil {
		return err
	}
	if err := m.streams(ctx); err != nil {
		return err
	}
	return m.copyKeys(ctx, buckets)
}

// finish copies the written data until the old buckets were sealed, compares all copies, and makes the new buckets
// valid.
func (m *migration) finish(ctx context.Context, buckets oldBuckets) error {
	if err := m.createTarget(ctx, buckets); err != nil {
		return err
	}
	if !m.streamed {
		if err := m.streams(ctx); err != nil {
			return err
		}
	}
	if err := m.sealOne(ctx, buckets.apps); err != nil {
		return err
	}
	if err := m.awaitForeign(ctx, buckets.state); err != nil {
		return err
	}
	if err := m.copyKeys(ctx, buckets); err != nil {
		return err
	}
	digest, err := m.verify(ctx, buckets)
	if err != nil {
		return err
	}
	m.result.Digest = digest
	return m.completeTarget(ctx, digest)
}
