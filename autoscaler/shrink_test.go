package autoscaler

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

func TestScaleInDrainsThenTerminates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{4}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 2*cpusPerNode)
	w.nodes.tasks = map[string]int{"a-1": 9, "a-2": 0, "a-3": 2, "a-4": 9}

	wantOps(t, w.tick(),
		"remove a-2: idle", "remove a-3: fewest tasks",
		"drain a-2: chosen -> cordoned: waiting for the node to confirm its cordon",
		"drain a-3: chosen -> cordoned: waiting for the node to confirm its cordon")
	r := w.tick()
	wantOps(t, r,
		"drain a-2: cordoned -> draining: waiting for its tasks",
		"drain a-2: draining -> drained: its tasks have gone",
		"drain a-2: drained -> terminating: drained",
		"drain a-3: cordoned -> draining: waiting for its tasks")
	if r.Case.Input.Capacity.Target != 2 || r.Detail.Committed["a"] != 2 || r.Snapshot.Target != 4 {
		t.Errorf("capacity %+v, committed %v, target %v: want 2 of 4 to be committed", r.Case.Input.Capacity, r.Detail.Committed, r.Snapshot.Target)
	}
	w.wantTarget(3)
	wantOps(t, w.tick(), "drain a-2: terminating -> gone: its instance does not exist any more")
	w.wantTarget(3) // a-3 still has tasks
	w.nodes.change(func(n *nodes) { n.tasks["a-3"] = 0 })
	wantOps(t, w.tick(),
		"drain a-2: it is gone, drain finished",
		"drain a-3: draining -> drained: its tasks have gone", "drain a-3: drained -> terminating: drained")
	w.tick()
	w.tick()
	r = w.tick()
	wantOps(t, r)
	w.wantTarget(2)
	if len(w.records.stored) > 0 || len(r.Drains) > 0 {
		t.Errorf("drains are left: %v", r.Drains)
	}
	w.wantCalls("terminate [a-2]", "terminate [a-3]")
}

// While orders or stored state may be lost, machines that are not needed stay.
func TestNoScaleInWhileStoredDataMayBeLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{4}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 2*cpusPerNode)
	w.book.orders.LossSuspected = "key pool.web is older than before"
	for range 3 {
		r := w.tick()
		wantOps(t, r)
		if r.Result.Target != 4 || r.Case.Input.NoScaleIn != w.book.orders.LossSuspected {
			t.Errorf("target %v, no scale-in for %q, want 4 for the doubt", r.Result.Target, r.Case.Input.NoScaleIn)
		}
	}
	w.wantCalls()
	w.book.orders.LossSuspected = ""
	wantOps(t, w.tick(),
		"remove a-1: idle", "remove a-2: idle",
		"drain a-1: chosen -> cordoned: waiting for the node to confirm its cordon",
		"drain a-2: chosen -> cordoned: waiting for the node to confirm its cordon")
}

func TestNeedReturns(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		need  float64 // in nodes
		first string  // first action
		calls []string
	}{
		{"one of two", 3, "take back : 1 that were on their way out are needed again", nil},
		{"both", 4, "take back : 2 that were on their way out are needed again", nil},
		{"both, and one more", 5, "take back : 2 that were on their way out are needed again", []string{"set target a 5"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{4}, "web")
			w.asks(sigproto.DefaultApp, 1)
			web := w.asks("web", 2*cpusPerNode)
			for _, i := range []string{"a-1", "a-2", "a-3", "a-4"} {
				w.nodes.tasks[i] = 1
			}
			w.tick()
			w.wantCalls()
			web.set(cpus(test.need*cpusPerNode), nil)
			r := w.tick()
			if got := ops(r); len(got) == 0 || got[0] != test.first {
				t.Errorf("done %q, want first %q", got, test.first)
			}
			w.wantCalls(test.calls...)
			w.tick()
			staying := 0
			for _, on := range w.nodes.cordoned {
				if !on {
					staying++
				}
			}
			if want := min(int(test.need)-2, 2); staying != want || len(w.records.stored) != 2-want {
				t.Errorf("%d uncordoned, %d still on their way: want %d, %d", staying, len(w.records.stored), want, 2-want)
			}
			w.wantTarget(max(4, int(test.need)))
			w.wantCalls()
		})
	}
}

func TestSilentNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{4}, "web")
	w.asks(sigproto.DefaultApp, 0)
	web := w.asks("web", 4*cpusPerNode)
	w.nodes.tasks["a-2"] = 3
	w.tick()
	points := w.store.values(t, metrics.System, "cpus_allocated", w)

	web.set(cpus(0), nil)
	w.nodes.change(func(n *nodes) { n.mute["a-2"] = true })
	r := w.tick()
	if !slices.Equal(r.Snapshot.Silent, []string{"a-2"}) || r.Case.Input.NoScaleIn == "" || r.Detail.Refused == "" {
		t.Errorf("silent %q, no scale-in %q, refused %q", r.Snapshot.Silent, r.Case.Input.NoScaleIn, r.Detail.Refused)
	}
	if r.Result.Target != 4 {
		t.Errorf("target %v, want 4", r.Result.Target)
	}
	wantOps(t, r)
	if got := w.store.values(t, metrics.System, "cpus_allocated", w); !slices.Equal(got, points) {
		t.Errorf("cpus_allocated = %v, want no point beside %v", got, points)
	}
	for _, name := range []string{"cpus_total", "non_orphan_fulfilled_capacity"} {
		if got := w.store.values(t, metrics.Metadata, name, w); len(got) != 1 {
			t.Errorf("%s = %v, want the one point from before", name, got)
		}
	}
	if got := w.store.values(t, metrics.Metadata, "target_capacity", w); len(got) != 2 {
		t.Errorf("target_capacity = %v, want a point of each tick", got)
	}

	web.set(cpus(5*cpusPerNode), nil) // growth is safe
	wantOps(t, w.tick(), "set target a: 5")
	web.set(cpus(3*cpusPerNode), nil)
	w.nodes.change(func(n *nodes) { n.mute = map[string]bool{} })
	if r := w.tick(); r.Result.Target != 3 || len(r.Result.Terminate["a"]) != 2 {
		t.Errorf("heard again: target %v, let go %v: want 3 and two", r.Result.Target, r.Result.Terminate)
	}
}

// While a node is silent, its drain does not advance.
func TestSilentNodeIsNotTerminated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2}, "web")
	w.asks(sigproto.DefaultApp, 0)
	w.asks("web", cpusPerNode)
	w.nodes.tasks = map[string]int{"a-1": 5, "a-2": 1}
	w.tick()
	w.tick()
	w.nodes.change(func(n *nodes) { n.mute["a-2"] = true; n.tasks["a-2"] = 0 })
	wantOps(t, w.tick())
	w.start() // also not by another process
	wantOps(t, w.tick())
	wantOps(t, w.tick())
	w.wantCalls()
	w.nodes.change(func(n *nodes) { n.mute = map[string]bool{} })
	w.tick()
	w.wantCalls("terminate [a-2]")
}

// An instance whose state the provider does not report.
func TestInstanceOfUnknownState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2}, "web")
	w.asks(sigproto.DefaultApp, 0)
	w.asks("web", 0)
	w.groups[0].tamper = func(s *pools.GroupSnapshot) { s.Instances[1].State = api.InstanceUnknown }
	r := w.tick()
	if !slices.Equal(r.Snapshot.Silent, []string{"a-2"}) || r.Snapshot.Joined != 1 {
		t.Errorf("silent %q, joined %v: want a-2, 1", r.Snapshot.Silent, r.Snapshot.Joined)
	}
	wantOps(t, r)
}

func TestNodeWhoseFactsOverflow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{3}, "web")
	w.asks(sigproto.DefaultApp, 0)
	w.asks("web", 0)
	w.nodes.tamper = func(f *api.NodeFacts) {
		if f.ID != "a-2" {
			f.Resources[resource.Mem], f.Allocated[resource.Mem] = 1e308, 1.7e308
		}
	}
	r := w.tick()
	if !slices.Equal(r.Snapshot.Silent, []string{"a-3"}) {
		t.Errorf("silent %q, want a-3: the sum with it is no number", r.Snapshot.Silent)
	}
	wantOps(t, r)
}

