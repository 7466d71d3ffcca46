package nodehealth

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/signals/calendar"
)

// A failing machine is fenced and replaced once, and its replacement is verified.
func TestReplacesAnUnhealthyMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, exclusive())
		pass(time.Minute)
		c.markUnhealthy("n4", "disk")
		pass(10 * time.Minute)
		m.stop(t)
		want := []string{
			"path.up", "node.suspect n4", "node.unhealthy n4", "repair.claimed n4", "fence.started n4", "fence.confirmed n4", "repair.started n4",
			"repair.verifying n4", "node.replaced n4", "node.gone n4", "repair.succeeded new1",
		}
		if diff := cmp.Diff(want, m.events()); diff != "" {
			t.Errorf("events (-want +got):\n%s%s", diff, m.dump())
		}
		if c.n != 1 || c.acted["ended n4"] != 1 {
			t.Errorf("launched %d, did %v", c.n, c.acted)
		}
	})
}

// No order is carried out before the state with the order is durable.
func TestWriteAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, exclusive())
		pass(time.Minute)
		c.markUnhealthy("n4", "disk")
		seen := 0
		for range 600 {
			pass(100 * time.Millisecond)
			c.with(func() {
				if r := c.records["n4"]; r != nil || c.acted["isolate TRAFFIC"] > 0 {
					seen++
					if !strings.Contains(string(c.memory), `"attempt":"n4.`) && !strings.Contains(string(c.memory), `"born"`) {
						t.Errorf("acted, and what is durable is %s", c.memory)
					}
				}
			})
		}
		m.stop(t)
		if seen == 0 {
			t.Error("nothing was done")
		}
	})
}

// While no durable state changes, nothing is saved.
func TestSavesOnlyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, plain())
		pass(2 * time.Minute)
		before := c.calls
		pass(time.Hour)
		m.stop(t)
		if c.calls != before {
			t.Errorf("%d calls in a healthy hour: %v", c.calls-before, c.log[before:])
		}
	})
}

// Mode observe has the same findings until an order is carried out, for each kind of order.
func TestObserveAgreesWithAct(t *testing.T) {
	for name, p := range map[string]judge.Policy{
		"fencing": exclusive(),
		"START":   plain(judge.Action{Name: api.ActionStart}), "REBOOT": plain(judge.Action{Name: api.ActionReboot}),
		"REBUILD": plain(judge.Action{Name: api.ActionRebuild}), "RECREATE": plain(judge.Action{Name: api.ActionRecreate}),
		"WORKFLOW": plain(workflow()),
	} {
		t.Run(name, func(t *testing.T) {
			act, observe := streamOf(t, p, api.ModeAct), streamOf(t, p, api.ModeObserve)
			first := slices.IndexFunc(act, func(line string) bool {
				return strings.HasPrefix(line, string(api.HealthFenceStarted)) || strings.HasPrefix(line, string(api.HealthRepairStarted))
			})
			if first < 4 || len(observe) <= first {
				t.Fatalf("act found %q, observe %q", act, observe)
			}
			if diff := cmp.Diff(act[:first+1], observe[:first+1]); diff != "" {
				t.Errorf("up to the first action (-act +observe):\n%s", diff)
			}
		})
	}
}

// streamOf returns the findings of a policy about a pool in which one machine fails for a moment,
// and another one permanently.
func streamOf(t *testing.T, p judge.Policy, mode api.PolicyMode) (found []string) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		c.heals = "the group replaces by itself"
		p.Mode = mode
		m := c.begin(t, p)
		pass(time.Minute)
		c.with(func() { c.boxes["n2"].conditions = []api.NodeCondition{{Type: "disk", Failed: true, Why: "full"}} })
		pass(20 * time.Second)
		c.with(func() { c.boxes["n2"].conditions = nil })
		pass(2 * time.Minute)
		c.markUnhealthy("n4", "disk")
		if p.Recovery.Actions[0].Name == api.ActionStart {
			c.with(func() { c.boxes["n4"].stopped = true })
		}
		pass(5 * time.Minute)
		m.stop(t)
		if mode == api.ModeObserve && (c.n > 0 || c.left > 0 || len(c.records) > 0 || len(c.acted) > 0 || len(c.runs) > 0) {
			t.Errorf("observing did %v, and left %d", c.acted, c.left)
		}
		if got := m.loop.Unhealthy(); mode == api.ModeObserve && len(got) > 0 {
			t.Errorf("observing has %v sick for the autoscaler", got)
		}
		for _, f := range m.published {
			if f.Event == api.HealthOwnerChanged { // acting changes the repair owner
				continue
			}
			f.Observe = false
			found = append(found, f.HealthFinding.String())
		}
	})
	return found
}

