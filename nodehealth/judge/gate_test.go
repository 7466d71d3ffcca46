package judge

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
)

// evaluated returns a candidate that passes every gate: a reboot of one node of ten that fails and
// does not serve.
func evaluated(t *testing.T) *candidate {
	t.Helper()
	d := senses(t, AnyFailed)
	s := newSafety(d.rules)
	var counted tally
	for range 10 {
		counted = tally{}
		s.breakers.count(&counted, tally{zone: "a", listed: true, eligible: true})
	}
	n := &node{Node: Node{ID: "n", Zone: "a"}, state: api.StateUnhealthy}
	n.begin(start(), len(d.modes))
	n.verdict = api.CheckFail
	return &candidate{safety: &s, detection: d, now: start(), node: n, action: Action{Name: api.ActionReboot}.withDefaults(false), canHelp: true}
}

func TestEachGate(t *testing.T) {
	now := start()
	serve := func(c *candidate) {
		c.node.addObservation(now, c.detection, 0, Observation{Verdict: api.CheckOK})
	}
	repaired := func(c *candidate, times int) {
		for range times {
			c.lineages.begin(now, c.node.Node)
		}
	}
	const all, first, acts = atClaim | atBegin | atAct, atClaim | atBegin, atClaim | atBegin | atAct | atSilence
	for _, test := range []struct {
		name  string
		set   func(c *candidate)
		gate  api.Gate      // that refuses; "": no gate refuses
		when  phase         // in these phases
		until time.Duration // from now; 0: unknown
		why   string
	}{
		{"nothing refuses", func(*candidate) {}, "", 0, 0, ""},
		{"no verdict", func(c *candidate) { c.node.verdict = api.CheckUnknown }, api.GateUnknown, all | alone, 0, "no verdict now"},
		{"an operator's wish needs no verdict", func(c *candidate) { c.node.verdict, c.node.requester = api.CheckOK, "ann" }, "", 0, 0, ""},
		{"no action fits", func(c *candidate) { c.canHelp, c.node.State = false, Stopped }, api.GateAction, all, 0, "no action of the policy fits a machine that is stopped"},
		{"not confirmed lately", func(c *candidate) { c.node.notBefore = now.Add(time.Minute) }, api.GateRecheck, all, time.Minute, "no observation confirmed the failure"},
		{"another healer", func(c *candidate) { c.repairOwner = "the group heals" }, api.GateOwner, acts | alone, 0, "the group heals"},
		{"the node is paused", func(c *candidate) { c.pauses.addPause(now, Pause{Node: "n", Owner: "ann", TTL: time.Hour}) }, api.GatePause, acts | alone, time.Hour, "paused by ann"},
		{"the pool is paused", func(c *candidate) { c.pauses.addPause(now, Pause{Owner: "bob", TTL: time.Hour}) }, api.GatePause, acts | alone, time.Hour, "paused by bob"},
		{"another node is paused", func(c *candidate) { c.pauses.addPause(now, Pause{Node: "m", Owner: "ann"}) }, "", 0, 0, ""},
		{"the breaker is open", func(c *candidate) { c.breakers.pool = breaker{Breaker: api.Breaker{Open: true, Why: "3 of 10"}} }, api.GateBreaker, acts | alone, 0, "3 of 10"},
		{"the breaker closes soon", func(c *candidate) {
			c.breakers.pool = breaker{Breaker: api.Breaker{Open: true, Healed: now, Why: "3 of 10"}}
		}, api.GateBreaker, acts | alone, 5 * time.Minute, "3 of 10"},
		{"the zone is frozen", func(c *candidate) {
			c.breakers.zone("a").breaker = breaker{Breaker: api.Breaker{Open: true, Why: "5 of 5"}}
		}, api.GateZone, acts | alone, 0, "zone a: 5 of 5"},
		{"another zone is", func(c *candidate) { c.breakers.zone("b").breaker = breaker{Breaker: api.Breaker{Open: true}} }, "", 0, 0, ""},
		{"the schedule freezes", func(c *candidate) { c.schedule.at, c.schedule.frozenTo = now, now.Add(time.Hour) }, api.GateSchedule, acts | alone, time.Hour, "the schedule forbids repairs now"},
		{"no window is open", func(c *candidate) { c.window = Window{"repair waits for window nights", now.Add(time.Hour)} }, api.GateWindow, first | atQuarantine | alone, time.Hour, "repair waits for window nights"},
		{"no window is open, and it does not run", func(c *candidate) { c.window.Closed, c.node.State = "closed", Terminated }, "", 0, 0, ""},
		{"no window is open, and an operator ordered it", func(c *candidate) { c.window.Closed, c.node.requester = "closed", "ann" }, "", 0, 0, ""},
		{"two others are out", func(c *candidate) {
			serve(c)
			c.budget.out["x"], c.budget.out["y"] = disruption.Repair, disruption.Quarantine
		}, api.GateMinAvailable, acts, 0,
			"2 of 10 nodes are out of service (1 by quarantine, 1 by repair), limit 2"},
		{"two others, and it does not serve", func(c *candidate) {
			c.node.addObservation(now, c.detection, 0, Observation{Verdict: api.CheckFail})
			c.budget.out["x"], c.budget.out["y"] = disruption.Repair, disruption.Repair
		}, "", 0, 0, ""},
		{"two others, and nothing is known of it", func(c *candidate) { c.budget.out["x"], c.budget.out["y"] = disruption.Repair, disruption.Repair }, api.GateMinAvailable, acts, 0,
			"2 of 10 nodes are out of service (2 by repair), limit 2"},
		{"a repair is in progress", func(c *candidate) { c.repairs = 1 }, api.GateInProgress, atClaim | atReturn | alone, 0, "1 repairs are in progress, limit 1"},
		{"too many were begun", func(c *candidate) { c.rate.spend(now); c.rate.spend(now) }, api.GateRate, first, 10 * time.Minute, "rate limit: 6 repairs an hour, burst 2"},
		{"too many within the window", func(c *candidate) { repaired(c, 3) }, api.GateAttempts, first, 6 * time.Hour, "3 repairs within 6h0m0s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := evaluated(t)
			test.set(c)
			c.node.blocked = test.gate
			for _, at := range []phase{atClaim, atBegin, atAct, atSilence, atReturn} {
				want := test.gate
				if test.when&at == 0 {
					want = ""
				}
				r := refused(c, at)
				if r.gate != want {
					t.Errorf("in phase %b: refused by %q, want %q", at, r.gate, want)
				}
				if r.gate == "" {
					continue
				}
				if got := r.until.Sub(now); r.why(c) != test.why || test.until == 0 && !r.until.IsZero() || test.until > 0 && got.Round(time.Second) != test.until {
					t.Errorf("in phase %b: %q until %v, want %q, %v", at, r.why(c), got, test.why, test.until)
				}
			}
			if got, want := c.waits(), test.when&alone != 0; got != want {
				t.Errorf("waits: %t, want %t", got, want)
			}
		})
	}
}

