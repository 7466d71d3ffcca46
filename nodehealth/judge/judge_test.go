package judge

import (
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

func TestOneUnhealthyNodeIsRepaired(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot, Params: Params{Type: "SOFT"}}), ten()...)
	w.heal = heals
	w.pass(time.Minute)
	w.unhealthy("n4")
	w.pass(10 * time.Minute)
	w.wantActs("REBOOT n4")
	if w.state("n4") != api.StateHealthy {
		t.Errorf("n4 is %s", w.state("n4"))
	}
	i := slices.IndexFunc(w.orders, func(o Order) bool { return o.Kind == OrderAct })
	if got := w.orders[i]; got.Action.Params.Type != "soft" || got.Attempt != "n4.1" || got.Observe {
		t.Errorf("ordered %+v: want a soft reboot, attempt n4.1", got)
	}
	want := []api.HealthEvent{api.HealthPathUp, api.HealthNodeSuspect, api.HealthNodeUnhealthy, api.HealthRepairClaimed, api.HealthRepairStarted, api.HealthRepairVerifying, api.HealthRepairSucceeded}
	if got := w.events(); !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

// The required tests of the design for the judge.
func TestWholePoolFails(t *testing.T) {
	w := newWorld(t, plain(), ten()...)
	w.heal = heals
	w.pass(time.Minute)
	for _, n := range w.nodes {
		w.unhealthy(n.ID)
	}
	w.pass(time.Hour)
	w.wantActs()
	// No heartbeat arrives, so the path is not proven, but the polls fail.
	if got := w.alarms(); !slices.Equal(got, []string{"breaker"}) {
		t.Errorf("alarms %q, want one of the breaker", got)
	}
	if open, why := w.j.BreakerOpen(); !open || why == "" {
		t.Errorf("BreakerOpen() = %v, %q", open, why)
	}
	if w.j.Unfit()["n3"] == "" {
		t.Error("n3 is not unhealthy")
	}
}

func TestWholePoolIsTerminated(t *testing.T) {
	w := newWorld(t, plain(), ten()...)
	w.heal = heals
	w.pass(time.Minute)
	for i := range w.nodes {
		w.nodes[i].State = Terminated
	}
	w.pass(time.Hour)
	w.wantActs()
}

func TestZoneFails(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
	w.heal = heals
	w.pass(time.Minute)
	w.unhealthy("n6", "n7", "n8", "n9", "n1")
	w.pass(20 * time.Minute)
	w.wantActs("REBOOT n1")
	if got := w.alarms(); !slices.Equal(got, []string{"zone:c"}) {
		t.Errorf("alarms %q, want one of zone c:\n%s", got, w.dump())
	}
	if got := w.gates("n7"); !slices.Equal(got, []api.Gate{api.GateZone}) {
		t.Errorf("n7 was refused by %q, want the zone", got)
	}
	if open, _ := w.j.BreakerOpen(); open {
		t.Error("the pool's breaker is open")
	}
	for _, id := range []string{"n6", "n7", "n8", "n9"} {
		w.cure(id)
	}
	w.pass(10 * time.Minute)
	if !slices.Contains(w.events(), api.HealthZoneThawed) {
		t.Errorf("the zone was not thawed:\n%s", w.dump())
	}
	w.wantActs("REBOOT n1")
}

func TestHeartbeatPathFails(t *testing.T) {
	p := plain()
	p.Detection.Modes = p.Detection.Modes[1:] // only heartbeats
	w := newWorld(t, p, ten()...)
	w.heal = heals
	w.pass(time.Minute)
	w.cut = true
	w.pass(5 * time.Minute)
	w.wantActs()
	if got := w.alarms(); !slices.Equal(got, []string{"path"}) {
		t.Errorf("alarms %q, want one of the path", got)
	}
	w.cut = false // the bus restarted: no node fails because of the gap
	w.pass(5 * time.Minute)
	w.wantActs()
	if slices.Contains(w.events(), api.HealthNodeSuspect) {
		t.Errorf("a node is suspect:\n%s", w.dump())
	}
	w.unhealthy("n2") // silent, while other nodes report
	w.pass(2 * time.Minute)
	w.wantActs("RECREATE n2")
}

