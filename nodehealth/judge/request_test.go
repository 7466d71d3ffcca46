package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// requestEnds returns how the requests to repair a node ended.
func (w *world) requestEnds(id string) []string {
	var out []string
	for _, f := range w.found {
		if f.Event == api.HealthRequestEnded && f.Node == id {
			out = append(out, f.Why)
		}
	}
	return out
}

// A refused request is dropped: nothing is done when the gate opens later.
func TestRefusedRequestIsDropped(t *testing.T) {
	for name, verdicts := range map[string]api.HealthVerdict{"a fit node": api.CheckOK, "a node without a verdict": api.CheckUnknown} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, polled(Action{Name: api.ActionReboot}), ten()...)
			w.heal = heals
			w.pass(time.Minute)
			if w.unobserved["n4"] = verdicts == api.CheckUnknown; verdicts == api.CheckUnknown {
				w.pass(5 * time.Minute)
			}
			before := w.state("n4")
			w.notify(Pause{Node: "n4", Owner: "ops", TTL: 20 * time.Second}, Recover{Node: "n4", By: "ann"}, Tick{})
			if got := w.requestEnds("n4"); !slices.Equal(got, []string{"the request of ann is refused by pause: paused by ops"}) {
				t.Errorf("ended: %q", got)
			}
			w.pass(10 * time.Minute)
			w.wantActs()
			if got := w.state("n4"); got != before {
				t.Errorf("n4 is %s, want %s as before the request:\n%s", got, before, w.dump())
			}
		})
	}
}

// A healthy node whose repair waits is in service, over a takeover too. It is not unfit, is not
// quarantined, and opens no breaker. A failure makes it unhealthy as without the request.
func TestRequestedNodeStaysInService(t *testing.T) {
	p := polled(Action{Name: api.ActionReboot})
	p.Safety.MaxAttempts = new(1)
	w := newWorld(t, p, ten()...)
	w.heal = heals
	w.pass(time.Minute)
	w.notify(Recover{Node: "n4", By: "ann"})
	w.pass(10 * time.Minute)
	w.notify(Recover{Node: "n4", By: "ann", For: time.Hour}) // its repairs are used up
	w.notify(Pause{Node: "n5", Owner: "ops", TTL: time.Hour})
	w.notify(Recover{Node: "n5", By: "ann", For: time.Hour})
	for range 2 {
		w.pass(time.Minute)
		for id, gate := range map[string]api.Gate{"n4": api.GateAttempts, "n5": api.GatePause} {
			if e, _ := w.j.Explain(w.now, id); e.State != api.StateRequested || e.Requester != "ann" || e.Gate != gate {
				t.Errorf("%s is %s, asked by %q, gate %s", id, e.State, e.Requester, e.Gate)
			}
		}
		if unfit, out := w.j.Unfit(), w.j.Budget().Out; len(unfit)+len(out) > 0 || w.j.safety.breakers.census.unhealthy > 0 {
			t.Errorf("unfit %v, out of service %v, %+v", unfit, out, w.j.safety.breakers.census)
		}
		w.takeOver()
	}
	w.unhealthy("n5")
	w.pass(3 * time.Minute)
	if w.state("n5") != api.StateUnhealthy {
		t.Errorf("n5 is %s", w.state("n5"))
	}
	w.wantActs("REBOOT n4")
}

// A waiting request has an end, over a takeover too. Until then its repair begins as soon as the
// gates allow.
func TestRequestThatWaits(t *testing.T) {
	for _, test := range []struct {
		name  string
		pause time.Duration
		acts  []string
	}{
		{"the gate opens in time", time.Minute, []string{"REBOOT n4"}},
		{"the gate opens too late", 10 * time.Minute, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
			w.heal = heals
			w.pass(time.Minute)
			until := w.now.Add(5 * time.Minute)
			w.notify(Pause{Node: "n4", Owner: "ops", TTL: test.pause}, Recover{Node: "n4", By: "ann", For: 5 * time.Minute}, Tick{})
			if e, _ := w.j.Explain(w.now, "n4"); e.Requester != "ann" || !e.RequestedUntil.Equal(until) || e.Gate != api.GatePause {
				t.Errorf("asked by %q until %v, gate %q", e.Requester, e.RequestedUntil, e.Gate)
			}
			w.takeOver()
			w.pass(time.Hour)
			w.wantActs(test.acts...)
			if got := w.requestEnds("n4"); (len(got) == 1) != (test.acts == nil) {
				t.Errorf("ended: %q", got)
			}
		})
	}
}

