package judge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
)

// spread makes a check fail on one node after the other: a URL fails, and the heartbeat continues.
func spread(t *testing.T, heal func(w *world, o Order) []Event) *world {
	p := plain(Action{Name: api.ActionWorkflow, Params: Params{Kind: "command", Argv: []string{"/bin/mend"}}})
	p.Detection.Modes = append(p.Detection.Modes, DetectionMode{Type: api.DetectPollURL, Options: Options{PollURL: "http://x"}})
	w := newWorld(t, p, ten()...)
	w.heal = heal
	w.pass(time.Minute)
	for i := range 10 {
		w.fail(fmt.Sprintf("n%d", i), api.DetectPollURL, "503")
		w.pass(30 * time.Minute)
	}
	return w
}

// A wrong check that spreads while every workflow fails quarantines no more nodes than
// min_available allows: 2 of 10. The breaker counts the quarantined ones.
func TestQuarantineKeepsTheDisruptionBudget(t *testing.T) {
	for name, heal := range map[string]func(w *world, o Order) []Event{
		"the workflow fails": func(_ *world, o Order) []Event {
			if o.Kind != OrderAct {
				return nil
			}
			return []Event{Outcome{Node: o.Node, Attempt: o.Attempt, Reason: "exit 1"}}
		},
		"the workflow succeeds, and mends nothing": useless,
	} {
		t.Run(name, func(t *testing.T) {
			w := spread(t, heal)
			quarantines := slices.DeleteFunc(w.acts(), func(a string) bool { return !strings.HasPrefix(a, "quarantine") })
			if len(quarantines) == 0 || len(quarantines) > 2 {
				t.Errorf("ordered %q, want 1 or 2 quarantines", quarantines)
			}
			if open, _ := w.j.BreakerOpen(); !open {
				t.Error("the breaker is closed, want it open: all nodes fail")
			}
			if t.Failed() {
				t.Log(w.dump())
			}
		})
	}
}

// lost returns a pool of ten whose actions all fail, with two nodes out of service and a third that
// fails now. The breaker allows all.
func lost(t *testing.T, min Limit) *world {
	p := plain(Action{Name: api.ActionReboot})
	p.Safety.MaxUnhealthy, p.Safety.MaxUnhealthyZone, p.Safety.MinAvailable = &Limit{100, true}, &Limit{100, true}, &min
	p.Safety.Rate = Rate{PerHour: new(600), Burst: new(20)}
	w := newWorld(t, p, ten()...)
	w.heal = func(_ *world, o Order) []Event {
		if o.Kind != OrderAct {
			return nil
		}
		return []Event{Outcome{Node: o.Node, Attempt: o.Attempt, Reason: "refused"}}
	}
	w.pass(time.Minute)
	for _, id := range []string{"n1", "n4", "n7"} {
		w.unhealthy(id)
		w.pass(10 * time.Minute)
	}
	return w
}

// A node whose repairs are used up is held if a gate refuses its quarantine: in service, not
// repaired again, with an alarm and the gate's name. It is quarantined once there is room.
func TestSpentNodeIsHeldUntilThereIsRoom(t *testing.T) {
	w := lost(t, Limit{80, true})
	w.wantActs("REBOOT n1", "quarantine n1", "REBOOT n4", "quarantine n4", "REBOOT n7")
	if w.state("n7") != api.StateHeld || !slices.Contains(w.alarms(), "held:n7") {
		t.Fatalf("n7 is %s, want held; alarms %q:\n%s", w.state("n7"), w.alarms(), w.dump())
	}
	if e, _ := w.j.Explain(w.now, "n7"); e.Gate != api.GateMinAvailable {
		t.Errorf("gate %q, want min_available", e.Gate)
	}
	w.pass(time.Hour)
	w.wantActs("REBOOT n1", "quarantine n1", "REBOOT n4", "quarantine n4", "REBOOT n7")

	w.j = restored(t, w.now, w.policy, w.j.State())
	w.notify(Nodes{List: slices.Clone(w.nodes)})
	w.cure("n1")
	w.notify(Release{Node: "n1", By: "ann"})
	w.pass(time.Minute)
	w.wantActs("REBOOT n1", "quarantine n1", "REBOOT n4", "quarantine n4", "REBOOT n7", "quarantine n7")
}

