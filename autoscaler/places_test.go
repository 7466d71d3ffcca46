package autoscaler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// places answers as a scheduler whose copies are the tasks of the nodes, of one cpu each, and the waiting copies.
func (n *nodes) places(q api.PlacesQuestion, facts []api.NodeFacts, waiting []fit.Copy) api.Places {
	w, held := fit.World{Question: q, Waiting: slices.Clone(waiting)}, resource.Vector{}
	for _, c := range waiting {
		held = held.Add(c.Footprint)
	}
	for _, f := range facts {
		held = held.Add(f.Allocated)
		one := &fit.Node{ID: f.ID, Size: f.Resources, Room: f.Resources.Sub(f.Allocated), Closed: f.Draining}
		for i := range f.Tasks - f.BatchTasks { // the others need no other place
			c := fit.Copy{App: f.ID, Index: i, Footprint: resource.Vector{resource.CPUs: 1}}
			one.Copies = append(one.Copies, c)
			if slices.Contains(q.Gone, f.ID) || f.Draining {
				c.Leaves = f.ID
				w.Waiting = append(w.Waiting, c)
			}
		}
		w.Nodes = append(w.Nodes, one)
	}
	p := fit.Solve(w)
	p.Held = held.Sub(p.Unplaceable)
	return p
}

// scheduler is a scheduler of a world, with waiting copies.
type scheduler struct {
	w       *world
	waiting []fit.Copy
	err     error
	asked   []api.PlacesQuestion
}

// schedule adds a scheduler to the world, before its loop starts.
func (w *world) schedule() *scheduler {
	s := &scheduler{w: w}
	w.places = s.answer
	return s
}

func (s *scheduler) answer(_ context.Context, q api.PlacesQuestion) (api.Places, error) {
	s.asked = append(s.asked, q)
	if s.err != nil {
		return api.Places{}, s.err
	}
	p := s.w.nodes.places(q, s.w.nodes.Facts(s.w.now), s.waiting)
	return p, p.Validate(q)
}

// wait makes so many copies of that many cpus wait.
func (s *scheduler) wait(copies int, cpus float64) {
	s.waiting = nil
	for i := range copies {
		s.waiting = append(s.waiting, fit.Copy{App: "web", Index: i, Footprint: resource.Vector{resource.CPUs: cpus}})
	}
}

// scheduled returns a pool of so many nodes with a scheduler, after its first tick.
func scheduled(t *testing.T, nodes int) (*world, *scheduler, *need) {
	w := newWorld(t, []int{nodes}, "web")
	s := w.schedule()
	w.asks(sigproto.DefaultApp, 1)
	web := w.asks("web", float64(nodes*cpusPerNode))
	w.tick()
	return w, s, web
}

func stepOf(t *testing.T, r api.TickRecord, rule api.Rule) api.Step {
	t.Helper()
	i := slices.IndexFunc(r.Result.Steps, func(s api.Step) bool { return s.Rule == rule })
	if i < 0 {
		t.Fatalf("no step %q: %+v", rule, r.Result.Steps)
	}
	return r.Result.Steps[i]
}

// A copy without a place orders a machine once, whatever the signals request.
func TestPlacesOrderAMachine(t *testing.T) {
	t.Parallel()
	w, s, _ := scheduled(t, 4)
	for _, id := range w.instances() {
		w.nodes.change(func(n *nodes) { n.tasks[id] = 4 })
	}
	s.wait(1, 2)
	r := w.tick()
	wantOps(t, r, "set target a: 5")
	if why := stepOf(t, r, api.RulePlaces).Why; why != "1 copy needs 1 more in group a, web/0 first -> 5" {
		t.Errorf("the reason is %q", why)
	}
	wantOps(t, w.tick()) // the copy has room on the new node
	w.wantTarget(5)
}

// Without a proof no node is removed, although the signals request less.
func TestScaleInNeedsAProof(t *testing.T) {
	t.Parallel()
	w, _, web := scheduled(t, 3)
	for _, id := range w.instances() {
		w.nodes.change(func(n *nodes) { n.tasks[id] = 3 })
	}
	web.set(cpus(2*cpusPerNode), nil)
	r := w.tick()
	wantOps(t, r)
	if step := stepOf(t, r, api.RulePlaces); step.After != 3 || !strings.Contains(step.Why, "3 is not lowered to 2, kept") {
		t.Errorf("the step is %+v", step)
	}
	w.nodes.change(func(n *nodes) { n.tasks["a-2"] = 1 })
	wantOps(t, w.tick(), "remove a-2: fewest tasks", "drain a-2: chosen -> cordoned: waiting for the node to confirm its cordon")
}

