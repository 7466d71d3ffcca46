package nodehealth

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// scrapeTimeout is how long a scrape waits for the loop. After it the scrape is empty.
const scrapeTimeout = 2 * time.Second

// collector implements prometheus.Collector.
type collector struct {
	l *Loop
	*metric.Set
}

// sample is one value, with its name and labels.
type sample struct {
	name   string
	value  float64
	labels []string
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var out []sample
	if err := c.l.mail.do(ctx, func(time.Time, *judge.Judge) { out = c.metrics() }); err != nil {
		return
	}
	for _, one := range out {
		c.Emit(ch, one.name, one.value, one.labels...)
	}
}

// metrics runs in the goroutine that owns the judge.
func (c *collector) metrics() (out []sample) {
	emit := func(name string, v float64, labels ...string) { out = append(out, sample{name, v, labels}) }
	census, found, total := c.l.judge.Census(), c.l.announcer, 0
	for state, n := range census.States {
		total += n
		emit("nodes", float64(n), string(state))
	}
	emit("nodes_unknown_ratio", float64(census.Unknown)/float64(max(1, total)))
	open, frozen := 0.0, 0
	for _, b := range c.l.judge.State().Breakers {
		switch {
		case b.Open && b.Pool:
			open = 1
		case b.Open:
			frozen++
		}
	}
	emit("breaker_open", open)
	emit("zones_frozen", float64(frozen))
	about := map[string]int{}
	for key := range found.alarms {
		about[kindOf(key)]++
	}
	for kind := range found.alarmKinds { // ended alarms too
		emit("alarms", float64(about[kind]), kind)
	}
	for event, n := range found.events {
		emit("findings_total", float64(n), string(event))
	}
	for of, n := range found.repairs {
		emit("repairs_total", float64(n), of[0], of[1])
	}
	for gate, n := range found.gates {
		emit("refusals_total", float64(n), string(gate))
	}
	for name, r := range c.l.rounds.table {
		emit("rounds_total", float64(r.ended), name)
		emit("round_seconds_total", r.took.Seconds(), name)
		emit("round_last_seconds", r.Took.Seconds(), name)
		emit("round_lag_seconds", r.Lag.Seconds(), name)
		emit("rounds_missed_total", float64(r.Missed), name)
		emit("round_errors_total", float64(r.failed), name)
	}
	emit("save_errors_total", float64(c.l.memory.failed))
	emit("orders_held", float64(c.l.actor.held))
	for what, n := range c.l.mail.losses() {
		emit("lost_total", float64(n), what)
	}
	return out
}
