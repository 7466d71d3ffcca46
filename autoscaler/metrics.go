package autoscaler

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/resource"
)

// poolMetrics reads and writes the metrics of one pool in the store.
type poolMetrics struct {
	store         metrics.Store
	cluster, pool string
	limit         func(context.Context, time.Duration) (context.Context, context.CancelFunc) // World.Limit
	timeout       time.Duration                                                              // of a write, and of reading the history
	past          *api.PoolHistory                                                           // read for an empty pool; nil: to be read
}

// write writes the metrics of the pool. It writes usage only if every joined node reports: a
// partial sum would appear as less demand.
func (m *poolMetrics) write(ctx context.Context, now time.Time, v *snapshot.Snapshot) error {
	ctx, cancel := m.limit(ctx, m.timeout)
	defer cancel()
	if err := m.store.Write(ctx, m.samples(now, v)); err != nil {
		return fmt.Errorf("write system metrics: %w", err)
	}
	return nil
}

func (m *poolMetrics) samples(now time.Time, v *snapshot.Snapshot) []metrics.Sample {
	pool := m.dimensions()
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
		d := metrics.Dimensions{"cluster": m.cluster, "pool": m.pool,
			"aws_instance_type": market[0], "aws_availability_zone": market[1]}
		add(metrics.Metadata, "fulfilled_capacity", d, weight)
	}
	return out
}

func (m *poolMetrics) dimensions() metrics.Dimensions {
	return metrics.Dimensions{"cluster": m.cluster, "pool": m.pool}
}

const (
	historyRange  = 7 * 24 * time.Hour
	historyPoints = 5
)

// history returns the resources per unit of weight when the pool last had machines. It is read once
// for each time that the pool is empty.
//
// The formula is Clusterman's. It is the mean of a resource's total over the mean of the joined
// capacity. Each mean is over the last five points above zero. Points of the resource count only
// between the first and the last of the capacity's points.
func (m *poolMetrics) history(ctx context.Context, now time.Time, target float64) (api.PoolHistory, error) {
	if target > 0 {
		m.past = nil
		return api.PoolHistory{}, nil
	}
	if m.past != nil {
		return *m.past, nil
	}
	ctx, cancel := m.limit(ctx, m.timeout)
	defer cancel()
	capacity, err := m.pastPoints(ctx, now, "non_orphan_fulfilled_capacity")
	if err != nil {
		return api.PoolHistory{}, err
	}
	var h api.PoolHistory
	capacity = lastAboveZero(capacity)
	for _, k := range resource.Kinds() {
		totals, err := m.pastPoints(ctx, now, k.String()+"_total")
		if err != nil {
			return api.PoolHistory{}, err
		}
		if perWeight, ok := perUnit(capacity, totals); ok {
			h.PerWeight = h.PerWeight.With(k, perWeight)
		}
	}
	m.past = &h
	return h, nil
}

func (m *poolMetrics) pastPoints(ctx context.Context, now time.Time, name string) (metrics.Series, error) {
	series, err := m.store.Window(ctx, metrics.Query{
		Type: metrics.Metadata, Name: name,
		Dimensions: m.dimensions(),
		From:       now.Add(-historyRange), To: now,
	})
	if err != nil {
		return metrics.Series{}, fmt.Errorf("read history of %s: %w", name, err)
	}
	if len(series) == 0 {
		return metrics.Series{}, nil
	}
	return series[0], nil
}

// lastAboveZero returns the newest historyPoints points above zero.
func lastAboveZero(s metrics.Series) metrics.Series {
	var out metrics.Series
	for i := len(s.Values) - 1; i >= 0 && len(out.Values) < historyPoints; i-- {
		if s.Values[i] > 0 {
			out.Times = append([]int64{s.Times[i]}, out.Times...)
			out.Values = append([]float64{s.Values[i]}, out.Values...)
		}
	}
	return out
}

// perUnit returns the mean of totals over the mean of capacity. If either has no points, ok is
// false.
func perUnit(capacity, totals metrics.Series) (x float64, ok bool) {
	if len(capacity.Times) == 0 {
		return 0, false
	}
	first, last := capacity.Times[0], capacity.Times[len(capacity.Times)-1]
	var between metrics.Series
	for i, t := range totals.Times {
		if t >= first && t <= last {
			between.Times = append(between.Times, t)
			between.Values = append(between.Values, totals.Values[i])
		}
	}
	between = lastAboveZero(between)
	if len(between.Values) == 0 {
		return 0, false
	}
	x = mean(between.Values) / mean(capacity.Values)
	return x, !math.IsNaN(x) && !math.IsInf(x, 0)
}

func mean(xs []float64) float64 {
	var sum float64
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}