// A new loop has not received the nodes' reports yet, and without saved state it has no record of
// which had joined: no node is an orphan.
func TestNodesThatDidNotReportToANewLoop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{4}, "web")
	w.asks(sigproto.DefaultApp, 0)
	w.asks("web", 0)
	w.nodes.mute = map[string]bool{"a-1": true, "a-2": true, "a-3": true, "a-4": true}
	for range 3 { // longer than the start time of a reader
		r := w.tick()
		if len(r.Snapshot.Silent) != 4 || r.Case.Input.Lost != 0 {
			t.Errorf("silent %q, lost %d: want four, none", r.Snapshot.Silent, r.Case.Input.Lost)
		}
		wantOps(t, r)
	}
	w.nodes.change(func(n *nodes) { n.mute = map[string]bool{"a-4": true} })
	if r := w.tick(); !slices.Equal(r.Snapshot.Silent, []string{"a-4"}) {
		t.Errorf("silent %q, want a-4, which may have joined", r.Snapshot.Silent)
	}
	w.wantCalls()
}

// A node that started during this process and never joined has no tasks to lose.
func TestOrphanGoesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{3}, "web")
	w.asks(sigproto.DefaultApp, 0)
	web := w.asks("web", 4*cpusPerNode)
	w.tick()
	w.nodes.change(func(n *nodes) { n.mute["a-4"] = true })
	web.set(cpus(3*cpusPerNode), nil)
	r := w.tick()
	if i := slices.IndexFunc(r.Case.Nodes, func(n api.Candidate) bool { return n.ID == "a-4" }); i < 0 || r.Case.Nodes[i].Node != api.NodeOrphaned {
		t.Errorf("nodes %+v, want a-4 to be an orphan", r.Case.Nodes)
	}
	w.wantCalls("set target a 4", "terminate [a-4]")
}

func TestNextProcessRestoresState(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		last func(w *world) // the last tick before the end of the process
	}{
		{"all was well", func(*world) {}},
		{"the last tick failed", func(w *world) {
			w.groups[0].Refuse(cloud.Snapshot, errors.New("the api is down"))
			w.tick()
			w.groups[0].Refuse(cloud.Snapshot, nil)
		}},
		{"a node was silent", func(w *world) {
			w.nodes.change(func(n *nodes) { n.mute["a-2"] = true })
			w.tick()
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{3}, "web")
			def := w.asks(sigproto.DefaultApp, 0)
			web := w.asks("web", 2*cpusPerNode)
			w.config.Policy.Limits.Min = 3
			w.config.Apps[0].HoldFor = 10 * time.Minute
			w.tick()
			test.last(w)

			w.config.Policy.Limits.Min = 0
			w.start()
			w.nodes.change(func(n *nodes) { n.mute["a-2"] = true })
			def.set(resource.Request{}, errors.New("broken"))
			web.set(resource.Request{}, errors.New("broken"))
			for range 3 { // longer than the start time of a reader
				r := w.tick()
				_, resolved := appOf(t, r, "web")
				if resolved.Source != api.FromHeld || resolved.Request != cpus(2*cpusPerNode) {
					t.Errorf("web: %+v, want its last answer to be held", resolved)
				}
				if !slices.Equal(r.Snapshot.Silent, []string{"a-2"}) {
					t.Errorf("silent = %q, want a-2, which had joined", r.Snapshot.Silent)
				}
				wantOps(t, r)
			}
			w.wantCalls()
		})
	}
}

func TestStateOfMissingInstancesIsDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2})
	w.asks(sigproto.DefaultApp, 2*cpusPerNode)
	w.tick()
	w.groups[0].Lose("a-1")
	if w.tick(); !slices.Equal(w.memory.memo(t).State.Joined, []string{"a-2", "a-3"}) {
		t.Errorf("joined = %q, want a-2 and a-3", w.memory.memo(t).State.Joined)
	}
}

func TestDrainThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2}, "web")
	w.asks(sigproto.DefaultApp, 0)
	w.asks("web", cpusPerNode)
	w.start()
	w.records.fail = errors.New("no bus")
	r := w.tick()
	if got := ops(r); got[0] != "remove a-1: idle FAILED" || len(w.nodes.log) > 0 || len(w.records.stored) > 0 {
		t.Errorf("done %q, cordons %q: want none without a record", got, w.nodes.log)
	}
	w.records.fail = nil
	w.tick()
	if r := w.tick(); len(r.Drains) != 1 || r.Drains[0].State == api.DrainReturned {
		t.Errorf("drains = %v, want one", r.Drains)
	}
}

func TestNextProcessWithoutMemory(t *testing.T) {
	t.Parallel()
	for name, record := range map[string]string{"garbage": "garbage", "of another form": `{"state":7}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{3}, "web")
			w.asks(sigproto.DefaultApp, 0)
			w.asks("web", 0)
			w.memory.data = []byte(record)
			w.start()
			w.nodes.mute = map[string]bool{"a-2": true}
			for range 3 { // longer than the start time of a reader
				r := w.tick()
				if !slices.Equal(r.Snapshot.Silent, []string{"a-2"}) {
					t.Errorf("silent = %q, want a-2, which may have joined", r.Snapshot.Silent)
				}
			}
			w.wantCalls()
		})
	}
}

func TestWindowOfUsageThatMissesItsBeginning(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{3})
	w.config.Default.Windows = []ask.Window{{Name: "cpus_allocated", Type: metrics.System, Range: 10 * time.Minute, MaxAge: 10 * time.Minute}}
	w.asks(sigproto.DefaultApp, 0)
	r := w.tick()
	if want := "cpus_allocated reaches back 0s of 10m0s: what was used before is unknown"; r.Case.Input.NoScaleIn != want {
		t.Errorf("scale-in is barred by %q, want %q", r.Case.Input.NoScaleIn, want)
	}
	w.wantCalls()
	w.write(metrics.Sample{
		Type: metrics.System, Name: "cpus_allocated", Dimensions: metrics.Dimensions{"cluster": "here", "pool": "default"},
	}, 9*time.Minute)
	if r = w.tick(); r.Case.Input.NoScaleIn != "" || len(r.Result.Terminate["a"]) != 3 {
		t.Errorf("scale-in is barred by %q, %d are let go: want all three to go", r.Case.Input.NoScaleIn, len(r.Result.Terminate["a"]))
	}
}

func TestTerminationWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{4}, "web")
	def := w.asks(sigproto.DefaultApp, 0)
	web := w.asks("web", 3*cpusPerNode)
	w.tick()
	w.groups[0].answerLost = errors.New("timeout")
	w.tick()
	w.groups[0].answerLost = nil
	w.wantTarget(3)
	def.set(resource.Request{}, errors.New("broken"))
	web.set(resource.Request{}, errors.New("broken"))
	w.config.Apps[0].HoldFor = 0
	for range 3 {
		w.tick()
	}
	w.wantTarget(3)
	w.wantCalls("terminate [a-1]")
}

func TestOrphanThatJoinsMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2}, "web")
	w.asks(sigproto.DefaultApp, 0)
	w.nodes.mute = map[string]bool{"a-1": true}
	w.serve("web", valueFunc(func(context.Context, signals.Input) (resource.Request, error) {
		w.nodes.change(func(n *nodes) { n.mute, n.tasks = nil, map[string]int{"a-1": 5} })
		return cpus(cpusPerNode), nil
	}))
	w.memory.data = []byte(`{"schema":1,"state":{}}`) // it has not joined
	w.clock = func() time.Time { return w.now }
	w.start()
	if err := w.loop.Notice(t.Context(), pools.Notice{Instance: "nobody"}); err != nil { // it reads the pool
		t.Fatal(err)
	}
	r := w.tick()
	if r.Case.Nodes[0].Node != api.NodeOrphaned {
		t.Fatalf("node %+v: want an orphan when the tick begins", r.Case.Nodes[0])
	}
	w.wantCalls()
}

func TestTerminationThatFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2}, "web")
	w.asks(sigproto.DefaultApp, 0)
	w.asks("web", cpusPerNode)
	w.groups[0].Refuse(cloud.Terminate, errors.New("throttled"))
	w.tick()
	r := w.tick()
	if n := len(r.Problems); n != 1 || r.Actions[len(r.Actions)-1].Error == "" {
		t.Errorf("problems %q, actions %q: want the refusal in both", r.Problems, ops(r))
	}
	w.wantTarget(2)
	w.groups[0].Refuse(cloud.Terminate, nil)
	w.tick()
	w.wantTarget(1)
	w.wantCalls("terminate [a-1]", "terminate [a-1]")
}

func TestCapacity(t *testing.T) {
	t.Parallel()
	group := func(id string, target, limit int, stale bool) pools.GroupSnapshot {
		return pools.GroupSnapshot{ID: id, Target: target, Max: limit, Stale: stale}
	}
	tests := []struct {
		name      string
		groups    []pools.GroupSnapshot
		committed map[string]float64
		target    float64
		limits    []int // maxima for the distribution
	}{
		{"nothing leaves", []pools.GroupSnapshot{group("a", 3, 10, false), group("b", 2, api.Unbounded, false)}, nil, 5, []int{10, api.Unbounded}},
		{"two leave", []pools.GroupSnapshot{group("a", 3, 10, false), group("b", 2, api.Unbounded, false)},
			map[string]float64{"a": 1, "b": 1}, 3, []int{9, api.Unbounded}},
		{"of a stale group", []pools.GroupSnapshot{group("a", 3, 10, false), group("b", 4, 9, true)}, map[string]float64{"b": 2}, 3, []int{10, 7}},
		{"of a group that is not there any more", []pools.GroupSnapshot{group("a", 3, 10, false)}, map[string]float64{"z": 2}, 3, []int{10}},
		{"more than the target", []pools.GroupSnapshot{group("a", 1, 2, false), group("b", 4, 9, false)}, map[string]float64{"a": 3}, 4, []int{1, 9}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var groups []resolve.Group
			for _, g := range test.groups {
				one := resolve.Group{ID: g.ID, Target: g.Target, Stale: g.Stale}
				if weight := test.committed[g.ID]; weight > 0 {
					one.Leaving = []api.Leaver{{ID: g.ID + "-1", Group: g.ID, Weight: weight}}
				}
				groups = append(groups, one)
			}
			var c api.Case
			fillGroups(&c, test.groups, resolve.AccountOf(api.PoolState{}, groups))
			if got := resolve.SumOfTargets(c); got != test.target {
				t.Errorf("target = %v, want %v", got, test.target)
			}
			var limits []int
			for _, g := range c.Groups {
				limits = append(limits, g.Max)
			}
			if !slices.Equal(limits, test.limits) {
				t.Errorf("maxima = %v, want %v", limits, test.limits)
			}
		})
	}
}

// A drain for another reason than scale-in is not taken back. Growth comes on top of the group's
// held weight, but never above its maximum.
func TestGroupGrowsWhileANodeLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{3}, "web")
	w.groups[0].Group = cloud.New(cloud.Config{ID: "a", Max: 4, Target: 3}, w.now)
	w.asks(sigproto.DefaultApp, 0)
	w.asks("web", 5*cpusPerNode)
	w.nodes.tasks["a-2"] = 1
	m, err := drain.Open(t.Context(), w.config.Drain, drain.Ports{Records: w.records})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Add(t.Context(), w.now, drain.Choice{Node: "a-2", Group: "a", Weight: 1, Reason: api.DrainRemoval}); err != nil {
		t.Fatal(err)
	}
	r := w.tick()
	if d := r.Detail.Distribution; d.Sum != 3 || d.Shortfall != 2 {
		t.Errorf("distribution = %+v, want 3 and a shortfall of 2", d)
	}
	w.wantCalls("set target a 4")
	w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 0 })
	w.tick()
	w.tick()
	w.tick()
	w.wantCalls("terminate [a-2]", "set target a 4")
}
