package apps

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// placedWorld is a machine that counts copies where their placer has put them.
type placedWorld struct {
	*testing.T
	m      *Machine
	now    time.Time
	nudges []Nudge
	found  []api.AppFinding
}

func newPlacedWorld(t *testing.T, rows ...api.App) *placedWorld {
	cfg := steady()
	cfg.Places = true
	w := &placedWorld{T: t, m: NewMachine(cfg), now: start()}
	w.step(BusUp{}, Lead{}, ExpectedRows{rows}, ExpectedComplete{})
	return w
}

func (w *placedWorld) step(events ...Event) {
	for _, ev := range events {
		nudges, found := w.m.Step(w.now, ev)
		w.nudges, w.found = append(w.nudges, nudges...), append(w.found, found...)
	}
}

func (w *placedWorld) heartbeat(node string, beats ...api.Beat) {
	ev := beat(node, beats...)
	ev.Node = message.Node{Pool: "p", Name: node}
	w.step(ev)
}

// answer answers the requests of the machine: which copies are on that node.
func (w *placedWorld) answer(placed map[string]string) {
	for pool, copies := range w.m.TakeUnplaced() {
		ev := Placed{Pool: pool}
		for _, c := range copies {
			if placed[c.Instance] == c.Node {
				ev.Placed = append(ev.Placed, c.Instance)
			} else {
				ev.NotPlaced = append(ev.NotPlaced, c.Instance)
			}
		}
		w.step(ev)
	}
}

func (w *placedWorld) pass(d time.Duration) {
	w.now = w.now.Add(d)
	w.step(Tick{})
}

func up(id string, index int) api.Beat {
	return api.Beat{App: "web", Version: "v1", Instance: id, Index: index, State: api.CopyRunning, Since: 1}
}

func (w *placedWorld) wantNudges(starts, stops int) {
	w.Helper()
	got := [2]int{}
	for _, n := range w.nudges {
		if n.Start != nil {
			got[0] += len(n.Start.Indices)
		} else {
			got[1] += len(n.Stop.Instances)
		}
	}
	if got != [2]int{starts, stops} {
		w.Errorf("%d starts and %d stops, want %d and %d: %v", got[0], got[1], starts, stops, w.nudges)
	}
	w.nudges = nil
}

func web(instances int) api.App {
	return api.App{Name: "web", Pool: "p", Version: "v1", Instances: instances, Package: api.PackageStaged}
}

// A node that lists copies which were not placed there covers no index, wins no duplicate, and is reported. The real copies go
// on, whatever times the node gives.
func TestForgedCopiesCountNowhere(t *testing.T) {
	w := newPlacedWorld(t, web(3))
	real := map[string]string{"r0": "n1", "r1": "n1", "r2": "n1"}
	all := func() {
		w.heartbeat("n1", up("r0", 0), up("r1", 1), up("r2", 2))
		w.heartbeat("evil", up("f0", 0), up("f1", 1), up("f2", 2))
		w.answer(real)
	}
	all()
	for range 30 {
		w.pass(5 * time.Second)
		all()
	}
	w.wantNudges(0, 0)
	wrong := w.m.View().WrongSenders()
	if len(wrong) != 1 || wrong[0].Node != "evil" || wrong[0].Why != api.WhyNotPlaced {
		t.Errorf("wrong senders %v, want evil", wrong)
	}
	// The real copy of index 1 ends: the forged one does not stand in for it.
	delete(real, "r1")
	w.step(Exit{Node: message.Node{Pool: "p", Name: "n1"}, Exited: api.Exited{App: "web", Version: "v1", Instance: "r1", Index: 1, Reason: api.ExitShutdown}})
	for range 3 {
		w.pass(time.Second)
		w.heartbeat("n1", up("r0", 0), up("r2", 2))
		w.heartbeat("evil", up("f0", 0), up("f1", 1), up("f2", 2))
		w.answer(real)
	}
	w.wantNudges(1, 0)
	if c := w.m.View().Counts(w.now, "p").Apps["web"]; c.Running != 2 || c.Extra != 0 {
		t.Errorf("counts %+v, want 2 running and none extra", c)
	}
}