func TestTheOnlyNodeNeedsALoopbackProbe(t *testing.T) {
	p := plain(Action{Name: api.ActionReboot})
	p.Detection.Modes = p.Detection.Modes[1:]
	for _, canary := range []bool{false, true} {
		w := newWorld(t, p, "n1")
		w.heal = heals
		w.pass(time.Minute)
		w.unhealthy("n1")
		for range 60 {
			if canary {
				w.notify(PathProof{})
			}
			w.pass(5 * time.Second)
		}
		if acted := len(w.acts()) > 0; acted != canary {
			t.Errorf("canary %v: ordered %q", canary, w.acts())
		}
	}
}

func TestEscalation(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionStart}, Action{Name: api.ActionReboot}, Action{Name: api.ActionRebuild, MaxAttempts: new(2)}, Action{Name: api.ActionWorkflow, Params: Params{Kind: "nats", Subject: "fix"}}), ten()...)
	w.heal = useless
	w.pass(time.Minute)
	w.unhealthy("n4")
	w.pass(2 * time.Hour)
	w.wantActs("REBOOT n4", "REBUILD n4", "REBUILD n4", "WORKFLOW n4", "quarantine n4")
	if w.state("n4") != api.StateQuarantined || !slices.Equal(w.alarms(), []string{"quarantine:n4"}) {
		t.Errorf("n4 is %s, alarms %q", w.state("n4"), w.alarms())
	}
	w.unhealthy("n5") // other nodes are still repaired
	w.heal = heals
	w.pass(10 * time.Minute)
	if got := w.acts(); got[len(got)-1] != "REBOOT n5" {
		t.Errorf("ordered %q, want a reboot of n5", got)
	}
	w.cure("n4")
	w.pass(6 * time.Hour)
	if w.state("n4") != api.StateHealthy {
		t.Errorf("n4 is %s after the window", w.state("n4"))
	}
}

func TestFailedRebuildGoesOnAtOnce(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionRebuild}, Action{Name: api.ActionRecreate}), ten()...)
	w.heal = func(w *world, o Order) []Event {
		return []Event{Outcome{Node: o.Node, Action: o.Action.Name, OK: o.Action.Name != api.ActionRebuild, Reason: "failed-detached"}}
	}
	w.pass(time.Minute)
	w.unhealthy("n4")
	w.pass(3 * time.Minute)
	w.wantActs("REBUILD n4", "RECREATE n4")
}

func TestReplacementsThatFail(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionRecreate}), ten()...)
	n := 0
	w.heal = func(w *world, o Order) []Event {
		if o.Kind != OrderAct {
			return nil
		}
		n++
		by := string(rune('a'+n-1)) + "0"
		w.unhealthy(by)
		w.replace(o.Node, by)
		return []Event{Outcome{Node: o.Node, Attempt: o.Attempt, OK: true, Replacement: by}}
	}
	w.pass(time.Minute)
	w.unhealthy("n4")
	w.pass(5 * time.Hour)
	w.wantActs("RECREATE n4", "RECREATE a0", "RECREATE b0", "quarantine c0")
}

func TestReplacementThatIsFit(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionRecreate}), ten()...)
	w.heal = func(w *world, o Order) []Event {
		if o.Kind != OrderAct {
			return nil
		}
		return []Event{Outcome{Node: o.Node, Attempt: o.Attempt, OK: true, Replacement: "new"}} // before any list has it
	}
	w.pass(time.Minute)
	w.unhealthy("n4")
	w.pass(2 * time.Minute)
	w.replace("n4", "new")
	w.pass(5 * time.Minute)
	w.wantActs("RECREATE n4")
	if w.state("new") != api.StateHealthy || w.state("n4") != "not there" {
		t.Errorf("new is %s, n4 is %s:\n%s", w.state("new"), w.state("n4"), w.dump())
	}
}

func TestReplacedByTheProvider(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionRecreate}), ten()...)
	w.heal = useless
	w.pass(time.Minute)
	w.unhealthy("n4")
	w.pass(2 * time.Minute)
	w.replace("n4", "new")
	w.pass(2 * time.Minute)
	w.wantActs("RECREATE n4")
	if got := w.found[len(w.found)-1].Event; got != api.HealthNodeGone || !slices.Contains(w.events(), api.HealthRepairSucceeded) {
		t.Errorf("found at last %s:\n%s", got, w.dump())
	}
}

