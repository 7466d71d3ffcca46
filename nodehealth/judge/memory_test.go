package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// pollsURL returns plain with a URL mode.
func pollsURL(actions ...Action) Policy {
	p := plain(actions...)
	p.Detection.Modes = append(p.Detection.Modes, DetectionMode{Type: api.DetectPollURL, Options: Options{PollURL: "http://x"}})
	return p
}

func workflow() Action {
	return Action{Name: api.ActionWorkflow, Params: Params{Kind: "command", Argv: []string{"/bin/mend"}}}
}

// takeOver continues the state in another judge, through JSON.
func (w *world) takeOver() {
	w.t.Helper()
	w.j = restored(w.t.(*testing.T), w.now, w.policy, w.j.State())
	w.notify(Nodes{List: slices.Clone(w.nodes)})
}

// The autoscaler dies while a workflow runs, and the next one reports an unknown result. The node
// still fails, so it is not healthy by itself, and the next action follows.
func TestTakeoverPreservesFailures(t *testing.T) {
	w := newWorld(t, pollsURL(workflow(), Action{Name: api.ActionReboot}), ten()...)
	w.pass(time.Minute)
	w.fail("n4", api.DetectPollURL, "503")
	w.ordered()
	attempt := w.j.roster.all["n4"].repair.Attempt
	w.pass(10 * time.Second)
	w.takeOver()
	for range 3 { // only heartbeats: the URL is not polled yet
		w.now = w.now.Add(time.Second)
		w.observe("n4", true)
		w.notify(Tick{})
	}
	w.notify(Outcome{Node: "n4", Attempt: attempt, Action: api.ActionWorkflow, Reason: "its end was not seen"}, Tick{})
	if w.state("n4") != api.StateRecovering || slices.Contains(w.events(), api.HealthRepairSucceeded) {
		t.Errorf("n4 is %s:\n%s", w.state("n4"), w.dump())
	}
	if e, _ := w.j.Explain(w.now, "n4"); !slices.ContainsFunc(e.Modes, func(m api.ModeVerdict) bool { return m.Mode == api.DetectPollURL && m.Reason == "503" }) {
		t.Errorf("modes %+v, want the reason of the failure", e.Modes)
	}
	w.pass(time.Minute)
	w.wantActs("WORKFLOW n4", "WORKFLOW n4", "REBOOT n4") // the second one is resumed
}

// The failures of a streak and the time of the first failure survive a takeover: the node is found
// no later than without one.
func TestTakeoverKeepsStreaks(t *testing.T) {
	found := func(takeover bool) time.Duration {
		w := newWorld(t, polled(Action{Name: api.ActionReboot}), ten()...)
		w.pass(time.Minute)
		w.fail("n4", api.DetectPollURL, "503")
		for w.state("n4") == api.StateHealthy {
			w.pass(time.Second)
		}
		w.pass(10 * time.Second)
		if takeover {
			w.takeOver()
		}
		w.ordered()
		return w.now.Sub(start())
	}
	if without, with := found(false), found(true); with > without {
		t.Errorf("ordered after %v, want %v as without a takeover", with, without)
	}
}

// A healthy node with one failing mode is stored. If the other modes are unknown after a takeover,
// and that mode never becomes ok, the node is not healthy.
func TestTakeoverPreservesAFailureOfAHealthyNode(t *testing.T) {
	p := pollsURL(Action{Name: api.ActionReboot})
	p.Detection.Conditional = AllFailed
	w := newWorld(t, p, ten()...)
	w.pass(time.Minute)
	w.fail("n4", api.DetectPollURL, "503")
	w.pass(2 * time.Minute)
	if w.state("n4") != api.StateHealthy {
		t.Fatalf("n4 is %s, want ok: one of three modes fails", w.state("n4"))
	}
	w.takeOver()
	if e, _ := w.j.Explain(w.now, "n4"); !slices.ContainsFunc(e.Modes, func(m api.ModeVerdict) bool { return m.Mode == api.DetectPollURL && m.Verdict == api.CheckFail }) {
		t.Errorf("modes %+v, want that the URL fails", e.Modes)
	}
}

// The position in the list of actions survives a configuration change that moves the action, and
// one that removes it.
func TestPolicyChangeKeepsThePosition(t *testing.T) {
	for name, actions := range map[string][]Action{
		"an action is added before": {{Name: api.ActionReboot}, workflow(), {Name: api.ActionRecreate}},
		"the list is the same":      {workflow(), {Name: api.ActionRecreate}},
		"the action is removed":     {{Name: api.ActionRecreate}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pollsURL(workflow(), Action{Name: api.ActionRecreate}), ten()...)
			w.pass(time.Minute)
			w.fail("n4", api.DetectPollURL, "503")
			w.ordered()
			attempt := w.j.roster.all["n4"].repair.Attempt
			w.policy.Recovery.Actions = actions
			w.takeOver()
			w.notify(Outcome{Node: "n4", Attempt: attempt, Action: api.ActionWorkflow, Reason: "exit 1"})
			w.pass(2 * time.Minute)
			w.wantActs("WORKFLOW n4", "RECREATE n4")
		})
	}
}

// The reasons for a quarantine and for a repair survive a takeover.
func TestTakeoverPreservesTheReasons(t *testing.T) {
	w := lost(t, Limit{80, true})
	before, _ := w.j.Explain(w.now, "n1")
	w.takeOver()
	after, _ := w.j.Explain(w.now, "n1")
	if after.Spent != before.Spent || before.Spent == "" || after.Why == "" {
		t.Errorf("spent %q, why %q, want %q, %q", after.Spent, after.Why, before.Spent, before.Why)
	}
}