// A node that changes its forged copies in each heartbeat keeps no index from its start: after the first refusal its unconfirmed
// copies count nowhere.
func TestEverNewForgedCopiesKeepNoIndex(t *testing.T) {
	w := newPlacedWorld(t, web(1))
	w.heartbeat("n1")
	for i := range 12 {
		w.heartbeat("evil", up(string(rune('a'+i)), 0))
		w.pass(time.Second)
		w.heartbeat("evil", up(string(rune('a'+i)), 0))
		w.answer(nil)
	}
	w.pass(time.Second)
	w.wantNudges(1, 0)
}

// Without an answer of the placer, as after a restart without memory, nothing is started and nothing is stopped.
func TestUnknownPlacementsStartAndStopNothing(t *testing.T) {
	w := newPlacedWorld(t, web(2))
	for range 60 {
		w.heartbeat("n1", up("a", 0), up("b", 1), up("c", 2))
		w.heartbeat("n2", up("d", 0))
		w.m.TakeUnplaced()
		w.pass(5 * time.Second)
	}
	w.wantNudges(0, 0)
	if wrong := w.m.View().WrongSenders(); wrong != nil {
		t.Errorf("wrong senders %v, want none", wrong)
	}
	real := map[string]string{"a": "n1", "b": "n1", "c": "n1", "d": "n2"}
	for range 12 {
		w.heartbeat("n1", up("a", 0), up("b", 1), up("c", 2))
		w.heartbeat("n2", up("d", 0))
		w.answer(real)
		w.pass(5 * time.Second)
	}
	stopped := map[string]bool{}
	for _, n := range w.nudges {
		if n.Stop == nil {
			t.Errorf("start %v", n.Start)
			continue
		}
		for id := range n.Stop.Instances {
			stopped[id] = true
		}
	}
	if len(stopped) != 2 || !stopped["c"] || !stopped["d"] {
		t.Errorf("stopped %v, want c, beyond the instances, and d, which was seen later than a", stopped)
	}
}

// An exit counts for a copy that was there. Others never make an app given up.
func TestForgedExitsAreRefused(t *testing.T) {
	w := newPlacedWorld(t, web(1))
	real := map[string]string{"r0": "n1", "early": "n1"}
	exit := func(node, id string) {
		w.step(Exit{Node: message.Node{Pool: "p", Name: node}, Exited: api.Exited{App: "web", Version: "v1", Instance: id, Reason: api.ExitCrashed}})
		w.answer(real)
	}
	w.heartbeat("n1", up("r0", 0))
	w.heartbeat("evil")
	w.answer(real)
	w.pass(12 * time.Second)
	for i := range 20 {
		exit("evil", string(rune('a'+i)))
		exit("evil", "r0")
	}
	w.pass(time.Second)
	w.wantNudges(0, 0)
	e, _ := w.m.View().Explain(w.now, "web")
	if e.Indices[0].Crashes != 0 || e.Indices[0].GivenUp || len(w.m.View().Crashes("web")) != 0 {
		t.Errorf("index %+v, want no crash", e.Indices[0])
	}
	if wrong := w.m.View().WrongSenders(); len(wrong) == 0 || wrong[0].Node != "evil" {
		t.Errorf("wrong senders %v, want evil", wrong)
	}
	exit("n1", "r0")
	w.heartbeat("n1")
	exit("n1", "early") // it was placed, and ended before its node could list it
	if got := len(w.m.View().Crashes("web")); got != 2 {
		t.Errorf("%d crashes, want those of r0 and early", got)
	}
}

// An instance that runs on one node does not move to another node that lists it.
func TestInstanceOfAnotherNodeDoesNotMove(t *testing.T) {
	w := newPlacedWorld(t, web(1))
	w.heartbeat("n1", up("r0", 0))
	w.answer(map[string]string{"r0": "n1"})
	for range 12 {
		w.pass(5 * time.Second)
		w.heartbeat("evil", up("r0", 0))
		w.heartbeat("n1", up("r0", 0))
	}
	w.wantNudges(0, 0)
	e, _ := w.m.View().Explain(w.now, "web")
	if in := e.Indices[0].Instances; len(in) != 1 || in[0].Node != "n1" {
		t.Errorf("instances %v, want r0 on n1", in)
	}
	if wrong := w.m.View().WrongSenders(); len(wrong) != 1 || wrong[0].Node != "evil" || wrong[0].Why != api.WhyNotPlaced {
		t.Errorf("wrong senders %v, want evil", wrong)
	}
}

