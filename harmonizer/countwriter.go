package harmonizer

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/metrics"
)

const (
	writeTimeout = 10 * time.Second // of one write of samples
	writePause   = time.Second      // between two rounds
	writeChunk   = 10_000           // samples of one write, approximately

	// In a pool of more than manyLines apps, all lines are written only once in
	// manyLinesEvery. In between only changed lines are.
	manyLines      = 2000
	manyLinesEvery = 30 * time.Second
)

// countWriter writes counts in its own goroutine, so that a slow store does not block the
// loop. Only the newest counts of each pool wait.
type countWriter struct {
	cluster  string
	store    Metrics
	log      *slog.Logger
	logLimit *rate.Sometimes
	wake     alarm

	// Owned by run.
	pools   map[string]*poolLines
	samples []metrics.Sample // of the current chunk
	lines   []*line          // lines that the samples belong to
	names   []string

	mu      sync.Mutex
	pending map[string]pendingCounts
}

type pendingCounts struct {
	api.InstanceCounts
	whole bool // write all lines, changed or not
}

// poolLines is what the store has of one pool.
type poolLines struct {
	sum   line
	apps  map[string]*line
	whole time.Time // when all lines were last written
}

// line is one app, or the sum of a pool.
type line struct {
	dimensions metrics.Dimensions
	count      api.AppCount
	written    bool // the store has this count
}

func newCountWriter(cluster string, store Metrics, log *slog.Logger) *countWriter {
	return &countWriter{
		cluster: cluster, store: store, log: log, logLimit: oncePerMinute(),
		wake:    make(alarm, 1),
		pools:   map[string]*poolLines{},
		pending: map[string]pendingCounts{},
	}
}

// queueCounts queues counts to be written. It ignores incomplete counts: the store then has old
// values instead of false zeros.
func (r *countWriter) queueCounts(c api.InstanceCounts, whole bool) {
	if r.store == nil || !c.Complete {
		return
	}
	r.mu.Lock()
	r.pending[c.Pool] = pendingCounts{c, whole || r.pending[c.Pool].whole}
	r.mu.Unlock()
	r.wake.ring()
}

func (r *countWriter) takeCounts() map[string]pendingCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.pending
	r.pending = map[string]pendingCounts{}
	return all
}

// run writes until ctx ends. If a write fails, its lines are written with the next counts of
// the pool.
func (r *countWriter) run(ctx context.Context) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		}
		pause.Reset(writePause)
		pending := r.takeCounts()
		for _, pool := range slices.Sorted(maps.Keys(pending)) {
			if err := r.write(ctx, pending[pool]); err != nil && ctx.Err() == nil {
				r.logLimit.Do(func() { r.log.Error("instance counts not written", "pool", pool, "err", err) })
			}
		}
	}
}

// write writes the changed lines, or all lines if they are due. It writes one last zero for
// each app that is gone. It always writes the sum, even of a pool without apps.
func (r *countWriter) write(ctx context.Context, c pendingCounts) error {
	l := r.poolLines(c.Pool)
	all := c.whole && (len(c.Apps) <= manyLines || c.At.Sub(l.whole) >= manyLinesEvery)
	var sum api.AppCount
	r.names = slices.AppendSeq(r.names[:0], maps.Keys(c.Apps))
	slices.Sort(r.names)
	for _, name := range r.names {
		n := c.Apps[name]
		sum = sum.Add(n)
		if err := r.line(ctx, c.At, l.app(r.cluster, c.Pool, name), n, all); err != nil {
			return err
		}
	}
	r.names = r.names[:0]
	for name := range l.apps {
		if _, ok := c.Apps[name]; !ok {
			r.names = append(r.names, name)
		}
	}
	slices.Sort(r.names)
	for _, name := range r.names {
		if err := r.line(ctx, c.At, l.apps[name], api.AppCount{}, all); err != nil {
			return err
		}
	}
	if err := r.line(ctx, c.At, &l.sum, sum, true); err != nil {
		return err
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	for _, name := range r.names {
		delete(l.apps, name)
	}
	if all {
		l.whole = c.At
	}
	return nil
}

func (r *countWriter) poolLines(pool string) *poolLines {
	l := r.pools[pool]
	if l == nil {
		l = &poolLines{sum: line{dimensions: metrics.Dimensions{"cluster": r.cluster, "pool": pool}}, apps: map[string]*line{}}
		r.pools[pool] = l
	}
	return l
}

func (l *poolLines) app(cluster, pool, name string) *line {
	one := l.apps[name]
	if one == nil {
		one = &line{dimensions: metrics.Dimensions{"cluster": cluster, "pool": pool, "app": name}}
		l.apps[name] = one
	}
	return one
}

// line adds the samples of a line to the chunk, and writes a full chunk. It skips a line that
// the store has, unless again is set.
func (r *countWriter) line(ctx context.Context, at time.Time, l *line, n api.AppCount, again bool) error {
	if l.written && l.count == n && !again {
		return nil
	}
	l.count, l.written = n, false
	for _, v := range [...]struct {
		name  string
		value float64
	}{
		{"instances_expected", float64(n.Expected)},
		{"instances_running", float64(n.Running)},
		{"instances_missing", float64(n.Missing)},
		{"instances_flapping", float64(n.Flapping)},
		{"instances_crashed", float64(n.Crashed)},
		{"instances_extra", float64(n.Extra)},
		{"cpus_expected", n.CPUs},
		{"mem_expected", n.Mem},
		{"disk_expected", n.Disk},
	} {
		r.samples = append(r.samples, metrics.Sample{Type: metrics.InstanceCounts, Name: v.name, Dimensions: l.dimensions, Time: at, Value: v.value})
	}
	r.lines = append(r.lines, l)
	if len(r.samples) < writeChunk {
		return nil
	}
	return r.flush(ctx)
}

func (r *countWriter) flush(ctx context.Context) error {
	if len(r.samples) == 0 {
		return nil
	}
	defer func() { r.samples, r.lines = r.samples[:0], r.lines[:0] }()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := r.store.Write(ctx, r.samples); err != nil {
		return err
	}
	for _, l := range r.lines {
		l.written = true
	}
	return nil
}
