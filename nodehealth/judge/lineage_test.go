package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestLineages(t *testing.T) {
	old, inGrace, other := Node{ID: "old"}, Node{ID: "young"}, Node{ID: "x"}
	ls := newLineages(&rules{window: time.Hour, backoff: time.Minute, backoffMax: 4 * time.Minute, factor: 2})
	now := start()
	all := func(string) bool { return true }
	for _, s := range []struct {
		name  string
		after time.Duration
		do    func()
		n     Node
		spent int
		wait  time.Duration // minimum of the backoff; up to a tenth is added
	}{
		{"no repair", 0, func() {}, old, 0, 0},
		{"one begins", 0, func() { ls.begin(now, old) }, old, 1, 0},
		{"and ends", 0, func() { ls.end(now, old, true) }, old, 1, time.Minute},
		{"its replacement inherits it", 0, func() { ls.adopt("young", old) }, inGrace, 1, time.Minute},
		{"and adds to it", 10 * time.Minute, func() { ls.begin(now, inGrace); ls.end(now, inGrace, true) }, old, 2, 2 * time.Minute},
		{"the wait is bounded", 0, func() { ls.begin(now, old); ls.begin(now, old); ls.end(now, old, true) }, old, 4, 4 * time.Minute},
		{"the last is taken back", 0, func() { ls.undo(old) }, old, 3, 4 * time.Minute},
		{"another node has its own", 0, func() { ls.begin(now, other) }, other, 1, 0},
		{"the window passes the first", 50 * time.Minute, func() {}, old, 2, 0},
		{"a replacement that is gone", 0, func() { ls.forget(now, func(id string) bool { return id == "old" }) }, inGrace, 0, 0},
		{"the window passes all", time.Hour, func() { ls.forget(now, all) }, old, 0, 0},
		{"an operator forgives", 0, func() { ls.begin(now, other); ls.forgive(other) }, other, 0, 0},
	} {
		now = now.Add(s.after)
		s.do()
		if got := len(ls.recent(now, s.n)); got != s.spent {
			t.Errorf("%s: %d repairs, want %d", s.name, got, s.spent)
		}
		until, _ := ls.backoff(s.n)
		if got := max(0, until.Sub(now)); got < s.wait || got > s.wait+s.wait/10 {
			t.Errorf("%s: backoff of %v, want about %v", s.name, got, s.wait)
		}
	}
	if len(ls.all) > 0 || len(ls.born) > 0 {
		t.Errorf("left over: %v, %v", ls.all, ls.born)
	}
}

func TestRelapseBeginsWithTheNextAction(t *testing.T) {
	reboot, workflow := Action{Name: api.ActionReboot, MaxAttempts: new(2)}, Action{Name: api.ActionWorkflow, MaxAttempts: new(1)}
	r := &rules{window: time.Hour, actions: []Action{reboot, workflow}}
	ls, n, now := newLineages(r), Node{ID: "n"}, start()
	want := func(what string, index int) {
		t.Helper()
		again := newLineages(r)
		again.restore(now, ls.records())
		for _, one := range []*lineages{&ls, &again} {
			if got := one.relapseIndex(now, n); got != index {
				t.Errorf("%s: a repair begins with action %d, want %d", what, got, index)
			}
		}
	}
	repair := func(a Action, index int) {
		ls.begin(now, n)
		ls.succeeded(n, &Repair{Action: a, Index: index})
		ls.end(now, n, true)
		now = now.Add(time.Minute)
	}
	want("no repair", 0)
	repair(reboot, 0)
	want("a reboot helped once, of twice", 0)
	repair(reboot, 0)
	want("a reboot helped twice", 1)
	r.actions = []Action{{Name: api.ActionStart}, reboot, workflow}
	want("a policy with another action before it", 2)
	repair(workflow, 2)
	want("a workflow helped", 3)
	now = now.Add(time.Hour)
	want("after the window", 0)
	repair(reboot, 1)
	repair(reboot, 1)
	ls.adopt("m", n)
	n = Node{ID: "m"}
	want("the replacement", 0)
}

