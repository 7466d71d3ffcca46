package judge

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestProgressOfARepair(t *testing.T) {
	now := start()
	const passes, relapses api.HealthEvent = "passes", "relapses" // in these tests only
	past, future := now.Add(-time.Second), now.Add(time.Second)
	for _, test := range []struct {
		name   string
		state  api.HealthState
		repair Repair
		set    func(n *node, d *detection)
		want   api.HealthEvent // "": no finding
		why    string
	}{
		{"claimed, and not checked since", api.StateClaimed, Repair{Since: future}, failing, "", ""},
		{"claimed, and it fails again", api.StateClaimed, Repair{Since: past}, failing, api.HealthRepairStarted, "NODE_STATUS_POLLING: impaired"},
		{"claimed, and without a verdict", api.StateClaimed, Repair{Since: past}, nil, api.HealthRepairBlocked, "no verdict now"},
		{"claimed, and no check came", api.StateClaimed, Repair{Since: past}, func(n *node, d *detection) {
			failing(n, d)
			d.interval = time.Second / 2
			n.repair.Since, n.tracks[0].at = past, past.Add(-1)
		}, api.HealthRepairBlocked, "no observation confirmed the failure"},
		{"claimed, and let go", api.StateClaimed, Repair{Since: past}, leaving, api.HealthRepairEnded, "the pool removes the node"},

		{"fencing", api.StateFencing, Repair{Deadline: future}, nil, "", ""},
		{"fencing, and the machine stops", api.StateFencing, Repair{Deadline: future}, func(n *node, _ *detection) { n.State = Stopped }, api.HealthFenceConfirmed, "the machine is stopped"},
		{"fencing, and one list of an exclusive pool has the machine stopped", api.StateFencing, Repair{Deadline: future},
			func(n *node, d *detection) { d.exclusive, n.State, n.down = true, Stopped, 1 }, "", ""},
		{"fencing, and two lists do", api.StateFencing, Repair{Deadline: future},
			func(n *node, d *detection) { d.exclusive, n.State, n.down = true, Stopped, 2 }, api.HealthFenceConfirmed, "the machine is stopped"},
		{"fencing takes too long", api.StateFencing, Repair{Deadline: now}, nil, api.HealthFenceUnconfirmed, "not confirmed in time"},
		{"fencing, and let go", api.StateFencing, Repair{Deadline: future}, leaving, "", ""},

		{"an action is under way", api.StateRecovering, Repair{Deadline: future}, fine, "", ""},
		{"an action takes too long", api.StateRecovering, Repair{Deadline: now}, fine, api.HealthRepairFailed, "no outcome in time"},
		{"the next action waits", api.StateRecovering, Repair{Waiting: true}, failing, api.HealthRepairStarted, "NODE_STATUS_POLLING: impaired"},
		{"it is fit meanwhile", api.StateRecovering, Repair{Waiting: true}, fine, api.HealthRepairSucceeded, "healthy without an action"},
		{"it is fenced: it cannot be fit", api.StateRecovering, Repair{Waiting: true, Fenced: true}, fine, api.HealthRepairStarted, ""},
		{"an operator asked: fit or not", api.StateRecovering, Repair{Waiting: true}, func(n *node, d *detection) { fine(n, d); n.requester = "ann" }, api.HealthRepairStarted, "ann"},
		{"it waits, and is let go", api.StateRecovering, Repair{Waiting: true}, leaving, api.HealthRepairEnded, "the pool removes the node"},

		{"it is fit at last", api.StateVerifying, Repair{Deadline: future}, fine, passes, ""},
		{"for a while", api.StateVerifying, Repair{Deadline: future, Passing: past}, fine, "", ""},
		{"for long enough", api.StateVerifying, Repair{Deadline: past, Passing: now.Add(-2 * time.Minute)}, fine, api.HealthRepairSucceeded, "healthy for 2m0s"},
		{"it fails before the deadline", api.StateVerifying, Repair{Deadline: future, Passing: past}, failing, relapses, ""},
		{"it fails at the deadline", api.StateVerifying, Repair{Deadline: now}, failing, api.HealthRepairFailed, "NODE_STATUS_POLLING: impaired"},
		{"no verdict before the deadline", api.StateVerifying, Repair{Deadline: future}, nil, "", ""},
		{"no verdict after the deadline", api.StateVerifying, Repair{Deadline: past}, nil, api.HealthRepairBlocked, "no verdict: the repair can neither succeed nor escalate"},
		{"no verdict long after the deadline", api.StateVerifying, Repair{Deadline: now.Add(-10 * time.Minute)}, nil, api.HealthRepairEnded,
			"no verdict for 10m0s: the repair can neither succeed nor escalate"},
		{"its replacement is not listed yet", api.StateVerifying, Repair{Deadline: future}, func(n *node, _ *detection) { n.unlisted = true }, "", ""},
		{"its replacement never is", api.StateVerifying, Repair{Deadline: past}, func(n *node, _ *detection) { n.unlisted = true }, api.HealthRepairFailed,
			"not in the provider's list in time"},
		{"the provider has not replaced it", api.StateVerifying, Repair{Deadline: future, Ends: true}, fine, "", ""},
		{"the provider has", api.StateVerifying, Repair{Deadline: future, Ends: true}, func(n *node, _ *detection) { n.State = Terminated }, api.HealthRepairSucceeded,
			"the machine ended, and the provider replaces it"},
		{"it leaves, as it is replaced", api.StateVerifying, Repair{Deadline: future, Ends: true}, leaving, api.HealthRepairSucceeded, "the machine ended, and the provider replaces it"},
		{"the provider does not replace it", api.StateVerifying, Repair{Deadline: past, Ends: true}, fine, api.HealthRepairFailed, "not in the provider's list in time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ro := newTestRoster(t)
			d, l := ro.detection, ro.journal
			rs := repairs{roster: ro, rules: d.rules}
			n := ro.addNode(now, Node{ID: "n"})
			n.repair = &test.repair
			n.repair.Action = Action{Name: api.ActionReboot}.withDefaults(false)
			ro.setState(now, n, test.state)
			if test.set != nil {
				test.set(n, d)
			}
			if n.State != Terminated {
				n.assess(now, d, &n.Node)
			}
			passing := n.repair.Passing
			again := rs.progress(now, n)
			_, found := l.takeEntries()
			got, why := first(found), ""
			switch {
			case got != "":
				why = found[0].Why
			case passing.IsZero() && !n.repair.Passing.IsZero():
				got = passes
			case !passing.IsZero() && n.repair.Passing.IsZero():
				got = relapses
			}
			if got != test.want || why != test.why {
				t.Errorf("%q (%q), want %q (%q)", got, why, test.want, test.why)
			}
			if forgotten := test.want == api.HealthRepairEnded && n.State != Leaving; again != forgotten {
				t.Errorf("judged again: %t", again)
			}
			if len(found) == 0 && n.state != test.state {
				t.Errorf("it is %s", n.state)
			}
		})
	}
}