// A scheduler proves that a node can be emptied, and does not move its copy: after the deadline of the drain the node stays, and no
// other node is drained in its place. An empty node goes, also after a restart.
func TestProofThatDoesNotHold(t *testing.T) {
	t.Parallel()
	w, _, web := scheduled(t, 3)
	for _, id := range w.instances() {
		w.nodes.change(func(n *nodes) { n.tasks[id] = 1 })
	}
	web.set(cpus(2*cpusPerNode), nil)
	chosen := 0
	for range 200 {
		for _, a := range w.tick().Actions {
			if a.Op == api.OpRemove {
				chosen++
			}
		}
	}
	if chosen != 1 {
		t.Errorf("%d nodes were chosen, want one", chosen)
	}
	w.start()
	r := w.tick()
	wantOps(t, r)
	if !slices.ContainsFunc(r.Detail.Kept, func(k api.KeptNode) bool { return k.Why == api.KeptUndone }) {
		t.Errorf("kept %+v, want nodes because the same removal was undone", r.Detail.Kept)
	}
	w.nodes.change(func(n *nodes) { n.tasks["a-1"] = 0 })
	wantOps(t, w.tick(), "remove a-1: idle", "drain a-1: chosen -> cordoned: waiting for the node to confirm its cordon")
}

// A scheduler that never had this part changes nothing. One that has answered, and does not answer any more, is unknown: nothing
// is removed, also after a restart, and the pool still grows. An answer after the time limit is none.
func TestSilentSchedulerHoldsScaleIn(t *testing.T) {
	t.Parallel()
	for _, err := range []error{ErrNoPlaces, context.DeadlineExceeded} {
		t.Run(err.Error(), func(t *testing.T) {
			t.Parallel()
			fallSilent(t, fmt.Errorf("no answer: %w", err))
		})
	}
}

// fallSilent tests a pool whose scheduler has answered, and then answers with an error.
func fallSilent(t *testing.T, err error) {
	t.Helper()
	w, s, web := scheduled(t, 3)
	s.err = err
	web.set(cpus(2*cpusPerNode), nil)
	for range 2 {
		r := w.tick()
		wantOps(t, r)
		if r.Result.Target != 3 || !strings.Contains(r.Detail.Refused, "the scheduler does not answer where copies would go") {
			t.Errorf("target %v, refused %q", r.Result.Target, r.Detail.Refused)
		}
		w.start()
	}
	web.set(cpus(4*cpusPerNode), nil)
	wantOps(t, w.tick(), "set target a: 4")
	web.set(cpus(3*cpusPerNode), nil)
	w.tick()
	w.config.IgnorePlaces = true
	w.reconfigure()
	wantOps(t, w.tick(), "remove a-1: idle", "drain a-1: chosen -> cordoned: waiting for the node to confirm its cordon")
}

// While the scheduler that speaks for all nodes is not current, no machine is removed, and it receives no question. The pool still grows.
// The state has its kind, so a later process expects it.
func TestSchedulerThatIsNotCurrentHoldsScaleIn(t *testing.T) {
	t.Parallel()
	w, s, web := scheduled(t, 3)
	state := pools.NodeScheduler{Kind: "kubernetes", Why: "the scheduler (kubernetes) is silent since 11:58:00"}
	w.nodeScheduler = func(time.Time) pools.NodeScheduler { return state }
	w.start()
	asked := len(s.asked)
	web.set(cpus(2*cpusPerNode), nil)
	const want = "what the nodes run is unknown, so no machine is removed: the scheduler (kubernetes) is silent since 11:58:00"
	for _, ignore := range []bool{false, true} {
		w.config.IgnorePlaces = ignore
		w.reconfigure()
		r := w.tick()
		wantOps(t, r)
		if r.Result.Target != 3 || r.Detail.Refused != want || r.Case.NoPlaces != want || r.State.NodeScheduler != "kubernetes" || len(s.asked) != asked {
			t.Errorf("target %v, refused %q, no places %q, state %q, %d questions", r.Result.Target, r.Detail.Refused, r.Case.NoPlaces, r.State.NodeScheduler, len(s.asked)-asked)
		}
	}
	web.set(cpus(4*cpusPerNode), nil)
	wantOps(t, w.tick(), "set target a: 4")
	state.Why = ""
	web.set(cpus(3*cpusPerNode), nil)
	wantOps(t, w.tick(), "remove a-1: idle", "drain a-1: chosen -> cordoned: waiting for the node to confirm its cordon")
	state = pools.NodeScheduler{}
	if r := w.tick(); r.State.NodeScheduler != "" {
		t.Errorf("the nodes speak for themselves, and the state has %q", r.State.NodeScheduler)
	}
}

