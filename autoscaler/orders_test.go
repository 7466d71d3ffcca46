package autoscaler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// steady returns a pool with the capacity that it needs.
func steady(t *testing.T, targets ...int) (w *world, def, web *need) {
	t.Helper()
	w = newWorld(t, targets, "web")
	sum := 0
	for _, n := range targets {
		sum += n
	}
	def, web = w.asks(sigproto.DefaultApp, 1), w.asks("web", float64(sum*cpusPerNode))
	w.tick()
	w.wantCalls()
	return w, def, web
}

// silence makes all signals stop responding.
func silence(w *world, signals ...*need) {
	for _, s := range signals {
		s.set(resource.Request{}, errors.New("broken"))
	}
	w.config.Apps[0].HoldFor = 0
	w.reconfigure()
}

// instances returns the ids of the running and pending instances.
func (w *world) instances() []string {
	w.t.Helper()
	var out []string
	for _, g := range w.groups {
		s, err := g.Group.Snapshot(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		for _, i := range s.Instances {
			if i.State != api.InstanceTerminating {
				out = append(out, i.ID)
			}
		}
	}
	return out
}

func (w *world) wantInstances(want ...string) {
	w.t.Helper()
	if got := w.instances(); !slices.Equal(got, want) {
		w.t.Errorf("instances %q, want %q", got, want)
	}
}

// A node that an operator removes leaves, and is replaced, also when the need is unknown.
func TestRemoval(t *testing.T) {
	t.Parallel()
	for _, unknownNeed := range []bool{false, true} {
		t.Run(fmt.Sprint(unknownNeed), func(t *testing.T) {
			t.Parallel()
			w, def, web := steady(t, 3)
			if unknownNeed {
				silence(w, def, web)
			}
			w.book.change(func(o *api.Orders) {
				o.Removals = []api.Removal{{Note: api.Note{By: "me", Why: "disk"}, Node: "a-2"}, {Note: api.Note{By: "me"}, Node: "x-1"}}
			})
			r := w.tick()
			if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "node x-1, whose removal me requested, is not of this pool") {
				t.Errorf("problems %q", r.Problems)
			}
			if len(r.Orders) != 2 || r.Orders[0].Name() != "removal of a-2" || r.Orders[0].Text() != "by me: disk" {
				t.Errorf("the record has the orders %+v", r.Orders)
			}
			if got := ops(r); len(got) < 1 || got[0] != "remove a-2: by me: disk" {
				t.Errorf("done %q", got)
			}
			if !slices.Equal(w.book.struck, []string{"a-2", "x-1"}) {
				t.Errorf("struck %q, want both", w.book.struck)
			}
			for range 4 {
				w.tick()
			}
			w.wantInstances("a-1", "a-3", "a-4")
			w.wantTarget(3)
			w.wantBalanced()
		})
	}
}

// An order about a node or a group that may be there waits while its group is unknown. It ends when a complete answer lacks its subject.
func TestOrdersWaitForUnknownGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2, 2}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 4*cpusPerNode)
	w.tick()
	w.loop = nil // only the target of an unreadable group is known then
	w.groups[1].Refuse(cloud.Snapshot, errors.New("the api is down"))
	mark := w.now.Add(time.Hour)
	w.book.change(func(o *api.Orders) {
		o.Removals = []api.Removal{{Note: api.Note{By: "me"}, Node: "b-2"}}
		o.Stale = []api.StaleMark{{Note: api.Note{By: "me", At: mark}, Group: "b"}}
	})
	for range 2 {
		if r := w.tick(); !slices.Contains(r.Problems, "node b-2, whose removal me requested, waits: it may be in a group that is unknown: group b could not be read: the api is down") {
			t.Errorf("problems %q: want why b-2 waits", r.Problems)
		}
		if len(w.book.struck) > 0 {
			t.Errorf("struck %q, want no order to end", w.book.struck)
		}
	}
	w.groups = w.groups[:1]
	w.tick()
	if !slices.Equal(w.book.struck, []string{"b-2", "b"}) {
		t.Errorf("struck %q, want both orders to end with their group", w.book.struck)
	}
}

