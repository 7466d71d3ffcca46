package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/platform/testsize"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

// story is a failure of n4 and the required result, however often the process is killed.
type story struct {
	name   string
	policy judge.Policy
	begin  func(c *cloud)
	check  func(c *cloud) error
}

func stories() []story {
	in := []judge.Action{
		{Name: api.ActionReboot},
		{Name: api.ActionWorkflow, Params: judge.Params{Kind: "command", Argv: []string{"/bin/heal"}}},
	}
	fenced := exclusive()
	fenced.Recovery.Fencing = fenced.Recovery.Fencing[1:]
	return []story{{
		name: "fenced and replaced", policy: fenced,
		begin: func(c *cloud) { c.heals = "the group" },
		check: func(c *cloud) error {
			if c.n != 1 || c.acted["ended n4"] != 1 || len(c.boxes) != 10 || c.boxes["new1"] == nil {
				return fmt.Errorf("launched %d, did %v", c.n, c.acted)
			}
			return nil
		},
	}, {
		name: "a reboot in vain, then a workflow", policy: plain(in...),
		begin: func(c *cloud) { c.repair = func(pools.InPlaceRepair) error { return errors.New("in vain") } },
		check: func(c *cloud) error {
			if c.n != 0 || c.acted["reboot n4"] > 1 || len(c.runs) > 1 {
				return fmt.Errorf("%d workflows, did %v", len(c.runs), c.acted)
			}
			if b := c.boxes["n4"]; b.sick != "" && !b.cordoned {
				return errors.New("n4 is sick, and not in quarantine")
			}
			return nil
		},
	}, {
		name: "set aside", policy: plain(in[:1]...),
		begin: func(c *cloud) { c.repair = func(pools.InPlaceRepair) error { return errors.New("in vain") } },
		check: func(c *cloud) error {
			if !c.boxes["n4"].cordoned || c.acted["reboot n4"] > 2 { // one may have been lost before it was saved
				return fmt.Errorf("cordoned %v, did %v", c.boxes["n4"].cordoned, c.acted)
			}
			return nil
		},
	}}
}

// notify runs a story, with the process killed at that call. It returns the number of calls.
func (s story) notify(t *testing.T, cutAt int, after bool) int {
	calls := 0
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		c.cutAt, c.cutAfter = cutAt, after
		s.begin(c)
		m := c.begin(t, s.policy)
		pass(time.Minute)
		c.markUnhealthy("n4", "disk")
		for range 15 * 12 {
			pass(5 * time.Second)
			if m.ctx.Err() != nil {
				m.stop(t)
				m = c.begin(t, s.policy)
			}
		}
		m.stop(t)
		if err := s.check(c); err != nil {
			t.Errorf("killed at call %d of %d, after its effect %v: %v\n%s", cutAt, c.calls, after, err, c.log)
		}
		calls = c.calls
	})
	return calls
}

// The process is killed at any call that changes something, before or after its effect: each change
// is made once. With the race detector, it is killed before one call and after the next.
func TestTakeoverAtEachCall(t *testing.T) {
	if testprograms.WithoutRace(t, "nodehealth") {
		return
	}
	for _, s := range stories() {
		t.Run(s.name, func(t *testing.T) {
			calls := s.notify(t, 0, false)
			if calls < 5 || calls > 40 {
				t.Fatalf("%d calls", calls)
			}
			for at := 1; at <= calls; at++ {
				for _, after := range []bool{false, true} {
					if testsize.Full() || after == (at%2 == 0) {
						s.notify(t, at, after)
					}
				}
			}
		})
	}
}

// A takeover checks at once. For a node that fails permanently it needs no longer than the
// thresholds and the silence.
func TestTakeoverIsFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, plain(judge.Action{Name: api.ActionReboot}))
		pass(time.Minute)
		m.stop(t)
		m = c.begin(t, plain(judge.Action{Name: api.ActionReboot}))
		pass(7 * time.Second)
		s, err := m.loop.Status(t.Context(), api.HealthQuery{})
		m.stop(t)
		if err != nil || s.Census.Unknown != 0 || s.Census.States[api.StateHealthy] != 10 {
			t.Errorf("%v, after 7 s: %+v", err, s.Census)
		}
	})
}

// A workflow with an unknown result runs again only if its receiver identifies the attempt.
func TestWorkflowOverATakeover(t *testing.T) {
	for kind, runs := range map[string]int{"command": 1, "webhook": 2, "nats": 2} {
		synctest.Test(t, func(t *testing.T) {
			a := judge.Action{Name: api.ActionWorkflow, Params: judge.Params{Kind: kind}}
			switch kind {
			case "command":
				a.Params.Argv = []string{"/bin/heal"}
			case "webhook":
				a.Params.URL, a.Params.SecretFile = "https://hook.example/", "/run/secrets/hook"
			case "nats":
				a.Params.Subject = "heal"
			}
			c := newCloud(ten()...)
			c.workflow = func(ctx context.Context, _ judge.Action, in Input) (Result, error) {
				if len(c.runs) == 1 {
					<-ctx.Done()
					return Result{}, ctx.Err()
				}
				c.with(func() { c.boxes[in.Node].sick, c.boxes[in.Node].silent = "", false })
				return Result{Decision: DecisionOK}, nil
			}
			m := c.begin(t, plain(a))
			pass(time.Minute)
			c.markUnhealthy("n4", "hung")
			pass(90 * time.Second)
			m.stop(t)
			m = c.begin(t, plain(a))
			pass(10 * time.Minute)
			m.stop(t)
			if len(c.runs) != runs || runs == 2 && c.runs[0].Attempt != c.runs[1].Attempt {
				t.Errorf("%s: runs %+v\n%s", kind, c.runs, m.dump())
			}
		})
	}
}