// Nodes whose copies are unknown, because their placer does not answer, and which are lost at once, hold all nudges.
func TestLossOfUnknownCopiesIsLimited(t *testing.T) {
	w := newPlacedWorld(t, web(30))
	all := func() {
		for n := range 3 {
			var beats []api.Beat
			for i := range 10 {
				index := 10*n + i
				beats = append(beats, up(string(rune('A'+index)), index))
			}
			w.heartbeat(string(rune('a'+n)), beats...)
		}
	}
	for range 3 {
		all()
		w.pass(10 * time.Second)
	}
	w.heartbeat("other")
	for range 8 {
		w.pass(5 * time.Second)
		w.heartbeat("other")
	}
	w.wantNudges(0, 0)
	if l := w.m.View().DisruptionLimit(); !l.Holds() || l.Indices != 30 {
		t.Errorf("limit %+v, want it to hold for 30 indices", l)
	}
}

// A copy of a pool whose placer does not answer delays no request of a copy that is listed later.
func TestNewCopyDoesNotWaitForRepetitions(t *testing.T) {
	w := newPlacedWorld(t, web(2))
	w.heartbeat("n1", up("a", 0))
	w.m.TakeUnplaced()
	w.pass(time.Second)
	w.heartbeat("n1", up("a", 0), up("b", 1))
	if got := w.m.TakeUnplaced()["p"]; len(got) != 1 || got[0].Instance != "b" {
		t.Errorf("the next request: %v, want that of b", got)
	}
	w.pass(4 * time.Second)
	if got := w.m.TakeUnplaced()["p"]; len(got) != 1 || got[0].Instance != "a" {
		t.Errorf("5 s after the first request: %v, want that of a again", got)
	}
}

// The end of a copy counts for the node that reported it, also if another node lists the copy meanwhile.
func TestEndOfACopyStaysWithItsNode(t *testing.T) {
	w := newPlacedWorld(t, web(1))
	w.step(Exit{Node: message.Node{Pool: "p", Name: "n1"}, Exited: api.Exited{App: "web", Version: "v1", Instance: "early", Reason: api.ExitCrashed}})
	w.heartbeat("evil", up("early", 0))
	w.answer(map[string]string{"early": "n1"})
	if got := len(w.m.View().Crashes("web")); got != 1 {
		t.Errorf("%d crashes, want that of early", got)
	}
}

// A given-up index has the reason of its last exit for as long as it is given up, also for the next harmonizer. After a retry it has none.
func TestGivenUpIndexKeepsItsLastExit(t *testing.T) {
	w := newPlacedWorld(t, web(1))
	most := *w.m.cfg.GiveupCrashNumber
	for i := range most + 1 {
		id := fmt.Sprint("r", i)
		w.heartbeat("n1", up(id, 0))
		w.answer(map[string]string{id: "n1"})
		w.pass(time.Second)
		w.step(Exit{Node: message.Node{Pool: "p", Name: "n1"}, Exited: api.Exited{App: "web", Version: "v1", Instance: id, Reason: api.ExitCrashed, Status: new(3), Description: "exit status 3 in " + id}})
		w.heartbeat("n1")
		w.pass(time.Second)
	}
	last := func(m *Machine) string {
		e, _ := m.View().Explain(w.now, "web")
		all := m.View().Crashes("web")
		if len(all) == 0 {
			return fmt.Sprintf("given up %t", e.Indices[0].GivenUp)
		}
		c := all[len(all)-1]
		return fmt.Sprintf("given up %t: %s, %d", e.Indices[0].GivenUp, c.Description, *c.Status)
	}
	want := fmt.Sprintf("given up true: exit status 3 in r%d, 3", most)
	saved := w.m.Memories()
	for _, age := range []time.Duration{time.Second, w.m.cfg.FlappingTimeout + time.Minute, 24 * time.Hour} {
		w.pass(age)
		w.heartbeat("n1")
		w.pass(time.Second)
		if got := last(w.m); got != want {
			t.Errorf("%v later: %s, want %s", age, got, want)
		}
	}
	next := newPlacedWorld(t)
	next.now = w.now
	next.m = NewMachine(w.m.cfg)
	next.step(BusUp{}, Lead{Memories: saved}, ExpectedRows{[]api.App{web(1)}}, ExpectedComplete{})
	next.pass(time.Second)
	if got := last(next.m); got != want {
		t.Errorf("the next harmonizer: %s, want %s", got, want)
	}
	w.step(Retry{App: "web", Index: -1})
	if got := last(w.m); got != "given up false" {
		t.Errorf("after a retry: %s", got)
	}
}
