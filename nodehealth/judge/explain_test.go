package judge

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestExplain(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
	w.heal = func(*world, Order) []Event { return nil }
	w.pass(time.Minute)
	if got := w.j.Unfit(); len(got) > 0 {
		t.Errorf("Unfit() = %v in a healthy pool", got)
	}
	w.fail("n4", api.DetectNodeStatus, "impaired")
	w.fail("n4", api.DetectAgentHeartbeat, "broken")
	w.pass(2 * time.Minute)
	e, ok := w.j.Explain(w.now, "n4")
	if !ok || e.State != api.StateRecovering || e.Action != api.ActionReboot || e.Repairs != 1 || e.Lineage != "n4" || e.Attempt != "n4.1" || e.Failing.IsZero() {
		t.Errorf("Explain() = %+v, %v", e, ok)
	}
	want := []api.ModeVerdict{{Mode: api.DetectNodeStatus, Verdict: api.CheckFail, Reason: "impaired", At: e.Modes[0].At, Silent: false}, {Mode: api.DetectAgentHeartbeat, Verdict: api.CheckFail, Reason: reasonSilent, At: e.Modes[1].At, Silent: true}}
	if diff := cmp.Diff(want, e.Modes); diff != "" || w.now.Sub(e.Modes[0].At) > 31*time.Second || w.now.Sub(e.Modes[1].At) < 110*time.Second {
		t.Errorf("modes at %v (-want +got):\n%s", w.now, diff)
	}
	if got := w.j.Unfit(); len(got) != 1 || got["n4"] == "" {
		t.Errorf("Unfit() = %v", got)
	}
	if got := w.j.Census(); got.States[api.StateRecovering] != 1 || got.States[api.StateHealthy] != 9 || got.Unknown != 0 {
		t.Errorf("Census() = %+v", got)
	}
	for attempt, want := range map[string]bool{"n4.1": true, "n4.2": false, "": false} {
		if got := w.j.Awaits("n4", attempt); got != want {
			t.Errorf("Awaits(%q) = %v", attempt, got)
		}
	}
	if _, ok := w.j.Explain(w.now, "n99"); ok {
		t.Error("a node that is not there is explained")
	}
}

// An action that escalates is not tried again, whatever max_attempts is.
func TestEscalate(t *testing.T) {
	for step, want := range map[Step][]string{
		StepDone:     {"REBOOT n4", "REBOOT n4", "REBOOT n4", "RECREATE n4"},
		StepEscalate: {"REBOOT n4", "RECREATE n4"},
	} {
		w := newWorld(t, plain(Action{Name: api.ActionReboot, MaxAttempts: new(3)}, Action{Name: api.ActionRecreate}), ten()...)
		w.heal = func(_ *world, o Order) []Event {
			if o.Kind != OrderAct || o.Action.Name != api.ActionReboot {
				return nil
			}
			return []Event{Outcome{Node: o.Node, Attempt: o.Attempt, Action: api.ActionReboot, Step: step, Reason: "in vain"}}
		}
		w.pass(time.Minute)
		w.unhealthy("n4")
		w.pass(3 * time.Minute)
		w.wantActs(want...)
	}
}