// The scheduler that speaks for all nodes receives the end of each machine, several times. Nodes that speak for themselves cause none.
func TestEndOfAMachineIsReported(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]int{"": 0, "kubernetes": 1} {
		t.Run("scheduler "+kind, func(t *testing.T) {
			t.Parallel()
			w, _, web := scheduled(t, 3)
			gone := map[string]int{}
			w.nodeScheduler = func(time.Time) pools.NodeScheduler { return pools.NodeScheduler{Kind: kind} }
			w.gone = func(node string, _ time.Time) error { gone[node]++; return nil }
			w.start()
			web.set(cpus(2*cpusPerNode), nil)
			for range 20 {
				w.tick()
			}
			if len(w.instances()) != 2 || len(gone) != want || want > 0 && gone["a-1"] < 2 {
				t.Errorf("gone %v, instances %v, want the end of a-1 several times", gone, w.instances())
			}
		})
	}
}

func TestSchedulerWithoutPlaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{3}, "web")
	s := w.schedule()
	s.err = ErrNoPlaces
	w.asks(sigproto.DefaultApp, 1)
	web := w.asks("web", 3*cpusPerNode)
	w.tick()
	web.set(cpus(2*cpusPerNode), nil)
	r := w.tick()
	if r.Result.Target != 2 || r.Case.NoPlaces != neverAnswered || r.Case.Places != nil {
		t.Errorf("target %v, places %v, %q", r.Result.Target, r.Case.Places, r.Case.NoPlaces)
	}
	s.err = errors.New("not ready") // it has this part
	if r = w.tick(); r.Detail.Refused == "" {
		t.Errorf("a scheduler that is not ready refuses nothing: %+v", r.Detail)
	}
}

// slotted returns a node with a bound on its tasks.
func slotted(n pools.Node, all int) pools.Node {
	n.Facts.Slots = &api.Slots{All: all}
	return n
}

// daemons returns a node that uses some for itself.
func daemons(n pools.Node, overhead resource.Vector) pools.Node {
	n.Facts.Overhead = overhead
	return n
}