// A failed repair escalates at once: the next action does not wait for a deadline.
func TestEscalates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		c.repair = func(pools.InPlaceRepair) error { return errors.New("failed-detached") }
		m := c.begin(t, plain(judge.Action{Name: api.ActionRebuild}, judge.Action{Name: api.ActionRecreate}))
		pass(time.Minute)
		c.markUnhealthy("n4", "root volume")
		pass(3 * time.Minute)
		m.stop(t)
		if c.acted["rebuild n4"] != 1 || c.n != 1 || c.acted["ended n4"] != 1 {
			t.Errorf("did %v, launched %d:\n%s", c.acted, c.n, m.dump())
		}
	})
}

// While it is unknown whether the machine is down, it is not replaced. In an exclusive pool,
// cut-off traffic is not enough.
func TestFencingUnconfirmed(t *testing.T) {
	t.Run("nothing", func(t *testing.T) { fenceInVain(t, nil) })
	t.Run("traffic", func(t *testing.T) { fenceInVain(t, map[pools.Fence]bool{pools.FenceTraffic: true}) })
}

func fenceInVain(t *testing.T, confirms map[pools.Fence]bool) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		c.confirms = confirms
		m := c.begin(t, exclusive())
		pass(time.Minute)
		c.markUnhealthy("n4", "disk")
		pass(time.Hour)
		s, err := m.loop.Status(t.Context(), api.HealthQuery{})
		if err != nil {
			t.Fatal(err)
		}
		m.stop(t)
		if c.n != 0 || len(s.Nodes) != 1 || s.Nodes[0].State != api.StateFenceFailed || len(s.Alarms) != 1 || s.Alarms[0].Key != "fence:n4" {
			t.Errorf("launched %d, status %+v", c.n, s)
		}
		if c.acted["isolate TRAFFIC"] < 100 || c.acted["isolate COMPUTE"] < 50 {
			t.Errorf("asked %v: want each level, again and again", c.acted)
		}
	})
}

