package harmonizer

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// scrapeTimeout is how long a scrape waits for the loop. Without an answer the scrape returns
// only the durations.
const scrapeTimeout = 2 * time.Second

// collector implements prometheus.Collector.
type collector struct {
	h *Harmonizer

	complete, leading, epoch, left, limitOn, nodes *prometheus.Desc
	noLeader, unwritten                            *prometheus.Desc
	queue, events, findings, longest, shadow       *prometheus.Desc
	users, reading                                 *prometheus.Desc

	// Both in the order of numbers.
	pools, labels []*prometheus.Desc
}

// Collector returns the harmonizer's metrics; their prefix is weir_harmonizer. It may be
// collected at any time. While Run does not run, most metrics are missing.
func (h *Harmonizer) Collector() prometheus.Collector {
	c := &collector{
		h:         h,
		complete:  desc("complete", "1: both states are complete, so that nudges may go out."),
		leading:   desc("leading", "1: this harmonizer acts; 0: it is a standby, or in shadow mode."),
		epoch:     desc("lease_epoch", "Takeovers of the lease so far."),
		left:      desc("lease_left_seconds", "Time until the lease expires without renewal; 0: not held."),
		limitOn:   desc("limit_held", "1: the disruption limit holds nudges, because too many instances or rows were lost at once."),
		noLeader:  desc("no_leader_seconds", "How long this harmonizer has seen no leader; 0: a leader exists."),
		unwritten: desc("unwritten_seconds", "How long sent nudges could not be recorded; 0: they can."),
		nodes:     desc("nodes", "Nodes that send heartbeats."),
		queue:     desc("queue_length", "Length of each queue: starts and stops, nudges to send, memories to save.", "of"),
		events:    desc("events_total", "Events, by name.", "event"),
		findings:  desc("findings_total", "Findings and decisions, by kind and reason.", "kind", "why"),
		longest:   desc("step_seconds_max", "Longest time that the state machine took for one event."),
		users:     desc("total_users", "Users, as reported by the source of the expected state."),
		reading:   desc("bulk_update_loop_duration_seconds", "Duration of the last complete read of a polled source."),
		shadow:    desc("shadow_acts_total", "In shadow mode: starts and stops that match, and those of one harmonizer only.", "outcome"),
	}
	for _, n := range numbers(apps.Totals{}) {
		c.pools = append(c.pools, desc(n.name, n.help+", by pool.", "pool"))
		c.labels = append(c.labels, desc("label_"+n.name, n.help+", by the value of a label of the app.", "label", "value"))
	}
	return c
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("weir_harmonizer_"+name, help, labels, nil)
}

// number is one of the totals, with the name that the classic health manager used.
type number struct {
	name, help string
	value      float64
}