func TestRemovalOfAProtectedNode(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 2)
	w.groups[0].Protect("a-1", true)
	w.book.change(func(o *api.Orders) { o.Removals = []api.Removal{{Note: api.Note{By: "me"}, Node: "a-1"}} })
	r := w.tick()
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "protected") || len(w.book.struck) != 1 {
		t.Errorf("problems %q, struck %q", r.Problems, w.book.struck)
	}
	wantOps(t, r)
}

// A group is rolled: replacements come first, no capacity is missing meanwhile, also when the need
// is unknown. At the end the mark is deleted.
func TestRolling(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		unknownNeed bool
		add         float64
		limit       int // of the group
	}{{"at once", false, 100, 100}, {"in steps", false, 1, 100}, {"blind", true, 100, 100}, {"under a maximum", false, 100, 5}}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, []int{4}, "web")
			w.groups[0].Group = cloud.New(cloud.Config{ID: "a", Max: test.limit, Target: 4, Join: 30 * time.Second}, w.now)
			w.config.Policy.Limits.MaxAdd, w.config.Policy.Period = test.add, time.Minute
			def, web := w.asks(sigproto.DefaultApp, 1), w.asks("web", 4*cpusPerNode)
			w.tick()
			if test.unknownNeed {
				silence(w, def, web)
			}
			w.now = w.now.Add(time.Minute)
			w.book.change(func(o *api.Orders) {
				o.Stale = []api.StaleMark{{Note: api.Note{By: "me", At: w.now}, Group: "a"}}
			})
			for i := range 40 {
				r := w.tick()
				if r.Snapshot.Joined < 4 || r.Case.Input.Capacity.Target != 4 {
					t.Errorf("tick %d: joined %v, target %v: want 4", i, r.Snapshot.Joined, r.Case.Input.Capacity.Target)
				}
				if up := r.State.Changes; len(up) > 0 && up[len(up)-1].Up > test.add {
					t.Errorf("tick %d: added %v, want at most %v", i, up[len(up)-1].Up, test.add)
				}
			}
			w.wantInstances("a-5", "a-6", "a-7", "a-8")
			w.wantTarget(4)
			if surge := w.loop.state().Groups["a"].Surge; !slices.Equal(w.book.struck, []string{"a"}) || surge != 0 {
				t.Errorf("struck %q, surge %v: want the mark gone", w.book.struck, surge)
			}
		})
	}
}

func TestDrift(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		drift Drift
		found int
		calls []string // of the tick that finds it
		want  int      // at the end, with unknown need
	}{
		{"lowered, obeyed", Obey, 2, []string{"set target a 4"}, 2},
		{"raised, obeyed", "", 6, nil, 6},
		{"lowered, corrected", Correct, 2, []string{"set target a 4"}, 4},
		{"raised, corrected", Correct, 6, nil, 4},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, def, web := steady(t, 4)
			w.config.Drift = test.drift
			silence(w, def, web)
			if err := w.groups[0].Group.SetTarget(t.Context(), test.found); err != nil {
				t.Fatal(err)
			}
			r := w.tick()
			if want := []api.Drift{{Group: "a", LastTarget: 4, Found: test.found}}; !slices.Equal(r.Drift, want) {
				t.Errorf("drift %+v, want %+v", r.Drift, want)
			}
			w.wantCalls(test.calls...)
			for range 6 {
				r = w.tick()
			}
			w.wantTarget(test.want)
			if r.Drift != nil {
				t.Errorf("drift %+v at last, want none", r.Drift)
			}
		})
	}
}

