package placerd

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
)

// scrapeTimeout bounds the wait of a scrape for all placers.
const scrapeTimeout = 2 * time.Second

// collector implements prometheus.Collector.
type collector struct {
	*metric.Set
	all placers
}

// collector returns the metrics of the placers; their prefix is weir_placer.
func (all placers) collector() *collector {
	return &collector{metric.NewSet(metric.PlacerPrefix, metric.Placer()), all}
}

// Collector returns the metrics of a placer of another process than "weir placer".
func (p *Placer) Collector() prometheus.Collector { return placers{p}.collector() }

// Collect implements prometheus.Collector. A placer that does not respond has its lease only.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	for _, one := range c.all {
		put := func(name string, value float64) { c.Emit(ch, name, value, one.pool) }
		put("lease_epoch", float64(one.lease.Epoch()))
		put("lease_left_seconds", one.lease.Left().Seconds())
		s, err := one.Status(ctx)
		if err != nil {
			continue
		}
		c.Flag(ch, "placing", s.Placing, one.pool)
		put("nodes", float64(s.Nodes))
		put("starting_instances", float64(s.Starting))
		put("waiting_instances", float64(s.Waiting))
		put("stops_refused_total", float64(s.Refused))
		put("foreign_instances_total", float64(s.Foreign))
		put("messages_dropped_total", float64(s.Dropped))
	}
}