// If the order of a granted request was lost with the autoscaler, the request is retried, and has
// an end. A request whose repair failed is not repeated.
func TestRequestOfAnUndoneRepair(t *testing.T) {
	for _, test := range []struct {
		name  string
		lost  int // number of lost orders
		acts  []string
		ended bool
	}{
		{"its order was lost", 1, []string{"REBOOT n4", "REBOOT n4"}, false},
		{"it came to nothing", 0, []string{"REBOOT n4"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
			left := test.lost
			w.heal = func(w *world, o Order) []Event {
				switch {
				case o.Kind != OrderAct:
					return nil
				case test.lost == 0:
					return []Event{Outcome{Node: o.Node, Attempt: o.Attempt, Step: StepUndone, Reason: "the group is busy"}}
				case left > 0:
					left--
					return []Event{Outcome{Node: o.Node, Attempt: o.Attempt, Step: StepUndone, Lost: true, Reason: "no record"}}
				}
				return heals(w, o)
			}
			w.pass(time.Minute)
			w.notify(Recover{Node: "n4", By: "ann"})
			w.pass(time.Hour)
			w.wantActs(test.acts...)
			if got := w.requestEnds("n4"); (len(got) == 1) != test.ended {
				t.Errorf("ended: %q", got)
			}
			if w.state("n4") != api.StateHealthy {
				t.Errorf("n4 is %s", w.state("n4"))
			}
		})
	}
}

// A request for the pool is granted node by node, over a takeover, and within the budgets. Each
// node is in service until its turn. The request is one finding, and ends as one.
func TestRequestForThePool(t *testing.T) {
	for _, test := range []struct {
		name  string
		wait  time.Duration
		acts  int
		ended []string
	}{
		{"all are repaired", 4 * time.Hour, 10, nil},
		{"its time is over", 10 * time.Minute, 5, []string{"the pool request of ann expired: 5 nodes were not repaired"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := plain(Action{Name: api.ActionReboot})
			p.Safety.Rate = Rate{PerHour: new(600), Burst: new(20)}
			w := newWorld(t, p, ten()...)
			w.heal = heals
			w.pass(time.Minute)
			w.notify(Recover{By: "ann", For: test.wait})
			most := 0
			for minute := range 90 {
				w.pass(time.Minute)
				if out := len(w.j.Unfit()); out > 1 {
					t.Fatalf("%d nodes are not offered: %v", out, w.j.Unfit())
				}
				for _, r := range w.j.Requests() {
					most = max(most, r.Waiting)
					if r.By != "ann" || r.Gates[api.GateMinAvailable]+r.Gates[api.GateInProgress] != r.Waiting {
						t.Errorf("waits: %+v", r)
					}
				}
				if minute%10 == 4 {
					w.takeOver()
				}
			}
			if acts := len(w.acts()); acts != test.acts {
				t.Errorf("%d repairs, want %d: %q\n%s", acts, test.acts, w.acts(), w.dump())
			}
			if most != 9 || len(w.j.Requests()) > 0 {
				t.Errorf("at most %d waited; now %+v", most, w.j.Requests())
			}
			if got := w.requestEnds(""); !slices.Equal(got, test.ended) {
				t.Errorf("ended: %q", got)
			}
			for id := range w.j.roster.all {
				if gates := w.gates(id); len(gates) > 0 || w.state(id) != api.StateHealthy {
					t.Errorf("%s is %s, blocked by %v", id, w.state(id), gates)
				}
			}
			if taken := slices.DeleteFunc(w.found, func(f api.HealthFinding) bool { return f.Event != api.HealthRequestTaken }); len(taken) != 1 || taken[0].Why != "ann requests the repair of 10 of 10 nodes, as the gates allow" {
				t.Errorf("taken: %v", taken)
			}
		})
	}
}

// A request for the pool skips the nodes that cannot be repaired, and preserves waiting requests.
// All are withdrawn at once.
func TestRequestForThePoolLeavesOut(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
	w.pass(time.Minute)
	w.set("n1", Leaving)
	w.notify(Pause{Owner: "ops", TTL: time.Hour}, Recover{Node: "n2", By: "bob", For: time.Hour}, Recover{By: "ann", For: 2 * time.Hour}, Tick{})
	if got := w.j.Requests(); len(got) != 1 || got[0].Waiting != 8 || got[0].Gates[api.GatePause] != 8 {
		t.Errorf("waits: %+v", got)
	}
	if e, _ := w.j.Explain(w.now, "n2"); e.Requester != "bob" || e.RequestedForPool {
		t.Errorf("n2: asked by %q, for the pool: %v", e.Requester, e.RequestedForPool)
	}
	w.notify(Release{Requests: true, By: "eve"})
	if got := w.requestEnds(""); !slices.Equal(got, []string{"all requests are withdrawn by eve: 9 nodes waited"}) {
		t.Errorf("ended: %q", got)
	}
	w.pass(2 * time.Hour)
	w.wantActs()
	if len(w.j.Requests()) > 0 || w.state("n2") != api.StateHealthy {
		t.Errorf("n2 is %s, waits: %+v", w.state("n2"), w.j.Requests())
	}
}
