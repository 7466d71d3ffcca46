package autoscaler

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/resource"
)

const (
	historyRange  = 7 * 24 * time.Hour
	historyPoints = 5
)

// history reads what a unit of weight offered when the pool last had machines, once
// for each time that the pool is empty.
type history struct {
	store metrics.Store
	pool  metrics.Dimensions
	known *decide.History // nil: it has to be read when the pool is empty
}

// read returns the history of a pool with that target. It is empty while the target is
// above zero.
//
// The formula is Clusterman's: the mean of the last five points above zero of a
// resource's total, over the mean of the last five such points of the joined
// capacity, resource points only from between the first and last of those.
func (h *history) read(ctx context.Context, now time.Time, target float64) (decide.History, error) {
	if target > 0 {
		h.known = nil
		return decide.History{}, nil
	}
	if h.known != nil {
		return *h.known, nil
	}
	capacity, err := h.points(ctx, now, "non_orphan_fulfilled_capacity")
	if err != nil {
		return decide.History{}, err
	}
	var out decide.History
	capacity = lastAboveZero(capacity)
	for _, k := range resource.Kinds() {
		totals, err := h.points(ctx, now, k.String()+"_total")
		if err != nil {
			return decide.History{}, err
		}
		if perWeight, ok := perUnit(capacity, totals); ok {
			out.PerWeight = out.PerWeight.With(k, perWeight)
		}
	}
	h.known = &out
	return out, nil
}

func (h *history) points(ctx context.Context, now time.Time, name string) (metrics.Series, error) {
	series, err := h.store.Window(ctx, metrics.Query{
		Type: metrics.Metadata, Name: name, Dimensions: h.pool, From: now.Add(-historyRange), To: now,
	})
	if err != nil {
		return metrics.Series{}, fmt.Errorf("read history of %s: %w", name, err)
	}
	if len(series) == 0 {
		return metrics.Series{}, nil
	}
	return series[0], nil
}

// lastAboveZero returns the newest historyPoints points that are above zero.
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

// perUnit is the mean of totals over the mean of capacity; ok is false if either
// knows nothing.
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
