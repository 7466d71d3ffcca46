package placer

import (
	"context"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	provider "github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// shipped is a signal that weir ships, with the metrics of the last minute.
type shipped struct {
	w       *autoscaled
	signal  signals.Signal
	windows map[string]signals.Series
}

func (s *shipped) Evaluate(ctx context.Context, _ sigproto.Evaluation) (sigproto.Response, error) {
	var allocated, expected resource.Vector
	for _, n := range s.w.nodes {
		allocated = allocated.Add(n.used())
	}
	for _, row := range s.w.rows {
		expected = expected.Add(row.Footprint().Scale(float64(row.Instances)))
	}
	for _, one := range (packer{s.w.c}).neverPlaced(s.w.now) { // as the harmonizer does
		expected = expected.Sub(one.Footprint.Scale(float64(one.Copies)))
	}
	for _, k := range []resource.Kind{resource.CPUs, resource.Mem} {
		s.write(k.String()+"_allocated", allocated[k])
		s.write(k.String()+"_expected", expected[k])
	}
	for _, m := range pendingSamples(s.w.c.pending(), s.w.now, "c", "p") {
		s.write(m.Name, m.Value)
	}
	got, err := s.signal.Value(ctx, signals.Input{App: "apps", Metrics: s.windows})
	if err != nil {
		return sigproto.Response{}, err
	}
	return response(got), nil
}

func response(r resource.Request) sigproto.Response {
	cpus, _ := r.Get(resource.CPUs)
	mem, _ := r.Get(resource.Mem)
	return sigproto.Response{Resources: sigproto.Resources{CPUs: &cpus, Mem: &mem}, Verdict: sigproto.VerdictValue}
}

// write adds a value to a window, and removes values that are older than a minute.
func (s *shipped) write(name string, value float64) {
	of := s.windows[name]
	of.Times, of.Values = append(of.Times, s.w.now.Unix()), append(of.Values, value)
	for len(of.Times) > 1 && of.Times[0] < s.w.now.Add(-time.Minute).Unix() {
		of.Times, of.Values = of.Times[1:], of.Values[1:]
	}
	s.windows[name] = of
}

func (*shipped) Close() error { return nil }

// unitPool returns a pool of two groups of machines of one cpu, whose target follows a shipped signal at a setpoint of 80 %.
func unitPool(name string) *autoscaled {
	w := newAutoscaled(2)
	w.loop.Close()
	w.loop, w.config.Headroom, w.groups, w.tick = nil, nil, nil, 2*time.Second
	for _, id := range []string{"a", "b"} {
		g := &sizedGroup{size: resource.Vector{1, 1024}, weight: 1, max: 10, offered: true}
		g.Group = provider.New(provider.Config{
			ID: id, Min: 1, Max: g.max, Target: 1, Join: w.tick, Leave: w.tick, Offers: []provider.Offer{{Market: pools.Market{InstanceType: "m", Zone: "z0"}, Weight: 1}},
		}, w.now)
		w.groups = append(w.groups, g)
	}
	w.config.Tick, w.config.Default.Period = w.tick, w.tick
	w.config.Policy = api.DecisionPolicy{
		Setpoint: 0.8, MarginUp: 0.1, MarginDown: 0.1, Combine: api.CombineSum, Period: w.tick, Limits: api.TargetLimits{Min: 2, Max: 20, MaxAdd: 10, MaxRemove: 5},
	}
	signal, err := builtin.Named(name)
	if err != nil {
		panic(err)
	}
	w.signal = &shipped{w: w, signal: signal, windows: map[string]signals.Series{}}
	return w
}

// A pool follows each shipped signal to rest: five copies of 0.6 cpus get five machines of one cpu; the sums need four. A
// copy that no machine can hold raises no request. Without places, the target of `pending` alternates for ever.
func TestShippedSignalsRest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		signal  string
		without bool // places
	}{{"default", false}, {"instance_count", false}, {"pending", false}, {"pending", true}} {
		name := test.signal
		if test.without {
			name += " without places"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := unitPool(test.signal)
			w.config.IgnorePlaces = test.without
			w.begin()
			defer func() { w.loop.Close() }()
			w.setApp(api.App{Name: "wide", Pool: "p", Version: "v1", Command: "run", Instances: 5, CPUs: 0.6, Mem: 64})
			for range 10 {
				w.step()
			}
			if !test.without {
				w.setApp(api.App{Name: "typo", Pool: "p", Version: "v1", Command: "run", Instances: 1, CPUs: 50, Mem: 64})
			}
			for range 60 {
				w.step()
			}
			changes := 0
			for range 60 {
				if w.step(); len(w.changed) > 0 {
					changes++
				}
				if x, _ := w.last.Case.Input.Default.Request.Get(resource.CPUs); !test.without && x > 3+resource.Slack {
					t.Errorf("the request is %v cpus, want 3", x)
				}
			}
			if test.without {
				if changes < 5 {
					t.Errorf("%d of 60 ticks change the pool, want it to alternate", changes)
				}
				return
			}
			if waits := w.waits(); changes > 0 || w.weight() != 5 || len(waits) != 1 || waits[0].app != "typo" {
				t.Errorf("%d changes at rest, the weight is %v, %v wait: %s", changes, w.weight(), waits, w.describe())
			}
			for _, p := range w.problems {
				t.Error(p)
			}
		})
	}
}