func exclusive(actions ...Action) Policy {
	p := plain(actions...)
	p.Exclusive = true
	p.Recovery.Fencing = []Level{FenceTraffic, FenceCompute}
	return p
}

func TestFencing(t *testing.T) {
	confirm := func(ok bool) func(*world, Order) []Event {
		return func(w *world, o Order) []Event {
			if o.Kind == OrderFence {
				return []Event{Outcome{Node: o.Node, OK: ok}}
			}
			return nil
		}
	}
	t.Run("confirmed", func(t *testing.T) {
		w := newWorld(t, exclusive(), ten()...)
		w.heal = confirm(true)
		w.pass(time.Minute)
		w.unhealthy("n4")
		w.pass(2 * time.Minute)
		w.wantActs("fence n4", "RECREATE n4")
	})
	t.Run("refused, then the machine is gone", func(t *testing.T) {
		w := newWorld(t, exclusive(), ten()...)
		w.heal = confirm(false)
		w.pass(time.Minute)
		w.unhealthy("n4")
		w.pass(time.Hour)
		w.wantActs("fence n4")
		if w.state("n4") != api.StateFenceFailed || !slices.Equal(w.alarms(), []string{"fence:n4"}) {
			t.Errorf("n4 is %s, alarms %q", w.state("n4"), w.alarms())
		}
		w.cure("n4") // its response does not make it safe
		w.pass(time.Minute)
		if w.state("n4") != api.StateFenceFailed {
			t.Errorf("n4 is %s", w.state("n4"))
		}
		w.set("n4", Terminated)
		w.pass(time.Minute)
		w.wantActs("fence n4", "RECREATE n4")
	})
	t.Run("no answer", func(t *testing.T) {
		w := newWorld(t, exclusive(), ten()...)
		w.pass(time.Minute)
		w.unhealthy("n4")
		w.pass(time.Hour)
		w.wantActs("fence n4")
		if w.state("n4") != api.StateFenceFailed {
			t.Errorf("n4 is %s", w.state("n4"))
		}
		w.heal = heals
		w.notify(Outcome{Node: "n4", Step: StepFence, OK: true, Reason: "power is off"})
		w.pass(time.Minute)
		w.wantActs("fence n4", "RECREATE n4")
	})
	t.Run("not required", func(t *testing.T) {
		p := exclusive()
		p.Exclusive, p.Recovery.FencingOptions.Require = false, new(false)
		w := newWorld(t, p, ten()...)
		w.heal = confirm(false)
		w.pass(time.Minute)
		w.unhealthy("n4")
		w.pass(2 * time.Minute)
		w.wantActs("fence n4", "RECREATE n4")
	})
	t.Run("a machine that is gone needs none", func(t *testing.T) {
		w := newWorld(t, exclusive(), ten()...)
		w.pass(time.Minute)
		w.set("n4", Terminated)
		w.pass(time.Minute)
		w.wantActs("RECREATE n4")
	})
}

func TestPauses(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
	w.heal = heals
	w.pass(time.Minute)
	w.notify(Pause{Node: "n4", Owner: "delete/1", TTL: time.Hour}, Pause{Node: "n4", Owner: "delete/2", TTL: 2 * time.Hour})
	w.unhealthy("n4", "n5")
	w.pass(5 * time.Minute)
	w.wantActs("REBOOT n5") // a failing node without a pause is repaired, and the paused one does not count
	w.notify(Resume{Node: "n4", Owner: "delete/1"})
	w.pass(5 * time.Minute)
	w.wantActs("REBOOT n5") // the other pause is still in effect
	w.pass(2 * time.Hour)   // its owner died: the pause expires
	w.wantActs("REBOOT n5", "REBOOT n4")
	if got := w.gates("n4"); len(got) == 0 || got[0] != api.GatePause {
		t.Errorf("refused by %q, want pause", got)
	}
	if !slices.Contains(w.events(), api.HealthPauseExpired) {
		t.Error("nothing tells that the pause expired")
	}
}

func TestPauseWithinARepair(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot}, Action{Name: api.ActionRebuild}), ten()...)
	w.heal = useless
	w.pass(time.Minute)
	w.unhealthy("n4")
	w.pass(90 * time.Second)
	w.notify(Pause{Owner: "ops", TTL: time.Hour})
	w.pass(30 * time.Minute)
	w.wantActs("REBOOT n4")
	w.notify(Resume{Owner: "ops"})
	w.pass(time.Minute)
	w.wantActs("REBOOT n4", "REBUILD n4")
}