func numbers(t apps.Totals) []number {
	return []number{
		{"apps", "Apps with a row", float64(t.Apps)},
		{"started_apps", "Apps that should run", float64(t.StartedApps)},
		{"instances", "Instances of apps with a row", float64(t.Instances)},
		{"started_instances", "Instances that should run", float64(t.StartedInstances)},
		{"running_instances", "Desired instances that run", float64(t.Running)},
		{"missing_instances", "Desired instances without a copy", float64(t.Missing)},
		{"crashed_instances", "Desired instances that crashed", float64(t.Crashed)},
		{"flapping_instances", "Desired instances whose restart is delayed after repeated crashes", float64(t.Flapping)},
		{"extra_instances", "Copies that should not run", float64(t.Extra)},
		{"rowless_instances", "Copies of apps that have no row and were not deleted; included in the extra instances", float64(t.Rowless)},
		{"crashes", "Recent crashes", float64(t.Crashes)},
		{"memory_megabytes", "Memory of the instances of apps with a row", t.Memory},
		{"started_memory_megabytes", "Memory of the instances that should run", t.StartedMemory},
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range slices.Concat([]*prometheus.Desc{
		c.complete, c.leading, c.epoch, c.left, c.limitOn, c.noLeader, c.unwritten, c.nodes, c.queue, c.events, c.findings, c.longest, c.shadow, c.users, c.reading,
	}, c.pools, c.labels) {
		ch <- d
	}
	c.h.steps.histogram.Describe(ch)
}

// scrape is the loop's part of the metrics.
type scrape struct {
	Status
	nodes int
	found map[cause]uint64
	read  time.Duration
}

func (h *Harmonizer) scrape(now time.Time) scrape {
	s := h.status(now, StatusQuery{Totals: true})
	return scrape{s, len(h.machine.View().Nodes()), maps.Clone(h.found), h.read}
}

// Varz returns the current numbers of the classic health manager. It waits for the loop, at
// most until ctx ends.
func (h *Harmonizer) Varz(ctx context.Context) (Varz, error) {
	var s scrape
	if err := h.call(ctx, func(now time.Time) { s = h.scrape(now) }); err != nil {
		return Varz{}, err
	}
	return s.varz(time.Duration(h.steps.longest.Load()), h.users.n.Load()), nil
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.h.steps.histogram.Collect(ch)
	out := sink{ch}
	out.gauge(c.longest, time.Duration(c.h.steps.longest.Load()).Seconds())
	out.gauge(c.leading, flag(c.h.Leading()))
	if lease := c.h.ports.Lease; lease != nil && !c.h.cfg.Shadow {
		out.gauge(c.epoch, float64(lease.Epoch()))
		out.gauge(c.left, max(0, lease.Left().Seconds()))
	}
	for name, n := range c.h.counters.snapshot() {
		out.counter(c.events, n, name)
	}
	if n := c.h.users.n.Load(); n >= 0 {
		out.gauge(c.users, float64(n))
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var s scrape
	if err := c.h.call(ctx, func(now time.Time) { s = c.h.scrape(now) }); err == nil {
		c.collect(out, s)
	}
}

func (c *collector) collect(out sink, s scrape) {
	out.gauge(c.complete, flag(s.Complete))
	out.gauge(c.limitOn, flag(s.DisruptionLimit.On()))
	out.gauge(c.noLeader, seconds(s.At, s.NoLeader))
	out.gauge(c.unwritten, seconds(s.At, s.Unwritten))
	out.gauge(c.nodes, float64(s.nodes))
	out.gauge(c.queue, float64(s.Queue.Starts), "starts")
	out.gauge(c.queue, float64(s.Queue.Stops), "stops")
	out.gauge(c.queue, float64(s.Queue.Send), "send")
	out.gauge(c.queue, float64(s.Queue.Save), "save")
	if s.read > 0 {
		out.gauge(c.reading, s.read.Seconds())
	}
	for pool, t := range s.Totals.Pools {
		out.numbers(c.pools, t, pool)
	}
	for label, values := range s.Totals.Labels {
		for value, t := range values {
			out.numbers(c.labels, t, label, value)
		}
	}
	for f, n := range s.found {
		out.counter(c.findings, n, string(f.kind), string(f.why))
	}
	if s.Shadow != nil {
		out.counter(c.shadow, s.Shadow.Matched, "matched")
		out.counter(c.shadow, s.Shadow.Own, "own")
		out.counter(c.shadow, s.Shadow.Other, "other")
		out.counter(c.shadow, s.Shadow.Dropped, "dropped")
	}
}

// sink makes metrics of numbers.
type sink struct{ ch chan<- prometheus.Metric }

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s.metric(d, prometheus.GaugeValue, v, labels)
}

func (s sink) counter(d *prometheus.Desc, v uint64, labels ...string) {
	s.metric(d, prometheus.CounterValue, float64(v), labels)
}

func (s sink) numbers(descs []*prometheus.Desc, t apps.Totals, labels ...string) {
	for i, n := range numbers(t) {
		s.gauge(descs[i], n.value, labels...)
	}
}

// metric skips an invalid metric, so that the whole scrape does not fail. A label value comes
// from a row and may be invalid text.
func (s sink) metric(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels []string) {
	if m, err := prometheus.NewConstMetric(d, kind, v, labels...); err == nil {
		s.ch <- m
	}
}

// seconds returns the seconds from since to now, 0 for a zero time.
func seconds(now, since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return now.Sub(since).Seconds()
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// durations are the times that the machine took for each event.
type durations struct {
	histogram prometheus.Histogram
	longest   atomic.Int64 // nanoseconds
}

func newDurations() *durations {
	return &durations{histogram: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "weir_harmonizer_step_seconds",
		Help:    "Time that the state machine took for one event.",
		Buckets: []float64{1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1},
	})}
}

// observe adds one duration. Only the loop calls it.
func (d *durations) observe(took time.Duration) {
	d.histogram.Observe(took.Seconds())
	if int64(took) > d.longest.Load() {
		d.longest.Store(int64(took))
	}
}
