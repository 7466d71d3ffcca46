package autoscaler

import (
	"context"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/resource"
)

// writeMetrics keeps what the pool is now. Usage is written only when every
// node that joined has been heard: half a sum would look like less demand.
func (l *Loop) writeMetrics(ctx context.Context, now time.Time, v *snapshot.Snapshot) error {
	ctx, cancel := context.WithTimeout(ctx, l.config.stepTimeout())
	defer cancel()
	if err := l.world.Metrics.Write(ctx, l.samples(now, v)); err != nil {
		return fmt.Errorf("write system metrics: %w", err)
	}
	return nil
}

func (l *Loop) samples(now time.Time, v *snapshot.Snapshot) []metrics.Sample {
	pool := metrics.Dimensions{"cluster": l.config.Cluster, "pool": l.config.Pool}
	var out []metrics.Sample
	add := func(t metrics.Type, name string, d metrics.Dimensions, x float64) {
		out = append(out, metrics.Sample{Type: t, Name: name, Dimensions: d, Time: now, Value: x})
	}
	if len(v.Silent) == 0 {
		for _, k := range resource.Kinds() {
			add(metrics.System, k.String()+"_allocated", pool, v.Allocated[k])
			add(metrics.Metadata, k.String()+"_total", pool, v.Totals[k])
		}
		add(metrics.Metadata, "non_orphan_fulfilled_capacity", pool, v.Joined)
	}
	add(metrics.Metadata, "target_capacity", pool, v.Target)
	byMarket := map[[2]string]float64{}
	for _, n := range v.Nodes {
		byMarket[[2]string{n.Instance.Market.InstanceType, n.Instance.Market.Zone}] += n.Instance.Weight
	}
	for market, weight := range byMarket {
		d := metrics.Dimensions{"cluster": l.config.Cluster, "pool": l.config.Pool,
			"aws_instance_type": market[0], "aws_availability_zone": market[1]}
		add(metrics.Metadata, "fulfilled_capacity", d, weight)
	}
	return out
}
