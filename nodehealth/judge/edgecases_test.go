package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
)

// polled returns a policy of one mode, which checks some nodes only.
func polled(actions ...Action) Policy {
	p := plain(actions...)
	p.Detection.Modes = []DetectionMode{{Type: api.DetectPollURL, Options: Options{PollURL: "http://x"}}}
	return p
}

// ordered advances the time until the judge orders something.
func (w *world) ordered() {
	w.t.Helper()
	for end := w.now.Add(time.Hour); len(w.acts()) == 0; w.pass(time.Second) {
		if w.now.After(end) {
			w.t.Fatalf("nothing is ordered; found:\n%s", w.dump())
		}
	}
}

// Unknown nodes do not count as healthy: two of four fail, not two of ten.
func TestUnknownNodesAreNoEvidence(t *testing.T) {
	w := newWorld(t, polled(Action{Name: api.ActionReboot}), ten()...)
	w.heal = heals
	w.pass(time.Minute)
	for _, id := range []string{"n0", "n1", "n3", "n4", "n6", "n7"} {
		w.unobserved[id] = true
	}
	w.pass(time.Hour)
	w.fail("n2", api.DetectPollURL, "503")
	w.fail("n5", api.DetectPollURL, "503")
	w.pass(10 * time.Minute)
	w.wantActs()
	if open, _ := w.j.BreakerOpen(); !open {
		t.Errorf("the breaker is closed; found:\n%s", w.dump())
	}
}

// Operators' requests open no breaker, before and after their repairs begin.
func TestRepairRequestsOpenNoBreaker(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
	w.heal = heals
	w.pass(time.Minute)
	for _, id := range []string{"n1", "n4", "n7"} {
		w.notify(Recover{Node: id, By: "ann", For: 2 * time.Hour})
	}
	w.pass(2 * time.Hour)
	if slices.Contains(w.events(), api.HealthBreakerOpened) {
		t.Errorf("it opened:\n%s", w.dump())
	}
	w.wantActs("REBOOT n1", "REBOOT n4", "REBOOT n7")
}

// A release withdraws a request that waits at a gate.
func TestRepairRequestIsWithdrawn(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
	w.heal = heals
	w.pass(time.Minute)
	w.notify(Pause{Owner: "ops", TTL: time.Minute}, Recover{Node: "n4", By: "ann", For: time.Hour})
	w.pass(10 * time.Second)
	if e, _ := w.j.Explain(w.now, "n4"); e.Requester != "ann" || e.State != api.StateRequested {
		t.Errorf("n4 is %s, as %q asked", e.State, e.Requester)
	}
	w.notify(Release{Node: "n4", By: "bob"})
	w.pass(10 * time.Minute)
	w.wantActs()
	if e, _ := w.j.Explain(w.now, "n4"); e.Requester != "" || e.State != api.StateHealthy {
		t.Errorf("n4 is %s, as %q asked", e.State, e.Requester)
	}
}

// A release allows as many unhealthy nodes as there are then, until fewer are. The breaker does not
// open again at once. One more unhealthy node opens it.
func TestReleaseHolds(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
	w.pass(time.Minute)
	w.unhealthy("n1", "n4", "n7")
	w.pass(10 * time.Minute)
	w.wantActs()
	w.heal = heals
	w.notify(Release{By: "ann"}, Tick{})
	if b := w.j.State().Breakers; len(b) != 1 || b[0].Open || b[0].Allowed != 3 {
		t.Errorf("breakers %+v, want one that is closed, and allows 3", b)
	}
	w.j = again(t, w)
	w.notify(Nodes{List: slices.Clone(w.nodes)})
	w.pass(time.Hour)
	w.wantActs("REBOOT n1", "REBOOT n4", "REBOOT n7")
	w.unhealthy("n0", "n2", "n5", "n8")
	w.pass(10 * time.Minute)
	if open, _ := w.j.BreakerOpen(); !open {
		t.Errorf("it is closed:\n%s", w.dump())
	}
}