func TestGates(t *testing.T) {
	tests := []struct {
		name      string
		change    func(*Policy)
		before    func(*world)
		unhealthy []string
		node      string
		want      api.Gate
	}{
		{"owner", nil, func(w *world) { w.notify(RepairOwner{Other: true, Why: "ReplaceUnhealthy is on"}) }, []string{"n4"}, "n4", api.GateOwner},
		{"pause of the pool", nil, func(w *world) { w.notify(Pause{Owner: "ops"}) }, []string{"n4"}, "n4", api.GatePause},
		{"breaker", nil, nil, []string{"n1", "n4", "n7"}, "n4", api.GateBreaker},
		{"schedule", func(p *Policy) { p.Safety.Schedule = []Freeze{{"0 5 * * *", *dur(time.Hour)}} }, nil, []string{"n4"}, "n4", api.GateSchedule},
		{"in progress", nil, nil, []string{"n4", "n7"}, "n7", api.GateInProgress},
		{"rate", func(p *Policy) {
			p.Safety.Rate.Burst, p.Safety.MaxInProgress = new(1), &Limit{Value: 5}
		}, nil, []string{"n4", "n7"}, "n7", api.GateRate},
		{"no action fits", func(p *Policy) { p.Recovery.Actions = []Action{{Name: api.ActionStart}} }, nil, []string{"n4"}, "n4", api.GateAction},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := plain(Action{Name: api.ActionReboot})
			if test.change != nil {
				test.change(&p)
			}
			w := newWorld(t, p, ten()...)
			w.pass(time.Minute)
			if test.before != nil {
				test.before(w)
			}
			w.unhealthy(test.unhealthy...)
			w.pass(80 * time.Second)
			if got := w.gates(test.node); !slices.Equal(got, []api.Gate{test.want}) {
				t.Errorf("refused by %q, want %q once:\n%s", got, test.want, w.dump())
			}
		})
	}
}

func TestMinAvailableCountsWhatTheActionTakes(t *testing.T) {
	disk := func(launchFirst bool) *world {
		p := plain(Action{Name: api.ActionRecreate, Params: Params{LaunchFirst: new(launchFirst)}})
		p.Safety.MinAvailable, p.Safety.MaxInProgress = &Limit{90, true}, &Limit{Value: 5}
		w := newWorld(t, p, ten()...)
		w.pass(time.Minute)
		w.fail("n4", api.DetectAgentHeartbeat, "disk_full") // they serve, and are replaced
		w.fail("n7", api.DetectAgentHeartbeat, "disk_full")
		w.pass(2 * time.Minute)
		return w
	}
	w := disk(false)
	w.wantActs("RECREATE n4")
	if got := w.gates("n7"); !slices.Equal(got, []api.Gate{api.GateMinAvailable}) {
		t.Errorf("refused by %q", got)
	}
	disk(true).wantActs("RECREATE n4", "RECREATE n7")
	for _, pool := range [][]string{{"n1"}, {"n1", "n2"}, {"n1", "n2", "n3"}} { // small pools are repaired
		w := newWorld(t, plain(Action{Name: api.ActionReboot}), pool...)
		w.pass(time.Minute)
		w.fail("n1", api.DetectAgentHeartbeat, "kernel")
		w.pass(2 * time.Minute)
		w.wantActs("REBOOT n1")
	}
}

func TestBackoffAndAttempts(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
	w.pass(time.Minute)
	var begun []time.Time
	w.heal = func(w *world, o Order) []Event {
		if o.Kind == OrderAct {
			begun = append(begun, w.now)
		}
		return heals(w, o)
	}
	for range 4 { // each repair succeeds, but not for long
		w.unhealthy("n4")
		w.pass(30 * time.Minute)
	}
	w.wantActs("REBOOT n4", "REBOOT n4", "REBOOT n4", "quarantine n4")
	w.notify(Release{Node: "n4", By: "ops"})
	w.pass(10 * time.Minute)
	if len(begun) != 4 {
		t.Errorf("begun %v, want one more after the release", begun)
	}
}

