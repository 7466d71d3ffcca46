package nodehealth

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// scrapeTimeout is how long a scrape waits for the loop; without its answer it is empty.
const scrapeTimeout = 2 * time.Second

// collector implements prometheus.Collector.
type collector struct {
	l     *Loop
	descs map[string]*prometheus.Desc
}

// Collector returns the metrics of the loop, prefix weir_health. It may be collected at
// any time; while Run does not run there is nothing to see.
func (l *Loop) Collector() prometheus.Collector {
	c := &collector{l, map[string]*prometheus.Desc{}}
	c.desc("nodes", "Nodes by state.", "state")
	c.desc("nodes_unknown_ratio", "The part of the nodes of which nothing is known now.")
	c.desc("findings_total", "What was found and decided.", "event")
	c.desc("repairs_total", "Actions of repairs: begun, succeeded, failed, or ended without either.", "action", "result")
	c.desc("refusals_total", "Repairs that a gate refused.", "gate")
	c.desc("breaker_open", "1: too many of the pool are sick, and nothing is repaired.")
	c.desc("zones_frozen", "Zones of which too many nodes are sick.")
	c.desc("alarms", "Alarms that stand.", "about")
	c.desc("rounds_total", "Rounds of observing that ended.", "round")
	c.desc("round_seconds_total", "What they took.", "round")
	c.desc("round_last_seconds", "What the last one took.", "round")
	c.desc("round_lag_seconds", "How late the last one began.", "round")
	c.desc("rounds_missed_total", "Rounds that were left out, as one took too long.", "round")
	c.desc("round_errors_total", "Rounds that came to nothing.", "round")
	c.desc("save_errors_total", "How often the state could not be saved.")
	c.desc("orders_held", "Orders that wait until the state is durable.")
	c.desc("lost_total", "What found no room, by what it was.", "what")
	return c
}

func (c *collector) desc(name, help string, labels ...string) {
	c.descs[name] = prometheus.NewDesc("weir_health_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var out []prometheus.Metric
	if err := c.l.mail.ask(ctx, func(time.Time, *judge.Judge) { out = c.metrics() }); err != nil {
		return
	}
	for _, m := range out {
		ch <- m
	}
}

// metrics is for the goroutine that owns the judge.
func (c *collector) metrics() (out []prometheus.Metric) {
	emit := func(kind prometheus.ValueType, name string, v float64, labels ...string) {
		out = append(out, prometheus.MustNewConstMetric(c.descs[name], kind, v, labels...))
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	census, found, total := c.l.judge.Census(), c.l.announcer, 0
	for state, n := range census.States {
		total += n
		emit(gauge, "nodes", float64(n), string(state))
	}
	emit(gauge, "nodes_unknown_ratio", float64(census.Unknown)/float64(max(1, total)))
	open, frozen := 0.0, 0
	for _, b := range c.l.judge.State().Breakers {
		switch {
		case b.Open && b.Pool:
			open = 1
		case b.Open:
			frozen++
		}
	}
	emit(gauge, "breaker_open", open)
	emit(gauge, "zones_frozen", float64(frozen))
	about := map[string]int{}
	for key := range found.alarms {
		about[kindOf(key)]++
	}
	for kind := range found.alarmKinds { // those that ended too
		emit(gauge, "alarms", float64(about[kind]), kind)
	}
	for event, n := range found.events {
		emit(counter, "findings_total", float64(n), string(event))
	}
	for of, n := range found.repairs {
		emit(counter, "repairs_total", float64(n), of[0], of[1])
	}
	for gate, n := range found.gates {
		emit(counter, "refusals_total", float64(n), string(gate))
	}
	for name, r := range c.l.rounds.table {
		emit(counter, "rounds_total", float64(r.ended), name)
		emit(counter, "round_seconds_total", r.took.Seconds(), name)
		emit(gauge, "round_last_seconds", r.Took.Seconds(), name)
		emit(gauge, "round_lag_seconds", r.Lag.Seconds(), name)
		emit(counter, "rounds_missed_total", float64(r.Missed), name)
		emit(counter, "round_errors_total", float64(r.failed), name)
	}
	emit(counter, "save_errors_total", float64(c.l.memory.failed))
	emit(gauge, "orders_held", float64(c.l.actor.held))
	for what, n := range c.l.mail.losses() {
		emit(counter, "lost_total", float64(n), what)
	}
	return out
}
