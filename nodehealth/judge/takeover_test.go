package judge

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// provider launches and fences, each attempt once, and stores that over crashes of the judge.
type provider struct {
	launched map[string]string // by attempt
	fenced   map[string]bool
}

func (p *provider) do(w *world, o Order) []Event {
	switch o.Kind {
	case OrderFence:
		p.fenced[o.Attempt] = true
		return []Event{Outcome{Node: o.Node, Attempt: o.Attempt, Step: StepFence, OK: true}}
	case OrderAct:
		by, done := p.launched[o.Attempt]
		if !done {
			by = fmt.Sprintf("new%d", len(p.launched))
			p.launched[o.Attempt] = by
			w.replace(o.Node, by)
		}
		return []Event{Outcome{Node: o.Node, Attempt: o.Attempt, OK: true, Replacement: by}}
	}
	return nil
}

// crashing runs a RECREATE with one crash at that step of the Judge: its orders are lost, and the
// state is that before or after the step.
func crashing(t *testing.T, at int, durable bool) (w *world, p *provider, busy []int) {
	p = &provider{launched: map[string]string{}, fenced: map[string]bool{}}
	w = newWorld(t, exclusive(Action{Name: api.ActionRecreate}), ten()...)
	steps := 0
	var notify func(events []Event)
	notify = func(events []Event) {
		for _, ev := range events {
			steps++
			before := w.j.State()
			orders, found := w.j.Step(w.now, ev)
			w.orders, w.found = append(w.orders, orders...), append(w.found, found...)
			if len(orders)+len(found) > 0 {
				busy = append(busy, steps)
			}
			if steps == at {
				if durable {
					before = w.j.State()
				}
				w.j = restored(t, w.now, w.policy, before)
				w.notify(Nodes{List: slices.Clone(w.nodes)})
				continue
			}
			for _, o := range orders {
				if o.Kind == OrderRecheck {
					notify([]Event{Observation{Node: o.Node, Mode: api.DetectNodeStatus, Verdict: api.CheckFail}})
				}
				notify(p.do(w, o))
			}
		}
	}
	w.now = start()
	w.pass(time.Minute)
	w.unhealthy("n4")
	for range 600 {
		second := int(w.now.Sub(start()) / time.Second)
		for _, n := range slices.Clone(w.nodes) {
			if second%5 == 0 && n.ID != "n4" {
				notify([]Event{Observation{Node: n.ID, Mode: api.DetectAgentHeartbeat, Verdict: api.CheckOK}})
			}
			if v := api.CheckOK; second%30 == 0 {
				if n.ID == "n4" {
					v = api.CheckFail
				}
				notify([]Event{Observation{Node: n.ID, Mode: api.DetectNodeStatus, Verdict: v}})
			}
		}
		if second%30 == 0 {
			notify([]Event{Nodes{List: slices.Clone(w.nodes)}})
		}
		notify([]Event{Tick{}})
		w.now = w.now.Add(time.Second)
	}
	return w, p, busy
}