func TestLineagesSurvive(t *testing.T) {
	r := &rules{window: time.Hour}
	before, after, now := newLineages(r), newLineages(r), start()
	before.begin(now.Add(-time.Minute), Node{ID: "a"})
	before.begin(now, Node{ID: "a"})
	before.end(now, Node{ID: "a"}, true)
	after.restore(now, before.records())
	if diff := cmp.Diff(before.records(), after.records()); diff != "" {
		t.Error(diff)
	}
	after.restore(now.Add(-time.Hour), before.records())
	if until, _ := after.backoff(Node{ID: "a"}); until.After(now) {
		t.Errorf("an instant ahead of now counts as now, and it waits until %v", until)
	}
}

// An attempt is given back only if nothing of the repair was carried out. Here an earlier action
// was, and the machine of an order without a record may have been changed.
func TestUndoneAfterAnActionCounts(t *testing.T) {
	for _, test := range []struct {
		name    string
		actions []Action
		lost    bool
		want    int
	}{
		{"the first action", []Action{{Name: api.ActionReboot}}, false, 0},
		{"the first action, without a record", []Action{{Name: api.ActionReboot}}, true, 1},
		{"the second action", []Action{{Name: api.ActionStart, Timeout: dur(2 * time.Minute)}, {Name: api.ActionReboot}}, false, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, plain(test.actions...), ten()...)
			w.heal = func(w *world, o Order) []Event {
				out := Outcome{Node: o.Node, Attempt: o.Attempt, Step: StepUndone, Lost: test.lost, Reason: "refused"}
				switch {
				case o.Kind != OrderAct:
					return nil
				case o.Action.Name == api.ActionStart: // it runs, and the call does not end in time
					return []Event{w.stopped("n1", false)}
				}
				return []Event{out}
			}
			w.pass(time.Minute)
			w.notify(w.stopped("n1", test.actions[0].Name == api.ActionStart))
			w.unhealthy("n1")
			for !slices.Contains(w.events(), api.HealthRepairEnded) {
				w.pass(time.Second)
			}
			if e, _ := w.j.Explain(w.now, "n1"); e.Repairs != test.want {
				t.Errorf("%d repairs count, want %d: %v", e.Repairs, test.want, w.events())
			}
		})
	}
}

// stopped returns the provider's list with a node that is stopped, or running.
func (w *world) stopped(id string, stopped bool) Nodes {
	for i := range w.nodes {
		if w.nodes[i].ID == id {
			w.nodes[i].State = map[bool]Provided{true: Stopped, false: Running}[stopped]
		}
	}
	return Nodes{List: slices.Clone(w.nodes)}
}

// An attempt is given back only if nothing of the repair was carried out. Here a fence was.
func TestUndoneAfterAFenceCounts(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		p := plain(Action{Name: api.ActionRecreate})
		if fenced {
			p.Recovery.Fencing = []Level{FenceCompute}
		}
		w := newWorld(t, p, ten()...)
		w.heal = func(_ *world, o Order) []Event {
			out := Outcome{Node: o.Node, Attempt: o.Attempt, Step: StepUndone, Reason: "the groups are full"}
			switch o.Kind {
			case OrderFence:
				out.Step, out.OK = StepFence, true
			case OrderAct:
			default:
				return nil
			}
			return []Event{out}
		}
		w.pass(time.Minute)
		w.unhealthy("n1")
		for !slices.Contains(w.events(), api.HealthRepairEnded) {
			w.pass(time.Second)
		}
		if e, _ := w.j.Explain(w.now, "n1"); e.Repairs != one(fenced, 1) {
			t.Errorf("fenced %t: %d repairs count, want %d", fenced, e.Repairs, one(fenced, 1))
		}
	}
}
