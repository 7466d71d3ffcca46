package judge

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

func newTestRoster(t *testing.T) *roster {
	t.Helper()
	d := senses(t, AnyFailed)
	s := newSafety(d.rules)
	return new(newRoster(d, &s, &journal{}))
}

func TestTally(t *testing.T) {
	now := start()
	for _, test := range []struct {
		name  string
		state api.HealthState
		set   func(ro *roster, n *node)
		want  tally
	}{
		{"fit", api.StateHealthy, nil, tally{listed: true, eligible: true}},
		{"new", api.StateFresh, nil, tally{listed: true, eligible: true}},
		{"new, within its grace", api.StateFresh, func(_ *roster, n *node) { n.Since = now.Add(-time.Minute) }, tally{listed: true}},
		{"suspect", api.StateSuspect, nil, tally{listed: true, eligible: true, unhealthy: true}},
		{"suspect, and within its grace", api.StateSuspect, func(_ *roster, n *node) { n.Since = now.Add(-time.Minute) }, tally{listed: true, eligible: true, unhealthy: true}},
		{"under repair", api.StateVerifying, nil, tally{listed: true, eligible: true, unhealthy: true}},
		{"an operator asks to repair a fit node", api.StateRequested, nil, tally{listed: true, eligible: true}},
		{"quarantined", api.StateQuarantined, nil, tally{listed: true, eligible: true, unhealthy: true}},
		{"held", api.StateHeld, nil, tally{listed: true, eligible: true, unhealthy: true}},
		{"paused", api.StateUnhealthy, func(ro *roster, _ *node) { ro.safety.pauses.addPause(now, Pause{Node: "n", Owner: "ann"}) }, tally{listed: true}},
		{"taken back", api.StateUnhealthy, func(_ *roster, n *node) { n.State = Spot }, tally{listed: true}},
		{"leaving", api.StateUnhealthy, func(_ *roster, n *node) { n.State = Leaving }, tally{}},
		{"missing in the list", api.StateUnhealthy, func(_ *roster, n *node) { n.missing = 1 }, tally{}},
		{"replaced", api.StateFresh, func(_ *roster, n *node) { n.replaced = true }, tally{}},
		{"unknown for long", api.StateHealthy, func(_ *roster, n *node) { n.noData = true }, tally{listed: true, noData: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			ro := newTestRoster(t)
			n := ro.addNode(now, Node{ID: "n"})
			n.repair = &Repair{}
			ro.setState(now, n, test.state)
			if test.set != nil {
				test.set(ro, n)
			}
			if got := ro.tally(now, n); got != test.want {
				t.Errorf("counted as %+v, want %+v", got, test.want)
			}
		})
	}
}

// The sets of the roster and the budget follow the node's state exactly.
func TestRosterFollowsStates(t *testing.T) {
	ro, now := newTestRoster(t), start()
	n := ro.addNode(now, Node{ID: "n"})
	for _, s := range []struct {
		state                      api.HealthState
		took                       bool // its repair took it out of service
		waitingNodes, active, gone bool
	}{
		{api.StateSuspect, false, false, false, false},
		{api.StateUnhealthy, false, true, false, false},
		{api.StateClaimed, false, false, true, false},
		{api.StateRecovering, true, false, true, true},
		{api.StateFenceFailed, true, true, false, true},
		{api.StateHeld, false, true, false, false},
		{api.StateQuarantined, false, false, false, true},
		{api.StateRecovering, true, false, true, true},
		{api.StateVerifying, true, false, true, true},
		{api.StateHealthy, false, false, false, false},
	} {
		n.repair = nil
		if isInRepair(s.state) || s.state == api.StateFenceFailed {
			n.repair = &Repair{TookOut: s.took}
		}
		ro.setState(now, n, s.state)
		if waitingNodes, active, gone := ro.waitingNodes["n"] != nil, ro.active["n"] != nil, ro.safety.budget.out["n"] != ""; waitingNodes != s.waitingNodes || active != s.active || gone != s.gone {
			t.Errorf("%s: ill %t, active %t, out %t, want %t, %t, %t", s.state, waitingNodes, active, gone, s.waitingNodes, s.active, s.gone)
		}
	}
	n.repair = &Repair{TookOut: true}
	ro.setState(now, n, api.StateRecovering)
	ro.drop(n)
	if len(ro.all)+len(ro.waitingNodes)+len(ro.active)+len(ro.safety.budget.out) > 0 || ro.safety.breakers.census != (census{}) {
		t.Errorf("left over: %+v, counted %+v", ro.safety.budget.out, ro.safety.breakers.census)
	}
}

func TestWakesInOrder(t *testing.T) {
	var w wakes
	now := start()
	a, b := &node{Node: Node{ID: "a"}}, &node{Node: Node{ID: "b"}}
	w.add(a, now.Add(2*time.Second))
	w.add(b, now.Add(time.Second))
	w.add(a, now.Add(3*time.Second)) // later than its wake: it is evaluated before
	w.add(a, now.Add(time.Second))
	w.add(b, time.Time{})
	for _, s := range []struct {
		after time.Duration
		want  *node
	}{{0, nil}, {time.Second, a}, {time.Second, b}, {time.Hour, nil}} {
		if got, _ := w.next(now.Add(s.after)); got != s.want {
			t.Errorf("after %v: %v, want %v", s.after, got, s.want)
		}
	}
}
