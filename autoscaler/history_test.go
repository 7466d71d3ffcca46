package autoscaler

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func TestEmptyPoolUsesItsHistory(t *testing.T) {
	t.Parallel()
	const capacity = "non_orphan_fulfilled_capacity"
	w := newWorld(t, []int{0}, "web")
	w.asks(sigproto.DefaultApp, 0)
	web := w.asks("web", 12)
	w.groups[0].Stock(0) // the provider has nothing yet
	w.now = w.now.Add(10 * time.Minute)
	pool := metrics.Dimensions{"cluster": "here", "pool": "default"}
	for i, x := range []float64{2, 4, 0} {
		age := time.Duration(9-i) * time.Minute
		w.write(metrics.Sample{Type: metrics.Metadata, Name: capacity, Dimensions: pool, Value: x}, age)
		w.write(metrics.Sample{Type: metrics.Metadata, Name: "cpus_total", Dimensions: pool, Value: x * cpusPerNode}, age)
	}
	w.store.fail["cpus_total"] = errors.New("not now")
	r := w.tick()
	if r.Case.Input.History.PerWeight != (resource.Request{}) || len(r.Problems) != 1 {
		t.Errorf("history %v, problems %q: want one problem", r.Case.Input.History.PerWeight, r.Problems)
	}
	delete(w.store.fail, "cpus_total")
	for range 3 {
		r = w.tick()
		if want := cpus(cpusPerNode); r.Case.Input.History.PerWeight != want || r.Result.Target != 3 {
			t.Errorf("history %v, target %v: want %v, 3", r.Case.Input.History.PerWeight, r.Result.Target, want)
		}
		wantOps(t, r) // the group was short for the tick before
	}
	if n := w.store.count(capacity); n != 2 {
		t.Errorf("the history was read %d times, want once in vain and once", n)
	}

	w.groups[0].Stock(100)
	w.now = w.now.Add(10 * time.Minute)
	wantOps(t, w.tick(), "set target a: 3")
	web.set(cpus(0), nil)
	for range 6 {
		r = w.tick()
	}
	if r.Case.Input.Capacity.Target != 0 || w.store.count(capacity) != 3 {
		t.Errorf("target %v, history read %d times: want 0 and once more", r.Case.Input.Capacity.Target, w.store.count(capacity))
	}
}

func TestEmptyPoolWithoutHistory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{0}, "web")
	w.asks(sigproto.DefaultApp, 0)
	w.asks("web", 12)
	wantOps(t, w.tick(), "set target a: 1")
}

func TestPerUnit(t *testing.T) {
	t.Parallel()
	line := func(points ...float64) metrics.Series { // time and value in turn
		var s metrics.Series
		for i := 0; i < len(points); i += 2 {
			s.Times, s.Values = append(s.Times, int64(points[i])), append(s.Values, points[i+1])
		}
		return s
	}
	tests := []struct {
		name             string
		capacity, totals metrics.Series
		want             float64
		known            bool
	}{
		{"nothing", line(), line(), 0, false},
		{"no totals", line(1, 2), line(), 0, false},
		{"no capacity", line(), line(1, 8), 0, false},
		{"one point", line(1, 2), line(1, 8), 4, true},
		{"means", line(1, 1, 2, 3), line(1, 4, 2, 12), 4, true},
		{"zeros do not count", line(1, 2, 3, 2), line(1, 8, 2, 0, 3, 8), 4, true},
		{"only from between", line(2, 2, 4, 2), line(1, 1000, 2, 8, 4, 8, 5, 1000), 4, true},
		{"none from between", line(2, 2, 4, 2), line(1, 8, 5, 8), 0, false},
		{"the last five of those", line(1, 1, 9, 1), line(1, 90, 2, 90, 3, 4, 4, 4, 5, 4, 6, 4, 9, 4), 4, true},
		{"no number", line(1, 1e-300, 2, 1e-300), line(1, 1e300), 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, ok := perUnit(test.capacity, test.totals)
			if ok != test.known || ok && got != test.want {
				t.Errorf("perUnit = %v, %t, want %v, %t", got, ok, test.want, test.known)
			}
		})
	}
}

func TestLastAboveZero(t *testing.T) {
	t.Parallel()
	in := metrics.Series{Times: []int64{1, 2, 3, 4, 5, 6, 7}, Values: []float64{1, 2, 0, 4, 5, -1, 7}}
	want := metrics.Series{Times: []int64{1, 2, 4, 5, 7}, Values: []float64{1, 2, 4, 5, 7}}
	if diff := cmp.Diff(want, lastAboveZero(in)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