func again(t *testing.T, w *world) *Judge {
	t.Helper()
	j, err := Restore(w.now, w.policy, w.j.State())
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// A release of the pool thaws a zone that froze so often that it waits for a release.
func TestReleaseOfZones(t *testing.T) {
	p := plain(Action{Name: api.ActionReboot})
	p.Safety.MaxUnhealthy = &Limit{100, true}
	w := newWorld(t, p, ten()...)
	w.notify(Pause{Owner: "x", TTL: 24 * time.Hour})
	w.pass(time.Minute)
	for range 3 {
		w.unhealthy("n0", "n1", "n2")
		w.pass(3 * time.Minute)
		for _, id := range []string{"n0", "n1", "n2"} {
			w.cure(id)
		}
		w.pass(10 * time.Minute)
	}
	if b := w.j.State().Breakers; len(b) != 1 || !b[0].Open || !b[0].Manual {
		t.Fatalf("breakers %+v, want one that waits", b)
	}
	w.notify(Release{By: "ann"})
	w.pass(2 * time.Second)
	for _, b := range w.j.State().Breakers {
		if b.Open {
			t.Errorf("it is open still: %+v", b)
		}
	}
}

// A mode that reports only failures makes no node unknown.
func TestEventsAloneRaiseNoAlarm(t *testing.T) {
	p := plain(Action{Name: api.ActionStart})
	p.Detection.Modes = []DetectionMode{{Type: api.DetectLifecycleEvents}}
	w := newWorld(t, p, ten()...)
	w.pass(3 * time.Hour)
	for _, n := range w.j.Status() {
		if n.Verdict != api.CheckOK {
			t.Errorf("%s is %s: %s", n.Node, n.Verdict, n.Why)
		}
	}
	for _, f := range w.found {
		if f.Event == api.HealthCheckUnknown {
			t.Errorf("finding %v", f)
		}
	}
	if alarms := w.alarms(); len(alarms) > 0 {
		t.Errorf("alarms %v", alarms)
	}
}

// A node under in-place repair that stays unknown gives its repair slot back.
func TestUnknownFreesItsPlace(t *testing.T) {
	tests := []struct {
		name          string
		policy        Policy
		markUnhealthy func(w *world, id string)
	}{
		{"nobody looks at it", polled(Action{Name: api.ActionReboot}), func(w *world, id string) { w.fail(id, api.DetectPollURL, "503") }},
		{"a mode that only tells failures", func() Policy {
			p := plain(Action{Name: api.ActionStart})
			p.Detection.Modes = []DetectionMode{{Type: api.DetectLifecycleEvents}}
			return p
		}(), func(w *world, id string) { w.set(id, Stopped) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.policy, ten()...)
			w.heal = func(w *world, o Order) []Event {
				if o.Kind != OrderAct {
					return nil
				}
				w.set(o.Node, Running)
				w.unobserved[o.Node] = true
				return []Event{Outcome{Node: o.Node, OK: true, Attempt: o.Attempt}}
			}
			w.pass(time.Minute)
			test.markUnhealthy(w, "n1")
			w.ordered()
			w.pass(time.Hour)
			test.markUnhealthy(w, "n5")
			w.pass(time.Hour)
			name := test.policy.Recovery.Actions[0].Name
			w.wantActs(string(name)+" n1", string(name)+" n5")
		})
	}
}