func TestNextMachines(t *testing.T) {
	t.Parallel()
	size := func(cpus, mem float64) resource.Vector {
		return resource.Vector{resource.CPUs: cpus, resource.Mem: mem}
	}
	offers := []pools.Offer{{InstanceType: "s", Weight: 1, Resources: size(2, 4000)}, {InstanceType: "l", Weight: 4, Resources: size(8, 8000)}}
	seen := func(cpus, mem, weight float64, offer resource.Vector) api.SeenMachine {
		return api.SeenMachine{Machine: api.Machine{Resources: size(cpus, mem), Weight: weight}, Offer: offer}
	}
	newer := func(m api.SeenMachine) api.SeenMachine { m.Launched = noon; return m }
	node := func(kind string, weight, cpus, mem float64) pools.Node {
		return pools.Node{
			Instance: pools.Instance{ID: kind + fmt.Sprint(cpus, mem), Group: "a", Market: pools.Market{InstanceType: kind}, Weight: weight},
			State:    api.NodeRunning, Facts: api.NodeFacts{Resources: size(cpus, mem)},
		}
	}
	for _, test := range []struct {
		name   string
		offers []pools.Offer
		nodes  []pools.Node
		seen   map[string]api.SeenMachine
		config resource.Vector
		want   api.Machine
		keeps  map[string]api.SeenMachine
	}{
		{name: "unknown"},
		{name: "by the configuration", config: size(3, 3), want: api.Machine{Resources: size(3, 3)}},
		{name: "by the offer", offers: offers[:1], want: api.Machine{Resources: size(2, 4000), Weight: 1}, config: size(3, 3)},
		{name: "mixed: the smallest and heaviest", offers: offers, want: api.Machine{Resources: size(2, 4000), Weight: 4}},
		{name: "a joined node has less than the offer", offers: offers, nodes: []pools.Node{node("s", 1, 1.9, 3500), node("s", 1, 2, 3400)},
			want: api.Machine{Resources: size(1.9, 3400), Weight: 4}, keeps: map[string]api.SeenMachine{"s": seen(1.9, 3400, 1, size(2, 4000))}},
		{name: "no node any more", offers: offers[:1], seen: map[string]api.SeenMachine{"s": seen(1.9, 3400, 1, size(2, 4000))},
			want: api.Machine{Resources: size(1.9, 3400), Weight: 1}, keeps: map[string]api.SeenMachine{"s": seen(1.9, 3400, 1, size(2, 4000))}},
		{name: "another offer of that type", offers: offers[:1], seen: map[string]api.SeenMachine{"s": seen(0.9, 900, 1, size(1, 1000))},
			want: api.Machine{Resources: size(2, 4000), Weight: 1}},
		{name: "another type", offers: offers[1:], nodes: []pools.Node{node("s", 1, 1.9, 3500)}, want: api.Machine{Resources: size(8, 8000), Weight: 4}},
		{name: "no offers: what has joined", nodes: []pools.Node{node("s", 1, 2, 4000)}, seen: map[string]api.SeenMachine{"old": seen(9, 9, 9, resource.Vector{})},
			want: api.Machine{Resources: size(2, 4000), Weight: 1}, keeps: map[string]api.SeenMachine{"s": seen(2, 4000, 1, resource.Vector{})}},
		{name: "no offers: what had joined", seen: map[string]api.SeenMachine{"old": seen(9, 9, 2, resource.Vector{})},
			want: api.Machine{Resources: size(9, 9), Weight: 2}, keeps: map[string]api.SeenMachine{"old": seen(9, 9, 2, resource.Vector{})}},
		{name: "no offers: the newest has left", nodes: []pools.Node{node("l", 1, 8, 8000)}, seen: map[string]api.SeenMachine{"s": newer(seen(2, 4000, 1, resource.Vector{}))},
			want:  api.Machine{Resources: size(2, 4000), Weight: 1},
			keeps: map[string]api.SeenMachine{"l": seen(8, 8000, 1, resource.Vector{}), "s": newer(seen(2, 4000, 1, resource.Vector{}))}},
		{name: "the fewest slots", nodes: []pools.Node{slotted(node("s", 1, 2, 4000), 110), slotted(node("s", 1, 2, 4001), 58), node("s", 1, 2, 4002)},
			want:  api.Machine{Resources: size(2, 4000), Weight: 1, Slots: 58},
			keeps: map[string]api.SeenMachine{"s": {Machine: api.Machine{Resources: size(2, 4000), Weight: 1, Slots: 58}}}},
		{name: "an offer without the overhead of each node", offers: offers[1:], nodes: []pools.Node{daemons(node("s", 1, 1.9, 3500), size(0.5, 100)), daemons(node("t", 1, 1.9, 3500), size(0.25, 300)),
			daemons(node("u", 1, 1.9, 3500), size(0.25, 100))}, want: api.Machine{Resources: size(7.75, 7900), Weight: 4}},
		{name: "a type that was larger, then smaller", offers: offers[:1], nodes: []pools.Node{
			sized(node("s", 1, 0.9, 900), size(1, 1000), noon), sized(node("s", 1, 1.9, 3500), size(2, 4000), noon.Add(time.Hour)),
			sized(node("s", 1, 7.9, 7900), size(8, 8000), noon.Add(-time.Hour)), sized(node("s", 1, 1.9, 3400), size(2, 4000), noon),
		}, want: api.Machine{Resources: size(1.9, 3400), Weight: 1},
			keeps: map[string]api.SeenMachine{"s": {Machine: api.Machine{Resources: size(1.9, 3400), Weight: 1}, Offer: size(2, 4000), Launched: noon.Add(time.Hour)}}},
		{name: "an offer of unknown size", offers: []pools.Offer{{InstanceType: "s", Weight: 3}}, want: api.Machine{Weight: 3}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := apply.Reading{Snapshot: &snapshot.Snapshot{Groups: []pools.GroupSnapshot{{ID: "a", Offers: test.offers}}, Nodes: test.nodes}}
			states := map[string]api.GroupState{"a": {Seen: test.seen}}
			got := nextMachines(states, map[string]resource.Vector{"a": test.config}, r)
			if diff := cmp.Diff(test.want, got["a"]); diff != "" {
				t.Errorf("the next machine (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.keeps, states["a"].Seen); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}

// sized returns n with the size that the provider reports, launched at that time.
func sized(n pools.Node, offers resource.Vector, launched time.Time) pools.Node {
	n.Instance.Offers, n.Instance.Launched = offers, launched
	return n
}

// A request of the tick ends with the lease, not with its own time limit.
func TestRequestOfATickEndsWithTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2, 2}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 1)
	w.start()
	var cause error
	w.loop.world.Places = func(ctx context.Context, _ api.PlacesQuestion) (api.Places, error) {
		w.lease.set(0)
		<-ctx.Done()
		cause = context.Cause(ctx)
		return api.Places{}, cause
	}
	w.lease.set(time.Millisecond)
	w.now = w.now.Add(time.Minute)
	if err := w.loop.Tick(t.Context(), w.now); !errors.Is(err, pools.ErrNotHolder) {
		t.Errorf("Tick = %v, want pools.ErrNotHolder", err)
	}
	if !errors.Is(cause, pools.ErrNotHolder) {
		t.Errorf("the request ended with %v, want pools.ErrNotHolder", cause)
	}
	w.wantCalls()
}

// A tick that fails after the end of the lease does not hold it, also if nothing has noticed the end: the process was paused,
// and the next holder works already.
func TestTickThatOutlastsTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []int{2, 2}, "web")
	w.asks(sigproto.DefaultApp, 1)
	w.asks("web", 9*cpusPerNode)
	w.start()
	w.memory.before = func() {
		w.memory.fail = errors.New("the write has no answer")
		w.lease.set(0)
	}
	w.now = w.now.Add(time.Minute)
	if err := w.loop.Tick(t.Context(), w.now); !errors.Is(err, pools.ErrNotHolder) {
		t.Errorf("Tick = %v, want pools.ErrNotHolder", err)
	}
	if r := w.ledger.last(t); !strings.Contains(strings.Join(append(r.Problems, r.Failed), " "), pools.ErrNotHolder.Error()) {
		t.Errorf("the record has %q, failed %q: want the end of the lease", r.Problems, r.Failed)
	}
	w.wantCalls()
}