// A held node that is healthy again is in service. A released one is repaired again.
func TestHeldNodeReturns(t *testing.T) {
	w := lost(t, Limit{80, true})
	w.cure("n7")
	w.pass(5 * time.Minute)
	if w.state("n7") != api.StateHealthy {
		t.Errorf("n7 is %s, want ok:\n%s", w.state("n7"), w.dump())
	}

	w = lost(t, Limit{80, true})
	w.notify(Release{Node: "n7", By: "ann"})
	w.heal = heals
	w.pass(10 * time.Minute)
	if got := w.acts(); got[len(got)-1] != "REBOOT n7" || w.state("n7") != api.StateHealthy {
		t.Errorf("ordered %q, n7 is %s:\n%s", got, w.state("n7"), w.dump())
	}
}

// A quarantined node that leaves the pool frees its part of the budget.
func TestQuarantineOfANodeThatIsGone(t *testing.T) {
	w := lost(t, Limit{80, true})
	w.nodes = slices.DeleteFunc(w.nodes, func(n Node) bool { return n.ID == "n1" })
	w.nodes = append(w.nodes, Node{ID: "m1", Zone: "a", Since: w.now})
	w.pass(2 * time.Minute)
	if w.state("n7") != api.StateQuarantined {
		t.Errorf("n7 is %s, want quarantined:\n%s", w.state("n7"), w.dump())
	}
}

// While the pool is paused, or too many nodes are unhealthy, no node is quarantined.
func TestQuarantinePassesTheGates(t *testing.T) {
	p := plain(Action{Name: api.ActionReboot})
	w := newWorld(t, p, ten()...)
	w.heal = func(w *world, o Order) []Event {
		if o.Kind != OrderAct {
			return nil
		}
		return []Event{Pause{Owner: "ann", TTL: time.Hour}, Outcome{Node: o.Node, Attempt: o.Attempt, Reason: "refused"}}
	}
	w.pass(time.Minute)
	w.unhealthy("n4")
	w.pass(30 * time.Minute)
	if w.state("n4") != api.StateHeld {
		t.Errorf("n4 is %s while the pool is paused, want held", w.state("n4"))
	}
	w.pass(40 * time.Minute)
	w.wantActs("REBOOT n4", "quarantine n4")
}

// A quarantined node that is healthy for healthy_for returns, without a new repair. A failure
// restarts that time. Its attempts still count.
func TestQuarantinedNodeThatIsFitReturns(t *testing.T) {
	w := lost(t, Limit{80, true})
	w.cure("n1")
	w.pass(90 * time.Second)
	if e, _ := w.j.Explain(w.now, "n1"); e.State != api.StateQuarantined || e.FitSince.IsZero() || e.Spent == "" {
		t.Fatalf("n1 is %s, fit since %v, quarantined as %q: want quarantined, fit", e.State, e.FitSince, e.Spent)
	}
	w.notify(Observation{Node: "n1", Mode: api.DetectAgentHeartbeat, Verdict: api.CheckFail, Reason: "DiskFull"})
	w.pass(90 * time.Second)
	if w.state("n1") != api.StateQuarantined {
		t.Fatalf("n1 is %s, want quarantined: it failed once meanwhile", w.state("n1"))
	}
	w.pass(2 * time.Minute)
	released := slices.IndexFunc(w.found, func(f api.HealthFinding) bool { return f.Event == api.HealthNodeReleased && f.Node == "n1" })
	if released < 0 || w.found[released].Why != "healthy for 2m0s" || w.state("n1") != api.StateHealthy {
		t.Errorf("n1 is %s, want ok and released as healthy for 2m0s:\n%s", w.state("n1"), w.dump())
	}
	if e, _ := w.j.Explain(w.now, "n1"); e.Repairs == 0 {
		t.Error("its repairs are forgiven")
	}
}

// A serving node that is fenced is out of service, also while its replacement is launched first and
// while the fence is not confirmed.
func TestFencingTakesOutOfService(t *testing.T) {
	p := plain(Action{Name: api.ActionRecreate})
	p.Recovery.Fencing = []Level{FenceService}
	p.Detection.Modes = append(p.Detection.Modes, DetectionMode{Type: api.DetectPollURL, Options: Options{PollURL: "http://x"}})
	w := newWorld(t, p, ten()...)
	w.pass(time.Minute)
	w.fail("n1", api.DetectPollURL, "503")
	w.ordered()
	if got := w.j.safety.budget.out["n1"]; got != disruption.Repair || w.state("n1") != api.StateFencing {
		t.Errorf("n1 is %s, out by %q: want out by its repair", w.state("n1"), got)
	}
	w.pass(10 * time.Minute)
	if got := w.j.safety.budget.out["n1"]; got != disruption.Repair || w.state("n1") != api.StateFenceFailed {
		t.Errorf("n1 is %s, out by %q: want out by its repair", w.state("n1"), got)
	}
}