func TestBackoffGate(t *testing.T) {
	c := evaluated(t)
	c.lineages.begin(c.now, c.node.Node)
	c.lineages.end(c.now, c.node.Node, true)
	r := refused(c, atClaim)
	if wait := r.until.Sub(c.now); r.gate != api.GateBackoff || wait < time.Minute || wait > 66*time.Second || r.why(c) != "1 repairs already" {
		t.Errorf("refused by %q for %v: want backoff for about a minute", r.gate, wait)
	}
}

// The first gate in the order refuses, whatever the later ones return.
func TestGatesRefuseInOrder(t *testing.T) {
	c := evaluated(t)
	c.repairOwner, c.repairs = "the group heals", 1
	c.breakers.pool.Open, c.node.notBefore = true, c.now.Add(time.Hour)
	for _, step := range []struct {
		want  api.Gate
		clear func()
	}{
		{api.GateRecheck, func() { c.node.notBefore = time.Time{} }},
		{api.GateOwner, func() { c.repairOwner = "" }},
		{api.GateBreaker, func() { c.breakers.pool.Open = false }},
		{api.GateInProgress, func() { c.repairs = 0 }},
		{"", func() {}},
	} {
		if got := refused(c, atClaim).gate; got != step.want {
			t.Errorf("refused by %q, want %q", got, step.want)
		}
		step.clear()
	}
}

// A node in FenceFailed waits for its fencing, whatever the gates return.
func TestHeldCandidateWaits(t *testing.T) {
	c := evaluated(t)
	c.node.state, c.node.repair = api.StateFenceFailed, &Repair{}
	if !c.waits() {
		t.Error("a node that is not fenced does not wait")
	}
	c.node.repair.Fenced = true
	if c.waits() {
		t.Error("a node that is fenced waits")
	}
}