// A process that starts while a machine boots has not observed since when its node is silent: the machine counts as coming until its
// boot time limit, so a waiting copy orders no other one. Only then is another one ordered.
func TestMachineThatBootsAtAStartIsComing(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(w *world){
		"a restart":                        func(w *world) { w.start() },
		"a start without the saved state":  func(w *world) { w.memory = &kept{}; w.start() },
		"a group that could not be read":   func(w *world) { unread(w) },
		"a restart after the unread group": func(w *world) { unread(w); w.start() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, s, _ := scheduled(t, 4)
			w.config.OrphansAfter = 10 * time.Minute
			w.reconfigure()
			for _, id := range w.instances() {
				w.nodes.change(func(n *nodes) { n.tasks[id] = 4 })
			}
			w.nodes.change(func(n *nodes) { n.mute = map[string]bool{"a-5": true} })
			s.wait(1, 2)
			wantOps(t, w.tick(), "set target a: 5")
			start(w)
			for range 2 {
				r := w.tickAgain()
				wantOps(t, r)
				w.now = w.now.Add(10 * time.Second)
			}
			for range 7 {
				wantOps(t, w.tick())
			}
			w.wantTarget(5)
			w.now = w.now.Add(10 * time.Minute)
			if r := w.tick(); len(ops(r)) == 0 {
				t.Error("a machine that never joined counts as coming for ever")
			}
		})
	}
}

// unread makes a tick whose reading of group a fails. A machine may appear meanwhile.
func unread(w *world) {
	g := w.groups[0]
	g.unread = errors.New("throttled")
	w.tick()
	g.unread = nil
}