// If another party raises a target to the size that the pool needs too, that counts as wanted.
func TestCorrectedDriftThatIsNeeded(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 4)
	w.config.Drift = Correct
	w.config.Policy.Cooldown = api.Cooldown{Up: 10 * time.Minute}
	w.reconfigure()
	w.tick()
	if err := w.groups[0].Group.SetTarget(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	web.set(cpus(8*cpusPerNode), nil)
	w.tick()
	for i := range 6 {
		if r := w.tick(); r.Drift != nil || r.Result.Target != 8 {
			t.Errorf("tick %d: drift %+v, target %v: want none, 8", i, r.Drift, r.Result.Target)
		}
	}
	w.wantTarget(8)
	w.wantCalls()
}

// Our own changes are not drift.
func TestOwnChangesAreNoDrift(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 4)
	w.config.Drift = Correct
	w.reconfigure()
	for i, n := range []float64{6, 6, 2, 2, 2, 5, 5, 5, 1, 1, 1, 1} {
		web.set(cpus(n*cpusPerNode), nil)
		if i == 4 {
			w.groups[0].Drop(cloud.Terminate, 1)
		}
		if r := w.tick(); r.Drift != nil {
			t.Errorf("tick %d: drift %+v, want none", i, r.Drift)
		}
	}
	w.wantTarget(1)
}

// A node that is lost without our action blocks scale-in. A node that we remove does not.
func TestLoss(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 6)
	w.config.Policy.LossLimit, w.config.Policy.Period = true, 3*time.Minute
	w.reconfigure()
	web.set(cpus(5*cpusPerNode), nil)
	for range 4 {
		if r := w.tick(); r.Case.Input.Lost != 0 {
			t.Errorf("lost %d, want none", r.Case.Input.Lost)
		}
	}
	w.wantTarget(5)
	w.groups[0].Lose("a-6")
	web.set(cpus(4*cpusPerNode), nil)
	for i, want := range []int{1, 0, 0} {
		if r := w.tick(); r.Case.Input.Lost != want || r.Result.Target != 5 {
			t.Errorf("tick %d: lost %d, target %v: want %d, 5", i, r.Case.Input.Lost, r.Result.Target, want)
		}
	}
	if r := w.tick(); r.Result.Target != 4 {
		t.Errorf("target %v, want 4: the loss is long ago", r.Result.Target)
	}
}

// An orphan is removed after its time and is replaced. Its end is not a loss.
func TestOrphans(t *testing.T) {
	t.Parallel()
	w, def, web := steady(t, 3)
	w.config.OrphansAfter = 3 * time.Minute
	w.config.Policy.LossLimit = true
	web.set(cpus(4*cpusPerNode), nil)
	w.nodes.change(func(n *nodes) { n.mute["a-4"] = true })
	w.reconfigure()
	w.tick()
	silence(w, def, web)
	for range 3 {
		wantOps(t, w.tick())
	}
	r := w.tick()
	if got := ops(r); len(got) == 0 || got[0] != "remove a-4: orphaned" {
		t.Errorf("done %q, want a-4 to go", got)
	}
	if len(r.Drains) != 1 || r.Drains[0].Reason != api.DrainOrphan {
		t.Errorf("drains %+v, want an orphan", r.Drains)
	}
	for range 3 {
		if r := w.tick(); r.Case.Input.Lost != 0 {
			t.Errorf("lost %d, want none", r.Case.Input.Lost)
		}
	}
	w.wantInstances("a-1", "a-2", "a-3", "a-5")
	w.wantTarget(4)
}

// A busy group is not changed, and none of its nodes is removed.
func TestBusyGroup(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 2, 2)
	w.groups[0].Busy("instance refresh")
	web.set(cpus(8*cpusPerNode), nil)
	r := w.tick()
	wantOps(t, r, "set target b: 6")
	if r.Case.Busy["a"] != "instance refresh" {
		t.Errorf("busy %v", r.Case.Busy)
	}
	web.set(cpus(1*cpusPerNode), nil)
	for range 4 {
		w.tick()
	}
	w.wantTarget(2)
	for _, call := range w.groups[0].Log() {
		t.Errorf("the busy group was asked: %+v", call)
	}
}