// failing makes the provider's check fail twice just now.
func failing(n *node, d *detection) {
	for range 2 {
		n.addObservation(start(), d, 0, Observation{Verdict: api.CheckFail, Reason: "impaired"})
	}
}

func fine(n *node, d *detection) { n.addObservation(start(), d, 0, Observation{Verdict: api.CheckOK}) }

func leaving(n *node, _ *detection) { n.State = Leaving }

func TestOutcomeOfARepairInProgress(t *testing.T) {
	reboot := Repair{Action: Action{Name: api.ActionReboot}, Attempt: "n.1"}
	waiting := reboot
	waiting.Waiting = true
	held := Repair{Action: Action{Name: api.ActionRecreate}, Attempt: "n.1"}
	fenced := held
	fenced.Fenced = true
	for _, test := range []struct {
		name   string
		state  api.HealthState
		repair *Repair
		o      Outcome
		want   bool
	}{
		{"no repair", api.StateUnhealthy, nil, Outcome{}, false},
		{"by the node alone", api.StateRecovering, &reboot, Outcome{OK: true}, true},
		{"by its attempt", api.StateRecovering, &reboot, Outcome{Attempt: "n.1"}, true},
		{"of another attempt", api.StateRecovering, &reboot, Outcome{Attempt: "n.2"}, false},
		{"of another action", api.StateRecovering, &reboot, Outcome{Action: api.ActionRebuild}, false},
		{"of the action before", api.StateRecovering, &waiting, Outcome{Attempt: "n.1"}, false},
		{"before it is claimed for good", api.StateClaimed, &reboot, Outcome{}, false},
		{"fencing", api.StateFencing, &held, Outcome{}, true},
		{"fencing, and the action", api.StateFencing, &held, Outcome{Step: StepDone}, false},
		{"fencing, and nothing was done", api.StateFencing, &held, Outcome{Step: StepUndone}, true},
		{"held, and fenced after all", api.StateFenceFailed, &held, Outcome{Step: StepFence, OK: true}, true},
		{"held, and fenced already", api.StateFenceFailed, &fenced, Outcome{Step: StepFence, OK: true}, false},
		{"verified by the action", api.StateVerifying, &reboot, Outcome{Step: StepVerified, OK: true}, true},
		{"done, a second time", api.StateVerifying, &reboot, Outcome{Step: StepDone, OK: true}, false},
		{"done, and failed after all", api.StateVerifying, &reboot, Outcome{Step: StepDone}, true},
	} {
		n := &node{Node: Node{ID: "n"}, state: test.state, repair: test.repair}
		if got := n.awaited(test.o); got != test.want {
			t.Errorf("%s: awaited %t, want %t", test.name, got, test.want)
		}
	}
}