// After a takeover while the node of a workflow drains, the workflow has not begun, so it runs,
// once.
func TestWorkflowThatDrainsOverATakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plain(judge.Action{Name: api.ActionWorkflow, Params: judge.Params{Kind: "command", Argv: []string{"/bin/heal"}}})
		c := newCloud(ten()...)
		m := c.begin(t, p)
		pass(time.Minute)
		c.markUnhealthy("n4", "hung")
		for len(c.recorded()) == 0 {
			pass(time.Second)
		}
		m.stop(t)
		if r := c.recorded(); r[0].State != api.DrainChosen || r[0].RepairInPlace != api.RepairWorkflow || len(c.runs) > 0 {
			t.Fatalf("record %+v, %d runs: want a workflow that has not begun", r[0], len(c.runs))
		}
		m = c.begin(t, p)
		pass(10 * time.Minute)
		m.stop(t)
		if len(c.runs) != 1 || !m.saw("repair.succeeded n4") || m.saw("repair.failed n4") {
			t.Errorf("%d runs\n%s", len(c.runs), m.dump())
		}
	})
}

// The takeover of an order that has no record.
func TestResumedWithoutRecord(t *testing.T) {
	tests := []struct {
		name   string
		action judge.Action
		while  func(c *cloud) // runs while no process runs
		want   string
		acted  int // number of repairs that were passed to the writer
	}{
		{"replaced meanwhile", judge.Action{Name: api.ActionRecreate}, func(c *cloud) {
			delete(c.boxes, "n4")
			c.boxes["late"] = &box{group: "g", zone: "b", launched: time.Now()}
		}, "repair.succeeded late", 1},
		{"ended meanwhile, and replaced by nobody that is known", judge.Action{Name: api.ActionRecreate}, func(c *cloud) { delete(c.boxes, "n4") },
			"repair.succeeded n4", 1},
		{"never begun", judge.Action{Name: api.ActionRecreate}, func(*cloud) {}, "repair.succeeded new2", 2},
		{"mended meanwhile", judge.Action{Name: api.ActionReboot}, func(c *cloud) { c.boxes["n4"].sick, c.boxes["n4"].silent = "", false },
			"repair.succeeded n4", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud(ten()...)
				m := c.begin(t, plain(test.action))
				pass(time.Minute)
				c.markUnhealthy("n4", "hung")
				for savedState := false; !savedState; {
					pass(time.Second)
					c.with(func() { savedState = c.records["n4"] != nil })
				}
				m.stop(t)
				c.with(func() {
					c.records, c.owed, c.n = map[string]*api.Drain{}, 0, 1
					delete(c.boxes, "new1") // it may have come in the second of the stop
					test.while(c)
				})
				<-time.After(20 * time.Second)
				m = c.begin(t, plain(test.action))
				pass(20 * time.Minute)
				m.stop(t)
				if c.acted["attempt n4"] != test.acted || !m.saw(test.want) {
					t.Errorf("did %v, want %s:\n%s", c.acted, test.want, m.dump())
				}
			})
		})
	}
}

// Of two repairs at a time each has its own replacement.
func TestTwoAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		p := plain(judge.Action{Name: api.ActionRecreate})
		p.Safety.MaxInProgress = &judge.Limit{Value: 2}
		m := c.begin(t, p)
		pass(time.Minute)
		c.markUnhealthy("n4", "disk")
		c.markUnhealthy("n7", "disk")
		pass(10 * time.Minute)
		m.stop(t)
		if c.n != 2 || !m.saw("repair.succeeded new1") || !m.saw("repair.succeeded new2") || m.loop.Unhealthy()["n4"] != "" {
			t.Errorf("launched %d:\n%s", c.n, m.dump())
		}
	})
}

// A process that held two pools dies: the next process continues each pool with its unfinished
// work.
func TestTakeoverOfTwoPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plain(judge.Action{Name: api.ActionRecreate})
		clouds := []*cloud{newCloud(ten()...), newCloud(ten()...)}
		sick := []string{"n4", "n7"}
		var terms []*term
		for _, c := range clouds {
			terms = append(terms, c.begin(t, p))
		}
		pass(time.Minute)
		for i, c := range clouds {
			c.markUnhealthy(sick[i], "hung")
		}
		for begun := 0; begun < 2; {
			pass(time.Second)
			begun = 0
			for i, c := range clouds {
				c.with(func() { begun += c.acted["attempt "+sick[i]] })
			}
		}
		for _, m := range terms {
			m.stop(t)
		}
		for i, c := range clouds {
			m := c.begin(t, p)
			pass(10 * time.Minute)
			m.stop(t)
			if c.acted["attempt "+sick[i]] != 1 || c.acted["ended "+sick[i]] != 1 || c.n != 1 {
				t.Errorf("pool %d: did %v, launched %d:\n%s", i, c.acted, c.n, m.dump())
			}
		}
	})
}
