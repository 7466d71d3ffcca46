package simulation

import (
	"math"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

func TestEstimates(t *testing.T) {
	tests := []struct {
		xs   []float64
		want api.Estimate
	}{
		{[]float64{3}, api.Estimate{Mean: 3}},
		{[]float64{1, 3}, api.Estimate{Mean: 2, Half: 12.706}},
		{[]float64{1, 2, 3}, api.Estimate{Mean: 2, Half: 4.303 / math.Sqrt(3)}},
		{[]float64{5, 5, 5, 5}, api.Estimate{Mean: 5}},
	}
	for _, test := range tests {
		if got := estimate(test.xs); math.Abs(got.Mean-test.want.Mean) > 1e-9 || math.Abs(got.Half-test.want.Half) > 1e-9 {
			t.Errorf("estimate(%v) = %+v, want %+v", test.xs, got, test.want)
		}
	}
}

// A row is the mean of its seeds; the wait is the longest of all.
func TestRows(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	seed := func(cost, unmet float64) simulate.Result {
		return simulate.Result{
			From: at, To: at.Add(time.Hour), Ticks: 60, Cost: price.Money(cost * float64(price.Unit)), Wanted: resource.Vector{10}, Unmet: resource.Vector{unmet},
			Offered: resource.Vector{20}, Waited: time.Duration(unmet) * time.Minute, Launches: 3, Markets: []simulate.Market{{Hours: 2}, {Hours: 3}},
		}
	}
	rows := summaries(scenario{prices: &price.Prices{Currency: "USD"}}, []policy{{name: "a"}, {name: "b"}}, [][]simulate.Result{{seed(4, 2), seed(6, 4)}, {seed(1, 1), seed(1, 1)}})
	a := rows[0]
	if a.Cost.Mean != 5 || a.Unmet.Mean != 3 || a.UnmetShare != 0.3 || a.Used != 0.35 || a.Waited != 240 || a.Hours != 5 || a.Launches != 3 || a.Currency != "USD" {
		t.Errorf("row %+v", a)
	}
	if a.Dominated != "b" || rows[1].Dominated != "" {
		t.Errorf("beaten by %q and %q, want b and none", a.Dominated, rows[1].Dominated)
	}
	if rows := summaries(scenario{}, []policy{{name: "a"}}, [][]simulate.Result{{seed(4, 2)}}); rows[0].Cost != nil {
		t.Errorf("a scenario without prices costs %+v", rows[0].Cost)
	}
}
