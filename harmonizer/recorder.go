package harmonizer

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/metrics"
)

// writeTimeout bounds one write of samples.
const writeTimeout = 10 * time.Second

// Metrics keeps samples: the part of a metrics.Store that is needed here.
type Metrics interface {
	Write(ctx context.Context, samples []metrics.Sample) error
}

// recorder writes counts beside the loop, so that a slow store holds up nothing:
// of each pool the newest counts wait, older ones are left out.
type recorder struct {
	cluster  string
	store    Metrics
	log      *slog.Logger
	complain rate.Sometimes
	wake     chan struct{}
	written  map[string]map[string]bool // pool -> apps that the store has a line of; owned by run

	mu      sync.Mutex
	pending map[string]message.Counts
}

func newRecorder(cluster string, store Metrics, log *slog.Logger) *recorder {
	return &recorder{
		cluster:  cluster,
		store:    store,
		log:      log,
		complain: rate.Sometimes{Interval: time.Minute},
		wake:     make(chan struct{}, 1),
		written:  map[string]map[string]bool{},
		pending:  map[string]message.Counts{},
	}
}

// keep has the counts written. Counts that are not complete are not: what is
// read then is old, and not a zero that nobody counted.
func (r *recorder) keep(c message.Counts) {
	if r.store == nil || !c.Complete {
		return
	}
	r.mu.Lock()
	r.pending[c.Pool] = c
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *recorder) take() []message.Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.pending
	r.pending = map[string]message.Counts{}
	return slices.Collect(maps.Values(all))
}

// run writes until ctx ends. Counts that could not be written are lost: newer
// ones follow within a heartbeat period.
func (r *recorder) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		}
		for _, c := range r.take() {
			if err := r.write(ctx, c); err != nil && ctx.Err() == nil {
				r.complain.Do(func() { r.log.Error("write instance counts", "pool", c.Pool, "err", err) })
			}
		}
	}
}

func (r *recorder) write(ctx context.Context, c message.Counts) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	apps := r.written[c.Pool]
	if err := r.store.Write(ctx, r.samples(c, apps)); err != nil {
		return err
	}
	apps = make(map[string]bool, len(c.Apps))
	for name := range c.Apps {
		apps[name] = true
	}
	r.written[c.Pool] = apps
	return nil
}

// samples are a line for each app, one last zero for each of before that is
// gone, and one for the pool, which is there even if it has no apps.
func (r *recorder) samples(c message.Counts, before map[string]bool) []metrics.Sample {
	var out []metrics.Sample
	var sum message.AppCount
	for _, name := range slices.Sorted(maps.Keys(c.Apps)) {
		sum = sum.Add(c.Apps[name])
		out = r.line(out, c, name, c.Apps[name])
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, ok := c.Apps[name]; !ok {
			out = r.line(out, c, name, message.AppCount{})
		}
	}
	return r.line(out, c, "", sum)
}

// line appends the samples of one app, or of the pool if app is empty.
func (r *recorder) line(out []metrics.Sample, c message.Counts, app string, n message.AppCount) []metrics.Sample {
	d := metrics.Dimensions{"cluster": r.cluster, "pool": c.Pool}
	if app != "" {
		d["app"] = app
	}
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
		out = append(out, metrics.Sample{Type: metrics.InstanceCounts, Name: v.name, Dimensions: d, Time: c.At, Value: v.value})
	}
	return out
}