func TestBreakerResets(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
	w.heal = heals
	w.pass(time.Minute)
	for trip := 1; trip <= 3; trip++ {
		w.unhealthy("n0", "n4", "n7")
		w.pass(2 * time.Minute)
		for _, id := range []string{"n0", "n4", "n7"} {
			w.cure(id)
		}
		w.pass(3 * time.Minute)
		if open, _ := w.j.BreakerOpen(); !open {
			t.Fatalf("trip %d: closed before its time", trip)
		}
		w.pass(10 * time.Minute)
		if open, _ := w.j.BreakerOpen(); open != (trip == 3) {
			t.Errorf("trip %d: open is %v", trip, open)
		}
	}
	w.notify(Release{By: "ops"}, Tick{})
	if open, _ := w.j.BreakerOpen(); open {
		t.Error("open after the release")
	}
	w.wantActs()
}

func TestRecoverAndHint(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
	w.heal = heals
	w.pass(time.Minute)
	w.orders = nil
	w.notify(Hint{Node: "n3", Why: "shutdown.end"}, Hint{Node: "who"})
	if len(w.orders) != 1 || w.orders[0].Kind != OrderRecheck || w.orders[0].Node != "n3" {
		t.Errorf("ordered %+v, want a re-check", w.orders)
	}
	w.notify(Pause{Owner: "ops", TTL: time.Minute}, Recover{Node: "n4", By: "ops", For: time.Hour})
	w.pass(30 * time.Second)
	w.wantActs() // the gates are the same
	w.pass(5 * time.Minute)
	w.wantActs("REBOOT n4")
	if w.state("n4") != api.StateHealthy {
		t.Errorf("n4 is %s", w.state("n4"))
	}
}

func TestUndone(t *testing.T) {
	w := newWorld(t, plain(Action{Name: api.ActionReboot}), ten()...)
	w.heal = func(w *world, o Order) []Event {
		return []Event{Outcome{Node: o.Node, Attempt: o.Attempt, Step: StepUndone, Reason: "throttled"}}
	}
	w.pass(time.Minute)
	w.unhealthy("n4")
	w.pass(3 * time.Minute)
	if n := len(w.acts()); n < 1 || n > 3 {
		t.Errorf("ordered %q: want another try, and not at once", w.acts())
	}
	w.heal = heals
	w.pass(40 * time.Minute)
	if w.state("n4") != api.StateHealthy {
		t.Errorf("n4 is %s", w.state("n4"))
	}
}

func TestDisabled(t *testing.T) {
	p := plain()
	p.Enabled = new(false)
	w := newWorld(t, p, ten()...)
	w.unhealthy("n4")
	w.pass(5 * time.Minute)
	if len(w.orders)+len(w.found) > 0 {
		t.Errorf("ordered %v, found %v", w.orders, w.found)
	}
}

// Both modes have the same findings, until the first order is carried out.
func TestObserveAgreesWithAct(t *testing.T) {
	run := func(mode api.PolicyMode) *world {
		p := exclusive(Action{Name: api.ActionReboot}, Action{Name: api.ActionRecreate})
		p.Mode = mode
		w := newWorld(t, p, ten()...)
		w.heal = heals
		w.pass(time.Minute)
		w.notify(Pause{Node: "n7", Owner: "ops", TTL: 3 * time.Minute})
		w.unhealthy("n7")
		w.pass(2 * time.Minute)
		w.fail("n4", api.DetectAgentHeartbeat, "disk_full")
		w.pass(30 * time.Minute)
		return w
	}
	first := func(fs []api.HealthFinding) []api.HealthFinding {
		i := slices.IndexFunc(fs, func(f api.HealthFinding) bool {
			return f.Event == api.HealthRepairStarted || f.Event == api.HealthFenceStarted
		})
		return fs[:i]
	}
	act, observe := run(api.ModeAct), run(api.ModeObserve)
	if a, o := first(act.found), first(observe.found); !slices.Equal(a, o) || len(a) < 5 {
		t.Errorf("acting:\n%s\nobserving:\n%s", act.dump(), observe.dump())
	}
	if a, o := act.acts()[0], observe.acts()[0]; a != o {
		t.Errorf("the first action is %q, observed %q", a, o)
	}
	for _, o := range observe.orders {
		if o.Kind != OrderRecheck && o.Kind != OrderAlarm && !o.Observe {
			t.Errorf("%+v is not marked", o)
		}
	}
}