func TestWorkflow(t *testing.T) {
	command := judge.Action{Name: api.ActionWorkflow, Params: judge.Params{Kind: "command", Argv: []string{"/bin/heal"}}, MaxAttempts: new(2)}
	tests := []struct {
		decision Decision
		err      error
		runs     int
		want     string
	}{
		{DecisionOK, nil, 1, "repair.succeeded n4"},
		{DecisionFailed, nil, 2, "node.quarantined n4"},
		{DecisionEscalate, nil, 1, "node.quarantined n4"},
		{DecisionSkip, nil, 2, "repair.ended n4"},
		{"perhaps", nil, 2, "repair.failed n4"},
		{"", errors.New("no such program"), 2, "node.quarantined n4"},
	}
	for _, test := range tests {
		t.Run(string(test.decision), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud(ten()...)
				c.workflow = func(_ context.Context, _ judge.Action, in Input) (Result, error) {
					if test.decision == DecisionOK {
						c.with(func() { c.boxes[in.Node].sick, c.boxes[in.Node].silent = "", false })
					}
					return Result{Decision: test.decision, Reason: "as told"}, test.err
				}
				m := c.begin(t, plain(command))
				pass(time.Minute)
				c.markUnhealthy("n4", "hung")
				pass(4 * time.Minute)
				m.stop(t)
				if len(c.runs) != test.runs || !m.saw(test.want) {
					t.Fatalf("%d runs:\n%s", len(c.runs), m.dump())
				}
				want := Input{Cluster: "c", Pool: "p", Node: "n4", PhysicalID: "n4", Zone: "b", Attempt: c.runs[0].Attempt,
					Reason: "NODE_STATUS_POLLING: hung", Evidence: []string{"NODE_STATUS_POLLING: fail: hung", "AGENT_HEARTBEAT: fail: silent"}}
				want.Reason = c.runs[0].Reason
				if diff := cmp.Diff(want, c.runs[0]); diff != "" || !strings.Contains(want.Reason, "hung") {
					t.Errorf("input (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// If the group replaces unhealthy nodes, it is notified of them, and Weirkeeper does not replace
// them.
func TestOwnerProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		c.heals = "the group replaces by itself"
		p := plain(judge.Action{Name: api.ActionRecreate})
		p.Owner = api.OwnerProvider
		m := c.begin(t, p)
		pass(time.Minute)
		c.markUnhealthy("n4", "disk")
		pass(10 * time.Minute)
		c.with(func() { c.heals = "" })
		pass(time.Minute)
		s, _ := m.loop.Status(t.Context(), api.HealthQuery{})
		m.stop(t)
		if !slices.Equal(c.marked, []string{"n4"}) || c.left != 0 || !m.saw("repair.succeeded n4") {
			t.Errorf("marked %q, left %d:\n%s", c.marked, c.left, m.dump())
		}
		if len(s.Alarms) != 1 || s.Alarms[0].Key != "owner" {
			t.Errorf("alarms %+v, want one that nobody heals", s.Alarms)
		}
	})
}

// The provider is requested once to stop its repairs. If it starts them again, an alarm is raised,
// and meanwhile nothing is repaired.
func TestRepairOwnerDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		c.heals = "the group replaces by itself"
		m := c.begin(t, plain(judge.Action{Name: api.ActionRecreate}))
		pass(time.Minute)
		c.with(func() { c.heals = "somebody resumed ReplaceUnhealthy" })
		pass(2 * time.Minute)
		c.markUnhealthy("n4", "disk")
		pass(10 * time.Minute)
		s, _ := m.loop.Status(t.Context(), api.HealthQuery{})
		if c.left != 1 || c.n != 0 || s.RepairOwner == "" || len(s.Alarms) != 1 || s.Alarms[0].Key != "owner" || s.Nodes[0].Gate != api.GateOwner {
			t.Errorf("left %d, launched %d, status %+v", c.left, c.n, s)
		}
		c.with(func() { c.heals = "" })
		pass(10 * time.Minute)
		m.stop(t)
		if c.n != 1 {
			t.Errorf("launched %d once it was left to us again", c.n)
		}
	})
}

// A node that leaves for another reason is not repaired meanwhile.
func TestPausesOfDrains(t *testing.T) {
	if testprograms.WithoutRace(t, "nodehealth") {
		return
	}
	for _, reason := range []api.DrainReason{api.DrainScaleIn, api.DrainOrphan, api.DrainRolling, api.DrainRebalance, api.DrainRemoval, api.DrainSpot} {
		t.Run(string(reason), func(t *testing.T) { pausedBy(t, reason) })
	}
}

func pausedBy(t *testing.T, reason api.DrainReason) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, plain(judge.Action{Name: api.ActionReboot}))
		pass(time.Minute)
		deadline := time.Now().Add(10 * time.Minute)
		c.with(func() {
			c.records["n4"] = &api.Drain{Node: "n4", Group: "g", Weight: 1, State: api.DrainDraining, Reason: reason, Since: time.Now(), Deadline: deadline}
		})
		pass(2 * time.Second)
		until := func() time.Time {
			s, _ := m.loop.Status(t.Context(), api.HealthQuery{})
			if len(s.Pauses) != 1 || s.Pauses[0].Owner != "drain" || s.Pauses[0].Node != "n4" {
				t.Fatalf("pauses %+v", s.Pauses)
			}
			return s.Pauses[0].Until
		}
		if got := until(); got.Sub(deadline) != time.Minute {
			t.Errorf("paused until %v, the deadline is %v", got, deadline)
		}
		c.markUnhealthy("n4", "hung")
		pass(20 * time.Minute) // the drain lasts longer than it should: the pause is renewed
		if got := until(); !got.After(time.Now()) {
			t.Errorf("paused until %v, and it is %v", got, time.Now())
		}
		m.stop(t)
		if c.acted["attempt n4"] != 0 {
			t.Errorf("did %v", c.acted)
		}
		c.with(func() { delete(c.records, "n4") }) // taken back by a process that died
		m = c.begin(t, plain(judge.Action{Name: api.ActionReboot}))
		pass(5 * time.Minute)
		m.stop(t)
		if !m.saw("pause.ended n4") || c.acted["attempt n4"] != 1 {
			t.Errorf("did %v:\n%s", c.acted, m.dump())
		}
	})
}

