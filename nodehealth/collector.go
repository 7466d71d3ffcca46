package nodehealth

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// scrapeTimeout is how long a scrape waits for the loop. After it the scrape is empty.
const scrapeTimeout = 2 * time.Second

// collector implements prometheus.Collector.
type collector struct {
	l     *Loop
	descs map[string]*prometheus.Desc
}

// Collector returns the metrics of the loop, with the prefix weir_health. It may be collected at
// any time. While Run does not run, it is empty.
func (l *Loop) Collector() prometheus.Collector {
	c := &collector{l, map[string]*prometheus.Desc{}}
	c.desc("nodes", "Nodes by state.", "state")
	c.desc("nodes_unknown_ratio", "Fraction of the nodes without a verdict.")
	c.desc("findings_total", "Findings by event.", "event")
	c.desc("repairs_total", "Repair actions by result: begun, succeeded, failed, or ended otherwise.", "action", "result")
	c.desc("refusals_total", "Refused repairs by gate.", "gate")
	c.desc("breaker_open", "1 if the breaker is open: too many nodes are unhealthy, and no node is repaired.")
	c.desc("zones_frozen", "Zones with too many unhealthy nodes.")
	c.desc("alarms", "Active alarms by kind.", "about")
	c.desc("rounds_total", "Observation rounds that ended.", "round")
	c.desc("round_seconds_total", "Total duration of the rounds.", "round")
	c.desc("round_last_seconds", "Duration of the last round.", "round")
	c.desc("round_lag_seconds", "Delay of the start of the last round.", "round")
	c.desc("rounds_missed_total", "Rounds skipped because an earlier round took too long.", "round")
	c.desc("round_errors_total", "Failed rounds.", "round")
	c.desc("save_errors_total", "Failed saves of the state.")
	c.desc("orders_held", "Orders that wait until the state is durable.")
	c.desc("lost_total", "Items dropped because a queue was full, by kind.", "what")
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

// metrics runs in the goroutine that owns the judge.
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
	for kind := range found.alarmKinds { // ended alarms too
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