// In an exclusive pool, a machine is confirmed down when two lists in a row show it. One list is
// not enough. A missing machine is not confirmed down, because it may have been detached.
func TestExclusiveEnds(t *testing.T) {
	tests := []struct {
		name   string
		change func(w *world)
		want   bool
	}{
		{"stopped in one list", func(w *world) { w.set("n1", Stopped); w.notify(Tick{}); w.set("n1", Running) }, false},
		{"the same list again", func(w *world) {
			w.set("n1", Stopped)
			w.notify(Nodes{List: slices.Clone(w.nodes), Again: true}, Tick{})
			w.set("n1", Running)
		}, false},
		{"detached", func(w *world) {
			w.nodes = slices.DeleteFunc(w.nodes, func(n Node) bool { return n.ID == "n1" })
			w.pass(2 * time.Minute)
		}, false},
		{"stopped in two lists", func(w *world) { w.set("n1", Stopped); w.set("n1", Stopped); w.notify(Tick{}) }, true},
		{"first stopped, then terminated", func(w *world) { w.set("n1", Stopped); w.set("n1", Terminated); w.notify(Tick{}) }, true},
	}
	for _, held := range []bool{false, true} {
		for _, test := range tests {
			name := test.name
			if held {
				name += ", fencing has failed"
			}
			t.Run(name, func(t *testing.T) {
				p := plain(Action{Name: api.ActionRecreate})
				p.Exclusive, p.Recovery.Fencing = true, []Level{FenceCompute}
				w := newWorld(t, p, ten()...)
				w.pass(time.Minute)
				w.unhealthy("n1")
				w.ordered()
				if held {
					w.pass(10 * time.Minute)
				}
				test.change(w)
				w.pass(10 * time.Second)
				if got := slices.Contains(w.acts(), "RECREATE n1"); got != test.want {
					t.Errorf("replaced: %t, want %t; found:\n%s", got, test.want, w.dump())
				}
			})
		}
	}
}

// A repeated list does not end a node.
func TestListAgain(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionRecreate}), ten()...)
	w.pass(time.Minute)
	w.notify(Nodes{List: w.nodes[1:]}, Nodes{List: w.nodes[1:], Again: true}, Nodes{List: w.nodes[1:], Again: true})
	if w.state("n0") != api.StateHealthy {
		t.Errorf("n0 is %s", w.state("n0"))
	}
	w.notify(Nodes{List: w.nodes[1:]})
	if w.state("n0") != "not there" {
		t.Errorf("n0 is %s", w.state("n0"))
	}
}

// A policy without fencing replaces one that had begun to fence.
func TestFencingIsDropped(t *testing.T) {
	p := plain(Action{Name: api.ActionRecreate})
	p.Recovery.Fencing = []Level{FenceCompute}
	w := newWorld(t, p, ten()...)
	w.pass(time.Minute)
	w.unhealthy("n1")
	w.ordered()
	w.policy.Recovery.Fencing = nil
	w.j = again(t, w)
	w.notify(Nodes{List: slices.Clone(w.nodes)})
	w.pass(2 * time.Minute)
	w.wantActs("fence n1", "RECREATE n1")
}

// A node whose replacement is launched first may go first if it does not serve, or if one more may
// be out of service.
func TestMayGoFirst(t *testing.T) {
	for _, test := range []struct {
		name  string
		serve bool // the heartbeat continues
		out   int  // number of other nodes out of service
		want  bool
	}{
		{"it serves nobody", false, 2, true},
		{"it serves, and one more may be out", true, 1, true},
		{"it serves, and no more may be out", true, 2, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := plain(Action{Name: api.ActionRecreate})
			p.Detection.Modes = append(p.Detection.Modes, DetectionMode{Type: api.DetectPollURL, Options: Options{PollURL: "http://x"}})
			p.Safety.MaxInProgress, p.Safety.Rate.Burst = &Limit{5, false}, new(9)
			w := newWorld(t, p, ten()...)
			w.pass(time.Minute)
			if test.serve {
				w.fail("n1", api.DetectPollURL, "503")
			} else {
				w.unhealthy("n1")
			}
			w.ordered()
			attempt := w.j.roster.all["n1"].repair.Attempt
			for _, id := range []string{"n4", "n7"}[:test.out] {
				w.j.safety.budget.out[id] = disruption.Repair
			}
			got := w.j.MayGoFirst(w.now, "n1", attempt)
			if got != test.want || w.j.roster.all["n1"].repair.TookOut != (test.serve && test.want) {
				t.Errorf("MayGoFirst() = %t, want %t; it is out: %t", got, test.want, w.j.roster.all["n1"].repair.TookOut)
			}
			if w.j.MayGoFirst(w.now, "n1", "another") || w.j.MayGoFirst(w.now, "n2", attempt) {
				t.Error("so may what is not under way")
			}
		})
	}
}
