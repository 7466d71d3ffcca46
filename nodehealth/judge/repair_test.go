package judge

import (
	"testing"
	"time"
)

func TestProgressOfARepair(t *testing.T) {
	now := start()
	const passes, relapses FindingEvent = "passes", "relapses" // in these tests only
	past, future := now.Add(-time.Second), now.Add(time.Second)
	for _, test := range []struct {
		name   string
		state  NodeState
		repair Repair
		set    func(n *node, d *detection)
		want   FindingEvent // "": no finding
		why    string
	}{
		{"claimed, and not checked since", Claimed, Repair{Since: future}, failing, "", ""},
		{"claimed, and it fails again", Claimed, Repair{Since: past}, failing, RepairStarted, "NODE_STATUS_POLLING: impaired"},
		{"claimed, and without a verdict", Claimed, Repair{Since: past}, nil, RepairBlocked, "no verdict now"},
		{"claimed, and no check came", Claimed, Repair{Since: past}, func(n *node, d *detection) {
			failing(n, d)
			d.interval = time.Second / 2
			n.repair.Since, n.tracks[0].at = past, past.Add(-1)
		}, RepairBlocked, "no observation confirmed the failure"},
		{"claimed, and let go", Claimed, Repair{Since: past}, leaving, RepairEnded, "the pool removes the node"},

		{"fencing", Fencing, Repair{Deadline: future}, nil, "", ""},
		{"fencing, and the machine stops", Fencing, Repair{Deadline: future}, func(n *node, _ *detection) { n.State = Stopped }, FenceConfirmed, "the machine is stopped"},
		{"fencing, and one list of an exclusive pool has the machine stopped", Fencing, Repair{Deadline: future},
			func(n *node, d *detection) { d.exclusive, n.State, n.down = true, Stopped, 1 }, "", ""},
		{"fencing, and two lists do", Fencing, Repair{Deadline: future},
			func(n *node, d *detection) { d.exclusive, n.State, n.down = true, Stopped, 2 }, FenceConfirmed, "the machine is stopped"},
		{"fencing takes too long", Fencing, Repair{Deadline: now}, nil, FenceUnconfirmed, "not confirmed in time"},
		{"fencing, and let go", Fencing, Repair{Deadline: future}, leaving, "", ""},

		{"an action is under way", Recovering, Repair{Deadline: future}, fine, "", ""},
		{"an action takes too long", Recovering, Repair{Deadline: now}, fine, RepairFailed, "no outcome in time"},
		{"the next action waits", Recovering, Repair{Waiting: true}, failing, RepairStarted, "NODE_STATUS_POLLING: impaired"},
		{"it is fit meanwhile", Recovering, Repair{Waiting: true}, fine, RepairSucceeded, "healthy without an action"},
		{"it is fenced: it cannot be fit", Recovering, Repair{Waiting: true, Fenced: true}, fine, RepairStarted, ""},
		{"an operator asked: fit or not", Recovering, Repair{Waiting: true}, func(n *node, d *detection) { fine(n, d); n.requester = "ann" }, RepairStarted, "ann"},
		{"it waits, and is let go", Recovering, Repair{Waiting: true}, leaving, RepairEnded, "the pool removes the node"},

		{"it is fit at last", Verifying, Repair{Deadline: future}, fine, passes, ""},
		{"for a while", Verifying, Repair{Deadline: future, Passing: past}, fine, "", ""},
		{"for long enough", Verifying, Repair{Deadline: past, Passing: now.Add(-2 * time.Minute)}, fine, RepairSucceeded, "healthy for 2m0s"},
		{"it fails before the deadline", Verifying, Repair{Deadline: future, Passing: past}, failing, relapses, ""},
		{"it fails at the deadline", Verifying, Repair{Deadline: now}, failing, RepairFailed, "NODE_STATUS_POLLING: impaired"},
		{"no verdict before the deadline", Verifying, Repair{Deadline: future}, nil, "", ""},
		{"no verdict after the deadline", Verifying, Repair{Deadline: past}, nil, RepairBlocked, "no verdict: the repair can neither succeed nor escalate"},
		{"no verdict long after the deadline", Verifying, Repair{Deadline: now.Add(-10 * time.Minute)}, nil, RepairEnded,
			"no verdict for 10m0s: the repair can neither succeed nor escalate"},
		{"its replacement is not listed yet", Verifying, Repair{Deadline: future}, func(n *node, _ *detection) { n.unlisted = true }, "", ""},
		{"its replacement never is", Verifying, Repair{Deadline: past}, func(n *node, _ *detection) { n.unlisted = true }, RepairFailed,
			"not in the provider's list in time"},
		{"the provider has not replaced it", Verifying, Repair{Deadline: future, Ends: true}, fine, "", ""},
		{"the provider has", Verifying, Repair{Deadline: future, Ends: true}, func(n *node, _ *detection) { n.State = Terminated }, RepairSucceeded,
			"the machine ended, and the provider replaces it"},
		{"it leaves, as it is replaced", Verifying, Repair{Deadline: future, Ends: true}, leaving, RepairSucceeded, "the machine ended, and the provider replaces it"},
		{"the provider does not replace it", Verifying, Repair{Deadline: past, Ends: true}, fine, RepairFailed, "not in the provider's list in time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ro := newTestRoster(t)
			d, l := ro.detection, ro.journal
			rs := repairs{roster: ro, rules: d.rules}
			n := ro.add(now, Node{ID: "n"})
			n.repair = &test.repair
			n.repair.Action = Action{Name: Reboot}.withDefaults(false)
			ro.to(now, n, test.state)
			if test.set != nil {
				test.set(n, d)
			}
			if n.State != Terminated {
				n.assess(now, d, &n.Node)
			}
			passing := n.repair.Passing
			again := rs.progress(now, n)
			_, found := l.take()
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
			if forgotten := test.want == RepairEnded && n.State != Leaving; again != forgotten {
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
		n.take(start(), d, 0, Observation{Verdict: Fail, Reason: "impaired"})
	}
}

func fine(n *node, d *detection) { n.take(start(), d, 0, Observation{Verdict: OK}) }

func leaving(n *node, _ *detection) { n.State = Leaving }

func TestOutcomeOfARepairInProgress(t *testing.T) {
	reboot := Repair{Action: Action{Name: Reboot}, Attempt: "n.1"}
	waiting := reboot
	waiting.Waiting = true
	held := Repair{Action: Action{Name: Recreate}, Attempt: "n.1"}
	fenced := held
	fenced.Fenced = true
	for _, test := range []struct {
		name   string
		state  NodeState
		repair *Repair
		o      Outcome
		want   bool
	}{
		{"no repair", Unhealthy, nil, Outcome{}, false},
		{"by the node alone", Recovering, &reboot, Outcome{OK: true}, true},
		{"by its attempt", Recovering, &reboot, Outcome{Attempt: "n.1"}, true},
		{"of another attempt", Recovering, &reboot, Outcome{Attempt: "n.2"}, false},
		{"of another action", Recovering, &reboot, Outcome{Action: Rebuild}, false},
		{"of the action before", Recovering, &waiting, Outcome{Attempt: "n.1"}, false},
		{"before it is claimed for good", Claimed, &reboot, Outcome{}, false},
		{"fencing", Fencing, &held, Outcome{}, true},
		{"fencing, and the action", Fencing, &held, Outcome{Step: StepDone}, false},
		{"fencing, and nothing was done", Fencing, &held, Outcome{Step: StepUndone}, true},
		{"held, and fenced after all", FenceFailed, &held, Outcome{Step: StepFence, OK: true}, true},
		{"held, and fenced already", FenceFailed, &fenced, Outcome{Step: StepFence, OK: true}, false},
		{"verified by the action", Verifying, &reboot, Outcome{Step: StepVerified, OK: true}, true},
		{"done, a second time", Verifying, &reboot, Outcome{Step: StepDone, OK: true}, false},
		{"done, and failed after all", Verifying, &reboot, Outcome{Step: StepDone}, true},
	} {
		n := &node{Node: Node{ID: "n"}, state: test.state, repair: test.repair}
		if got := n.awaited(test.o); got != test.want {
			t.Errorf("%s: awaited %t, want %t", test.name, got, test.want)
		}
	}
}