// A failed save blocks all orders and is reported. After a successful save the orders continue.
func TestSaveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		broken := true
		c.saves = func([]byte) error {
			if broken {
				return errors.New("no quorum")
			}
			return nil
		}
		m := c.begin(t, exclusive())
		pass(time.Minute)
		c.markUnhealthy("n4", "disk")
		pass(2 * time.Minute)
		s, _ := m.loop.Status(t.Context(), api.HealthQuery{})
		if c.n != 0 || len(c.acted) != 0 || s.Memory.Err == "" || s.Memory.Held != 1 || len(s.Alarms) != 1 || s.Alarms[0].Key != "memory" {
			t.Errorf("did %v, status %+v", c.acted, s)
		}
		c.with(func() { broken = false })
		pass(10 * time.Minute)
		s, _ = m.loop.Status(t.Context(), api.HealthQuery{})
		m.stop(t)
		if c.n != 1 || len(s.Alarms) != 0 || s.Memory.Err != "" {
			t.Errorf("launched %d, status %+v", c.n, s)
		}
	})
}

// A probe that ignores its deadline delays no other round. The skipped rounds are reported.
func TestSlowProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		var quick atomic.Bool
		c.probes = func(ctx context.Context, targets []Target, notify func(string, api.HealthVerdict, string)) error {
			if !quick.Load() {
				<-time.After(100 * time.Second)
			}
			for _, target := range targets {
				notify(target.Node, api.CheckOK, "")
			}
			return nil
		}
		p := plain(judge.Action{Name: api.ActionReboot})
		p.Detection.Modes = append(p.Detection.Modes, judge.DetectionMode{Type: api.DetectPollURL, Options: judge.Options{PollURL: "http://{node}/"}})
		m := c.begin(t, p)
		pass(time.Minute)
		c.markUnhealthy("n4", "hung")
		pass(90 * time.Second)
		if !m.saw("repair.started n4") {
			t.Errorf("the probe delays the judge:\n%s", m.dump())
		}
		pass(10 * time.Minute)
		quick.Store(true)
		pass(3 * time.Minute)
		s, _ := m.loop.Status(t.Context(), api.HealthQuery{All: true})
		m.stop(t)
		i := slices.IndexFunc(s.Rounds, func(r api.HealthRounds) bool { return r.Round == string(api.DetectPollURL) })
		if i < 0 || s.Rounds[i].Missed < 9 || !m.saw(string(api.HealthMissedEvent)) {
			t.Errorf("rounds %+v:\n%s", s.Rounds, m.dump())
		}
		if w := s.Nodes[0].Modes[2]; w.Mode != api.DetectPollURL || w.Verdict != api.CheckOK {
			t.Errorf("n0 by its URL: %+v", w)
		}
	})
}

// While the provider does not respond, nodes are unknown, and nothing is repaired.
func TestProviderDoesNotRespond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		p := plain(judge.Action{Name: api.ActionReboot})
		p.Detection.Modes = p.Detection.Modes[:1]
		m := c.begin(t, p)
		pass(time.Minute)
		c.with(func() { c.inspects = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() } })
		pass(20 * time.Minute)
		s, _ := m.loop.Status(t.Context(), api.HealthQuery{})
		m.stop(t)
		if s.Census.Unknown != 10 || len(c.acted) != 0 || len(s.Alarms) != 1 || s.Alarms[0].Key != "unknown" || s.Rounds[0].Err == "" {
			t.Errorf("status %+v", s)
		}
	})
}

