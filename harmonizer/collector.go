package harmonizer

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
)

// scrapeTimeout is how long a scrape waits for the loop. Without an answer the scrape returns
// only the durations.
const scrapeTimeout = 2 * time.Second

// collector implements prometheus.Collector.
type collector struct {
	h *Harmonizer
	*metric.Set
}

// Collector returns the harmonizer's metrics; their prefix is weir_harmonizer. It may be
// collected at any time. While Run does not run, most metrics are missing.
func (h *Harmonizer) Collector() prometheus.Collector {
	return &collector{h, metric.NewSet(metric.HarmonizerPrefix, metric.Harmonizer())}
}

// megabyte is a megabyte of an app's memory, in bytes.
const megabyte = 1 << 20

// numbers returns the values of a total, in the order of metric.HarmonizerNumbers.
func numbers(t api.PoolTotals) []float64 {
	return []float64{
		float64(t.Apps), float64(t.StartedApps), float64(t.Instances), float64(t.StartedInstances), float64(t.Running),
		float64(t.Missing), float64(t.Crashed), float64(t.Flapping), float64(t.Extra), float64(t.Rowless), float64(t.Crashes),
		t.Memory, t.StartedMemory, t.Memory * megabyte, t.StartedMemory * megabyte, float64(t.Halted),
	}
}

// scrape is the loop's part of the metrics.
type scrape struct {
	api.HarmonizerStatus
	nodes int
	found map[cause]uint64
}

func (h *Harmonizer) scrape(now time.Time) scrape {
	s := h.status(now, api.HarmonizerQuery{Totals: true})
	return scrape{s, len(h.machine.View().Nodes()), maps.Clone(h.found)}
}

// Durations returns the longest step so far, and the last complete pass of a polled source with its application.
func (h *Harmonizer) Durations() (step, pass time.Duration) {
	return time.Duration(h.steps.longest.Load()), time.Duration(h.steps.pass.Load())
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	c.h.steps.histogram.Collect(ch)
	out := sink{c.Set, ch}
	step, pass := c.h.Durations()
	out.Emit(ch, "step_seconds_max", step.Seconds())
	if pass > 0 {
		out.value("bulk_update_loop_duration_seconds", pass.Seconds())
	}
	out.Flag(ch, "leading", c.h.Leading())
	if lease := c.h.ports.Lease; lease != nil && !c.h.cfg.Shadow {
		out.value("lease_epoch", float64(lease.Epoch()))
		out.value("lease_left_seconds", max(0, lease.Left().Seconds()))
	}
	for name, n := range c.h.counters.snapshot() {
		out.value("events_total", float64(n), name)
	}
	if n := c.h.cfg.CloudFoundry.Users.Number(); n >= 0 {
		out.value("total_users", float64(n))
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var s scrape
	if err := c.h.call(ctx, func(now time.Time) { s = c.h.scrape(now) }); err == nil {
		out.collect(s)
	}
}

// sink sends the metrics of one scrape.
type sink struct {
	*metric.Set
	ch chan<- prometheus.Metric
}

func (s sink) value(name string, value float64, labels ...string) {
	s.Emit(s.ch, name, value, labels...)
}

func (out sink) collect(s scrape) {
	out.Flag(out.ch, "complete", s.Complete)
	out.Flag(out.ch, "limit_held", s.DisruptionLimit.On())
	out.value("no_leader_seconds", seconds(s.At, s.NoLeader))
	out.value("unwritten_seconds", seconds(s.At, s.Unwritten))
	oldest := time.Time{}
	if len(s.Unanswered) > 0 {
		oldest = s.Unanswered[0].Since
	}
	out.value("unanswered_requests", float64(s.UnansweredApps))
	out.value("unanswered_seconds", seconds(s.At, oldest))
	out.value("nodes", float64(s.nodes))
	out.value("queue_length", float64(s.Queue.Starts), "starts")
	out.value("queue_length", float64(s.Queue.Stops), "stops")
	out.value("queue_length", float64(s.Queue.Send), "send")
	out.value("queue_length", float64(s.Queue.Save), "save")
	for pool, values := range bounded(s.Totals.Pools) {
		out.numbers("", values, pool)
	}
	for _, label := range slices.Sorted(maps.Keys(s.Totals.Labels))[:min(maxLabels, len(s.Totals.Labels))] {
		for value, values := range bounded(s.Totals.Labels[label]) {
			out.numbers("label_", values, label, value)
		}
	}
	for f, n := range s.found {
		out.value("findings_total", float64(n), string(f.kind), string(f.why))
	}
	if s.Shadow != nil {
		out.value("shadow_acts_total", float64(s.Shadow.Matched), "matched")
		out.value("shadow_acts_total", float64(s.Shadow.Own), "own")
		out.value("shadow_acts_total", float64(s.Shadow.Other), "other")
		out.value("shadow_acts_total", float64(s.Shadow.Dropped), "dropped")
	}
}

// maxLabels bounds the labels of apps that have metrics: the first ones in order.
const maxLabels = 10

// bounded returns the values of totals for a bounded number of label values.
func bounded(totals map[string]api.PoolTotals) map[string][]float64 {
	values := make(map[string][]float64, len(totals))
	for name, t := range totals {
		values[name] = numbers(t)
	}
	return metric.Groups(values, func(name string) string { return name }, func(a, b []float64) []float64 {
		sum := slices.Clone(a)
		for i := range sum {
			sum[i] += b[i]
		}
		return sum
	})
}

func (s sink) numbers(prefix string, values []float64, labels ...string) {
	for i, n := range metric.HarmonizerNumbers() {
		s.value(prefix+n.Name, values[i], labels...)
	}
}

// seconds returns the seconds from since to now, 0 for a zero time.
func seconds(now, since time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return now.Sub(since).Seconds()
}