func restored(t *testing.T, now time.Time, p Policy, s State) *Judge {
	t.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var read State
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	j, err := Restore(now, p, read)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// If the process is killed at any step, with its state saved or not, there is exactly one
// replacement.
func TestExactlyOneReplacement(t *testing.T) {
	_, p, busy := crashing(t, -1, false)
	if len(p.launched) != 1 || len(busy) < 8 {
		t.Fatalf("without a crash: launched %v, %d steps", p.launched, len(busy))
	}
	for _, at := range busy {
		for _, durable := range []bool{false, true} {
			w, p, _ := crashing(t, at, durable)
			if len(p.launched) != 1 || w.state("n4") != "not there" || w.state("new0") != api.StateHealthy {
				t.Errorf("crash at step %d, durable %v: launched %v, n4 is %s, new0 is %s:\n%s", at, durable, p.launched, w.state("n4"), w.state("new0"), w.dump())
			}
		}
	}
}

func TestTakeoverPreservesState(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
	w.heal = heals
	w.pass(time.Minute)
	w.notify(Pause{Node: "n1", Owner: "ops", TTL: time.Hour})
	w.unhealthy("n1")
	for range 3 {
		w.unhealthy("n4")
		w.pass(30 * time.Minute)
		w.j = restored(t, w.now, w.policy, w.j.State())
	}
	w.unhealthy("n4")
	w.pass(10 * time.Minute)
	got := w.acts()
	if !slices.Contains(got, "quarantine n4") || len(got) < 5 {
		t.Errorf("ordered %q, want three reboots of n4, its quarantine, and a reboot of n1 after its pause", got)
	}
	w.j = restored(t, w.now, w.policy, w.j.State())
	before := len(w.orders)
	w.pass(time.Hour)
	if len(w.acts()) != len(got) {
		t.Errorf("ordered after the takeover: %v", w.orders[before:])
	}
}

// Repairs of mode observe block nothing once the policy acts.
func TestFromObserveToAct(t *testing.T) {
	p := plain(Action{Name: api.ActionReboot})
	p.Mode = api.ModeObserve
	w := newWorld(t, p, ten()...)
	w.heal = heals
	w.pass(time.Minute)
	w.unhealthy("n4")
	w.pass(3 * time.Hour)
	w.wantActs("REBOOT n4", "REBOOT n4", "REBOOT n4", "quarantine n4")
	w.policy.Mode = api.ModeAct
	w.j = restored(t, w.now, w.policy, w.j.State())
	w.orders = nil
	w.pass(5 * time.Minute)
	w.wantActs("REBOOT n4")
}

func TestRestoreRefuses(t *testing.T) {
	repair := &Repair{Action: Action{Name: api.ActionReboot}.withDefaults(false)}
	for name, s := range map[string]State{
		"version":        {Version: 2},
		"state":          {Version: 1, Nodes: []NodeRecord{{Node: Node{ID: "a"}, State: "fine"}}},
		"no id":          {Version: 1, Nodes: []NodeRecord{{State: api.StateFresh}}},
		"twice":          {Version: 1, Nodes: []NodeRecord{{Node: Node{ID: "a"}, State: api.StateFresh}, {Node: Node{ID: "a"}, State: api.StateFresh}}},
		"no repair":      {Version: 1, Nodes: []NodeRecord{{Node: Node{ID: "a"}, State: api.StateRecovering}}},
		"a repair":       {Version: 1, Nodes: []NodeRecord{{Node: Node{ID: "a"}, State: api.StateSuspect, Repair: repair}}},
		"no timeout":     {Version: 1, Nodes: []NodeRecord{{Node: Node{ID: "a"}, State: api.StateRecovering, Repair: &Repair{}}}},
		"negative spent": {Version: 1, Spent: -1},
	} {
		if _, err := Restore(start(), plain(), s); err == nil {
			t.Errorf("%s: restored", name)
		}
	}
}

func FuzzRestore(f *testing.F) {
	f.Add([]byte(`{"version":1,"nodes":[{"node":{"id":"a"},"state":"verifying","since":"2031-01-01T00:00:00Z","repair":{"origin":"a","action":{"name":"REBOOT","timeout":9,"max_attempts":1}}}]}`))
	f.Add([]byte(`{"version":1,"breakers":[{"zone":"a","open":true}],"pauses":[{"owner":"x"}],"alarms":[{"key":"k"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var s State
		if json.Unmarshal(data, &s) != nil {
			return
		}
		j, err := Restore(start(), plain(), s)
		if err != nil {
			return
		}
		for i := range 5 {
			j.Step(start().Add(time.Duration(i)*time.Hour), Tick{})
			j.Step(start().Add(time.Duration(i)*time.Hour), Nodes{List: []Node{{ID: "a"}, {ID: "b"}}})
		}
		if err := j.State().Validate(); err != nil {
			t.Errorf("the state that follows is not valid: %v", err)
		}
	})
}