// A node whose repairs all failed is quarantined, and can be released.
func TestQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		c.repair = func(pools.InPlaceRepair) error { return errors.New("in vain") }
		m := c.begin(t, plain(judge.Action{Name: api.ActionReboot}))
		pass(time.Minute)
		c.markUnhealthy("n4", "hung")
		pass(5 * time.Minute)
		if !c.boxes["n4"].cordoned || m.loop.Unhealthy()["n4"] == "" {
			t.Errorf("quarantined, and not cordoned or sick:\n%s", m.dump())
		}
		m.stop(t)
		c.with(func() { c.boxes["n4"].cordoned = false }) // an operator uncordons it
		m = c.begin(t, plain(judge.Action{Name: api.ActionReboot}))
		pass(time.Minute)
		if !c.boxes["n4"].cordoned {
			t.Error("not cordoned after a takeover")
		}
		c.with(func() { c.boxes["n4"].sick, c.boxes["n4"].silent = "", false })
		a, err := m.loop.Order(t.Context(), api.RepairOrder{Op: api.OpRelease, Nodes: []string{"n4"}, By: "ann"})
		pass(time.Minute)
		m.stop(t)
		if err != nil || !a.OK || c.boxes["n4"].cordoned || strings.Contains(string(c.memory), "cordoned") {
			t.Errorf("%+v, %v, cordoned %v, durable %s", a, err, c.boxes["n4"].cordoned, c.memory)
		}
		if n := strings.Count(strings.Join(c.log, "\n"), "lift n4"); n != 1 {
			t.Errorf("its fence was lifted %d times, want once", n)
		}
	})
}

// If all nodes fail at once, no node is repaired, the pool does not shrink, and one alarm is
// raised.
func TestAllFailAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, plain(judge.Action{Name: api.ActionRecreate}))
		pass(time.Minute)
		for id := range c.boxes {
			c.with(func() { c.boxes[id].sick = "disk" })
			c.with(func() { c.boxes[id].conditions = []api.NodeCondition{{Type: "disk", Failed: true}} })
		}
		pass(10 * time.Minute)
		s, _ := m.loop.Status(t.Context(), api.HealthQuery{})
		barred, sick := m.loop.Barred(), m.loop.Unhealthy()
		m.stop(t)
		if c.n != 0 || len(c.acted) != 0 || len(s.Alarms) != 1 || s.Alarms[0].Key != "breaker" || len(s.Open) == 0 {
			t.Errorf("did %v, status %+v", c.acted, s)
		}
		if barred == "" || len(sick) != 10 {
			t.Errorf("barred %q, sick %v", barred, sick)
		}
	})
}

// Repairs that are overdue when a window opens begin one after the other, and none before it. The window limits only their begin.
func TestOverdueRepairsFollowEachOther(t *testing.T) {
	if testprograms.WithoutRace(t, "nodehealth") {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		open := time.Now().UTC().Truncate(time.Minute).Add(2 * time.Hour)
		c.windows, _ = calendar.DecodeWindows([]calendar.WindowKeys{
			{Name: "w", Days: "daily", From: open.Format("15:04"), To: open.Add(time.Hour).Format("15:04"), TimeZone: "UTC", Allow: []string{"repair"}},
		}, []string{"repair"}, time.LoadLocation)
		p := plain(judge.Action{Name: api.ActionRecreate})
		p.Safety.MaxUnhealthy = &judge.Limit{Value: 50, Percent: true}
		m := c.begin(t, p)
		pass(time.Minute)
		for _, id := range []string{"n0", "n3", "n6"} {
			c.markUnhealthy(id, "disk")
		}
		pass(time.Until(open.Add(time.Hour - time.Minute)))
		m.stop(t)
		running, done := 0, 0
		for _, f := range m.published {
			switch f.Event {
			case api.HealthRepairClaimed:
				if running++; running > 1 || f.At.Before(open) {
					t.Errorf("%s: the repair of %s begins beside %d others; the window opens at %s", f.At.Format(time.TimeOnly), f.Node, running-1, open.Format(time.TimeOnly))
				}
			case api.HealthRepairSucceeded:
				running--
				done++
			}
		}
		if done != 3 {
			t.Errorf("%d repairs, want 3:\n%s", done, m.dump())
		}
	})
}