// A notice drains at once, between two ticks, and is done when the drain is saved.
func TestNotices(t *testing.T) {
	w := newWorld(t, []int{3})
	w.asks(sigproto.DefaultApp, 3*cpusPerNode)
	w.nodes.tasks = map[string]int{"a-1": 1, "a-2": 1, "a-3": 1}
	w.config.Tick = time.Hour
	ended, stop := w.run()
	await.Value(t, "the tick", w.ledger.appended)
	done := make(chan string, 3)
	for id, kind := range map[string]pools.NoticeKind{"a-1": pools.Interruption, "a-2": pools.Rebalance, "x-9": pools.Interruption} {
		n := pools.Notice{Instance: id, Kind: kind, At: time.Now(), Why: "it says so", Done: func() { done <- id }}
		select {
		case w.notices <- n:
		case <-time.After(patience):
			t.Fatal("the notice is not taken")
		}
		if got := await.Value(t, "the end of a notice", done); got != id {
			t.Errorf("done: %s, want %s", got, id)
		}
	}
	stop()
	if err := await.Value(t, "the end", ended); err != nil {
		t.Error(err)
	}
	records, err := w.records.Load(t.Context())
	if err != nil || len(records) != 2 {
		t.Fatalf("records %+v, %v: want two", records, err)
	}
	if records[0].Reason != api.DrainSpot || records[1].Reason != api.DrainRebalance || !records[0].State.Leaving() {
		t.Errorf("records %+v, want a spot interruption and a rebalance, under way", records)
	}
	if got := *w.memory.memo(t).State.Wanted; got != 3 {
		t.Errorf("wanted %v, want 3: who leaves is to be replaced", got)
	}
	if w.ledger.len() != 1 {
		t.Errorf("%d ticks, want 1", w.ledger.len())
	}
}

// A notice whose drain cannot be saved is not done.
func TestNoticeThatCannotBeSaved(t *testing.T) {
	tests := []struct {
		name   string
		change func(*world)
	}{
		{"records", func(w *world) { w.records.fail = errors.New("no bus") }},
		{"memory", func(w *world) { w.memory.fail = errors.New("no bus") }},
		{"orders", func(w *world) { w.book.fail = errors.New("no bus") }},
		{"groups", func(w *world) { w.provider.fail = errors.New("no api") }},
		{"paused", func(w *world) { w.book.orders.Pause = &api.Note{By: "me"} }},
		{"lease", func(w *world) { w.lease.set(time.Second) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, _, _ := steady(t, 2)
			test.change(w)
			n := pools.Notice{Instance: "a-1", Kind: pools.Interruption, Done: func() { t.Error("it is done") }}
			if err := w.loop.Notice(t.Context(), n); err != nil {
				t.Error(err)
			}
			if len(w.records.stored) > 0 || len(w.nodes.log) > 0 {
				t.Errorf("records %v, cordons %q: want none", w.records.stored, w.nodes.log)
			}
		})
	}
}

// A node with a rebalance notice is replaced before it ends, also when the need is unknown.
func TestRebalance(t *testing.T) {
	t.Parallel()
	w, def, web := steady(t, 3)
	w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 1 })
	silence(w, def, web)
	if err := w.loop.Notice(t.Context(), pools.Notice{Instance: "a-2", Kind: pools.Rebalance}); err != nil {
		t.Fatal(err)
	}
	w.tick()
	w.wantCalls("set target a 4")
	w.wantInstances("a-1", "a-2", "a-3", "a-4")
	w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 0 })
	for range 4 {
		w.tick()
	}
	w.wantCalls("terminate [a-2]")
	w.wantTarget(3)
	w.wantInstances("a-1", "a-3", "a-4")
}
