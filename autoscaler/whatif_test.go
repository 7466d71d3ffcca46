package autoscaler

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// full returns a pool of two groups of two nodes, each with three copies of a cpu.
func full(t *testing.T) *world {
	w := newWorld(t, []int{2, 2}, "web")
	w.schedule()
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 4*cpusPerNode)
	w.tick()
	for _, id := range w.instances() {
		w.nodes.change(func(n *nodes) { n.tasks[id] = 3 })
	}
	w.tick()
	w.forbid()
	w.clock = func() time.Time { return w.now }
	return w
}

func (w *world) whatIf(what api.WhatIf) api.TickRecord {
	w.t.Helper()
	r, err := w.loop.Preview(w.t.Context(), what)
	if err != nil {
		w.t.Fatal(err)
	}
	wantExplained(w.t, r)
	return r
}

// Each copy of a machine that is away has its new place. Nothing changes.
func TestPreviewWithoutMachines(t *testing.T) {
	t.Parallel()
	w := full(t)
	before := w.whatIf(api.WhatIf{})
	r := w.whatIf(api.WhatIf{Without: []string{"node/a-1"}})
	if got := r.Case.Input.Capacity; got.Joined != 3 || got.Totals[resource.CPUs] != 3*cpusPerNode || r.Snapshot.Fulfilled != 3 {
		t.Errorf("capacity %+v, %v exists, want three nodes", got, r.Snapshot.Fulfilled)
	}
	if p := r.Case.Places; p == nil || p.MovesCount != 3 {
		t.Fatalf("places %+v, want three moves", p)
	}
	for _, m := range r.Case.Places.Moves {
		if m.From != "a-1" || (m.To == "") == (m.Group == "") {
			t.Errorf("move %+v, want one from a-1 to a node or a group", m)
		}
	}
	again := w.whatIf(api.WhatIf{})
	wantJSON(t, "the preview after it", again.Result, before.Result)
	if again.Case.Places.Moves != nil {
		t.Errorf("the usual preview lists %v", again.Case.Places.Moves)
	}
}

// Other groups replace a group that is away. A group whose zone is away gets no machine either.
func TestPreviewWithoutAGroup(t *testing.T) {
	t.Parallel()
	w := full(t)
	r := w.whatIf(api.WhatIf{Without: []string{"group/a"}})
	if r.Result.Groups["a"] != 0 || r.Result.Groups["b"] != 4 || r.Case.Places.MovesCount != 6 {
		t.Errorf("targets %v, %d moves, want 4 in group b, and 6 moves", r.Result.Groups, r.Case.Places.MovesCount)
	}
	r = w.whatIf(api.WhatIf{Without: []string{"zone/zone-a"}})
	if r.Result.Groups["a"]+r.Result.Groups["b"] != 0 || r.Case.Places.MovesCount != 12 {
		t.Errorf("without the only zone: targets %v, %d moves", r.Result.Groups, r.Case.Places.MovesCount)
	}
	for _, m := range r.Case.Places.Moves {
		if !strings.Contains(m.Why, "its zone is away by assumption") {
			t.Errorf("move %+v, want why it has no place", m)
		}
	}
}

// An assumed request counts in place of the signal's, for the kinds that it names.
func TestPreviewWithAnotherNeed(t *testing.T) {
	t.Parallel()
	w := full(t)
	r := w.whatIf(api.WhatIf{Need: map[string]resource.Request{"web": resource.Request{}.With(resource.CPUs, 10*cpusPerNode)}})
	if r.Result.Target != 10 {
		t.Errorf("target %v, want 10: %+v", r.Result.Target, r.Result.Steps)
	}
	for _, bad := range []struct {
		what api.WhatIf
		want string
	}{
		{api.WhatIf{Need: map[string]resource.Request{"wbe": {}}}, `need of app "wbe": no signal of the pool is for this app`},
		{api.WhatIf{Without: []string{"node/none"}}, `without "node/none": the pool has no such machine; want node/ID, group/ID or zone/NAME`},
	} {
		if _, err := w.loop.Preview(t.Context(), bad.what); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%+v: %v, want %q", bad.what, err, bad.want)
		}
	}
}

// Assumed prices change the decision of a pool that distributes by price, and nothing else.
func TestPlanWithOtherPrices(t *testing.T) {
	t.Parallel()
	w, web := priced(t, map[string]float64{"a": 0.2, "b": 0.15}, 2, 2)
	w.tick()
	web.set(cpus(6*cpusPerNode), nil)
	w.tick()
	for _, c := range []struct {
		factors []api.PriceFactor
		want    string
	}{
		{nil, "[a 2 -> 2 b 4 -> 6]"},
		{[]api.PriceFactor{{Of: "spot", By: 2}}, "[a 2 -> 4 b 4 -> 4]"},
		{[]api.PriceFactor{{Of: "group/a", By: 0.5}}, "[a 2 -> 4 b 4 -> 4]"},
		{[]api.PriceFactor{{Of: "b", By: 3}, {Of: "on-demand", By: 3}}, "[a 2 -> 2 b 4 -> 6]"},
	} {
		r := w.whatIf(api.WhatIf{Prices: c.factors, Need: map[string]resource.Request{"web": resource.Request{}.With(resource.CPUs, 8*cpusPerNode)}})
		if got := fmt.Sprint(r.Detail.Distribution.Shares); got != c.want {
			t.Errorf("with prices %v: %s, want %s", c.factors, got, c.want)
		}
	}
}