// A disconnected bus makes no node unhealthy.
func TestBusIsDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, plain(judge.Action{Name: api.ActionRecreate}))
		pass(time.Minute)
		m.mu.Lock()
		m.lapse = true
		m.mu.Unlock()
		for id := range c.boxes {
			c.with(func() { c.boxes[id].silent = true })
		}
		pass(5 * time.Minute)
		m.mu.Lock()
		m.lapse = false
		m.mu.Unlock()
		for id := range c.boxes {
			c.with(func() { c.boxes[id].silent = false })
		}
		pass(5 * time.Minute)
		m.stop(t)
		if len(c.acted) != 0 || m.saw("node.unhealthy n4") || !m.saw("path.lost") {
			t.Errorf("did %v:\n%s", c.acted, m.dump())
		}
	})
}

// The restored state is exactly the saved one. An invalid state is dropped with an alarm.
func TestInvalidSavedState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		c.memory = []byte(`{"judge": {"version": 77}}`)
		m := c.begin(t, plain(judge.Action{Name: api.ActionReboot}))
		pass(time.Minute)
		s, _ := m.loop.Status(t.Context(), api.HealthQuery{})
		c.markUnhealthy("n4", "hung")
		pass(5 * time.Minute)
		m.stop(t)
		if len(s.Alarms) == 0 || c.acted["attempt n4"] != 1 {
			t.Errorf("alarms %+v, did %v", s.Alarms, c.acted)
		}
		var k savedState
		if err := json.Unmarshal(c.memory, &k); err != nil || k.Judge.Validate() != nil {
			t.Errorf("durable: %v, %s", err, c.memory)
		}
	})
}

// If the end of a machine is not confirmed, the repair failed, unless the policy continues without
// it.
func TestEndNotConfirmed(t *testing.T) {
	for _, force := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCloud(ten()...)
			c.stuck = true
			p := plain(judge.Action{Name: api.ActionRecreate})
			p.Recovery.NodeForceRecreate = force
			m := c.begin(t, p)
			pass(time.Minute)
			c.markUnhealthy("n4", "disk")
			pass(30 * time.Minute)
			m.stop(t)
			if succeeded := m.saw("repair.succeeded new1"); succeeded != force || c.n != 1 {
				t.Errorf("force %v: launched %d:\n%s", force, c.n, m.dump())
			}
		})
	}
}

// A loop without its optional ports works with the others.
func TestSmallWorld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		p := plain(judge.Action{Name: api.ActionReboot}, judge.Action{Name: api.ActionWorkflow, Params: judge.Params{Kind: "command", Argv: []string{"/bin/heal"}}})
		p.Detection.Modes = append(p.Detection.Modes, judge.DetectionMode{Type: api.DetectPollURL, Options: judge.Options{PollURL: "http://{node}/"}})
		c.repair = func(pools.InPlaceRepair) error { return errors.New("in vain") }
		m := c.begin(t, p, func(w *World) {
			w.Cordon, w.Facts, w.Bus, w.Probe, w.Workflow, w.Address = nil, nil, nil, nil, nil, nil
		})
		pass(time.Minute)
		c.markUnhealthy("n4", "hung")
		pass(5 * time.Minute)
		s, err := m.loop.Status(t.Context(), api.HealthQuery{})
		m.stop(t)
		if err != nil || c.acted["reboot n4"] == 0 || !strings.Contains(s.Rounds[0].Err, "cannot poll") {
			t.Errorf("%v, did %v, rounds %+v", err, c.acted, s.Rounds)
		}
	})
}
