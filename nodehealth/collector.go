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
	l *Loop

	nodes, unknown, events, repairs, refusals, breaker, zones, alarms         *prometheus.Desc
	rounds, roundTook, roundLast, roundLag, missed, errors, saves, held, lost *prometheus.Desc
}

// Collector returns the metrics of the loop, prefix weir_health. It may be collected at
// any time; while Run does not run there is nothing to see.
func (l *Loop) Collector() prometheus.Collector {
	return &collector{
		l:         l,
		nodes:     desc("nodes", "Nodes by state.", "state"),
		unknown:   desc("nodes_unknown_ratio", "The part of the nodes of which nothing is known now."),
		events:    desc("findings_total", "What was found and decided.", "event"),
		repairs:   desc("repairs_total", "Actions of repairs: begun, succeeded, failed, or ended without either.", "action", "result"),
		refusals:  desc("refusals_total", "Repairs that a gate refused.", "gate"),
		breaker:   desc("breaker_open", "1: too many of the pool are sick, and nothing is repaired."),
		zones:     desc("zones_frozen", "Zones of which too many nodes are sick."),
		alarms:    desc("alarms", "Alarms that stand.", "about"),
		rounds:    desc("rounds_total", "Rounds of observing that ended.", "round"),
		roundTook: desc("round_seconds_total", "What they took.", "round"),
		roundLast: desc("round_last_seconds", "What the last one took.", "round"),
		roundLag:  desc("round_lag_seconds", "How late the last one began.", "round"),
		missed:    desc("rounds_missed_total", "Rounds that were left out, as one took too long.", "round"),
		errors:    desc("round_errors_total", "Rounds that came to nothing.", "round"),
		saves:     desc("save_errors_total", "How often the state could not be saved."),
		held:      desc("orders_held", "Orders that wait until the state is durable."),
		lost:      desc("lost_total", "What found no room, by what it was.", "what"),
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("weir_health_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.nodes, c.unknown, c.events, c.repairs, c.refusals, c.breaker, c.zones, c.alarms,
		c.rounds, c.roundTook, c.roundLast, c.roundLag, c.missed, c.errors, c.saves, c.held, c.lost} {
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
func (c *collector) metrics() []prometheus.Metric {
	var out sheet
	census := c.l.judge.Census()
	total := 0
	for state, n := range census.States {
		total += n
		out.gauge(c.nodes, float64(n), string(state))
	}
	out.gauge(c.unknown, float64(census.Unknown)/float64(max(1, total)))
	c.safety(&out)
	for event, n := range c.l.announcer.events {
		out.counter(c.events, float64(n), string(event))
	}
	for of, n := range c.l.announcer.repairs {
		out.counter(c.repairs, float64(n), of[0], of[1])
	}
	for gate, n := range c.l.announcer.gates {
		out.counter(c.refusals, float64(n), string(gate))
	}
	c.observing(&out)
	out.counter(c.saves, float64(c.l.memory.failed))
	out.gauge(c.held, float64(c.l.actor.held))
	for what, n := range c.l.mail.losses() {
		out.counter(c.lost, float64(n), what)
	}
	return out
}

func (c *collector) safety(out *sheet) {
	open, frozen := 0.0, 0
	for _, b := range c.l.judge.State().Breakers {
		switch {
		case b.Open && b.Pool:
			open = 1
		case b.Open:
			frozen++
		}
	}
	out.gauge(c.breaker, open)
	out.gauge(c.zones, float64(frozen))
	about := map[string]int{}
	for key := range c.l.announcer.alarms {
		about[kindOf(key)]++
	}
	for kind := range c.l.announcer.alarmKinds { // those that ended too
		out.gauge(c.alarms, float64(about[kind]), kind)
	}
}

func (c *collector) observing(out *sheet) {
	for name, r := range c.l.rounds.table {
		out.counter(c.rounds, float64(r.ended), name)
		out.counter(c.roundTook, r.took.Seconds(), name)
		out.gauge(c.roundLast, r.Took.Seconds(), name)
		out.gauge(c.roundLag, r.Lag.Seconds(), name)
		out.counter(c.missed, float64(r.Missed), name)
		out.counter(c.errors, float64(r.failed), name)
	}
}

// sheet collects metrics.
type sheet []prometheus.Metric

func (s *sheet) gauge(d *prometheus.Desc, v float64, labels ...string) {
	*s = append(*s, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...))
}

func (s *sheet) counter(d *prometheus.Desc, v float64, labels ...string) {
	*s = append(*s, prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...))
}
