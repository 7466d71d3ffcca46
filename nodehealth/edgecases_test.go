package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/internal/platform/testsize"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

func workflow() judge.Action {
	return judge.Action{Name: api.ActionWorkflow, Params: judge.Params{Kind: "nats", Subject: "heal"}}
}

// An order to fence without levels confirms nothing, and ends.
func TestFenceWithoutLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, exclusive())
		pass(time.Minute)
		got := m.loop.actor.fence(t.Context(), &execution{order: judge.Order{Node: "n4"}, machine: machine{group: "g"}})
		if got.OK || got.Step != judge.StepFence {
			t.Errorf("fence() = %+v", got)
		}
		m.stop(t)
	})
}

// A policy without fencing replaces one while a node is being fenced.
func TestFencingIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		c.confirms = nil
		m := c.begin(t, exclusive())
		pass(time.Minute)
		c.markUnhealthy("n4", "impaired")
		pass(90 * time.Second)
		m.stop(t)
		if !m.saw("fence.started n4") {
			t.Fatalf("nothing is fenced:\n%s", m.dump())
		}
		m = c.begin(t, plain(judge.Action{Name: api.ActionRecreate}))
		pass(5 * time.Minute)
		m.stop(t)
		if c.acted["ended n4"] != 1 || c.n != 1 {
			t.Errorf("did %v, launched %d:\n%s", c.acted, c.n, m.dump())
		}
	})
}

// After a loss of the state, attempt ids are not used again.
func TestAttemptIDsAreNotReused(t *testing.T) {
	for _, memory := range []string{"", "{"} {
		synctest.Test(t, func(t *testing.T) {
			c := newCloud(ten()...)
			for range 2 {
				m := c.begin(t, plain(workflow()))
				pass(time.Minute)
				c.markUnhealthy("n4", "impaired")
				pass(10 * time.Minute)
				m.stop(t)
				if c.memory = nil; memory != "" {
					c.memory = []byte(memory)
				}
			}
			if len(c.runs) != 2 || c.runs[0].Attempt == c.runs[1].Attempt {
				t.Errorf("memory %q: ran %+v, want two attempts", memory, c.runs)
			}
		})
	}
}

// If the clock goes back, the loop ends, and the next one repairs. A small step back does not end
// it.
func TestClockGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		var ahead atomic.Int64
		clock := func(w *World) {
			w.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		}
		m := c.begin(t, plain(judge.Action{Name: api.ActionRecreate}), clock)
		ahead.Store(int64(30 * time.Second))
		pass(10 * time.Minute)
		ahead.Store(0)
		pass(10 * time.Minute)
		if m.ctx.Err() != nil {
			t.Fatal("it ended for half a minute")
		}
		ahead.Store(int64(6 * time.Hour))
		pass(3 * time.Second)
		ahead.Store(0)
		<-m.done
		if !errors.Is(m.err, ErrClock) {
			t.Fatalf("Run: %v, want %v", m.err, ErrClock)
		}
		c.markUnhealthy("n4", "impaired")
		m = c.begin(t, plain(judge.Action{Name: api.ActionRecreate}), clock)
		pass(10 * time.Minute)
		m.stop(t)
		if c.acted["ended n4"] != 1 {
			t.Errorf("did %v:\n%s", c.acted, m.dump())
		}
	})
}

// A flood of hints does not cause a flood of provider calls.
func TestHintFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		var reads atomic.Int64
		c.inspects = func(context.Context) error { reads.Add(1); return nil }
		m := c.begin(t, plain(judge.Action{Name: api.ActionRecreate}))
		pass(time.Minute)
		before := reads.Load()
		for range 3000 {
			m.handler.Hint(judge.Hint{Node: "n1", Why: "x"})
			pass(100 * time.Millisecond)
		}
		m.stop(t)
		if n := reads.Load() - before; n > 10+5+30 {
			t.Errorf("%d reads of the whole pool in 5 min, want its 10 and few more", n)
		}
	})
}

// The number of operators' pauses is limited, but an existing pause can be renewed.
func TestPausesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, plain(judge.Action{Name: api.ActionRecreate}))
		pass(time.Minute)
		refused := 0
		for i := range api.MaxPauses + 10 {
			o := api.RepairOrder{Op: api.OpPause, Nodes: []string{"n9"}, By: fmt.Sprintf("%0100d", i), Why: strings.Repeat("\x00", api.MaxWhy), For: api.MaxPause}
			a, err := m.loop.Order(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if !a.OK {
				refused++
			}
		}
		a, err := m.loop.Order(t.Context(), api.RepairOrder{Op: api.OpPause, Nodes: []string{"n9"}, By: fmt.Sprintf("%0100d", 0)})
		if refused != 10 || err != nil || !a.OK {
			t.Errorf("%d were refused, want 10; renewed: %+v, %v", refused, a, err)
		}
		if len(c.memory) > 1<<20-1<<10 {
			t.Errorf("durable are %d bytes", len(c.memory))
		}
		m.stop(t)
	})
}

// In mode observe nothing changes, also when a node is released.
func TestObserveKeepsFences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		p := plain(judge.Action{Name: api.ActionReboot})
		p.Mode, p.Safety.MaxAttempts = api.ModeObserve, new(1)
		m := c.begin(t, p)
		pass(time.Minute)
		c.markUnhealthy("n4", "impaired")
		pass(20 * time.Minute)
		a, err := m.loop.Order(t.Context(), api.RepairOrder{Op: api.OpRelease, Nodes: []string{"n4"}, By: "ann"})
		pass(time.Minute)
		m.stop(t)
		if err != nil || !a.OK || slices.ContainsFunc(c.log, func(call string) bool { return call != "save" }) {
			t.Errorf("released %+v, %v, with the calls %v", a, err, c.log)
		}
	})
}

// A release without nodes closes the breakers of zones too.
func TestReleaseOfAZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, plain(judge.Action{Name: api.ActionReboot}))
		pass(time.Minute)
		for _, id := range []string{"n3", "n4", "n5"} {
			c.markUnhealthy(id, "impaired")
		}
		pass(3 * time.Minute)
		s, _ := m.loop.Status(t.Context(), api.HealthQuery{})
		if len(s.Open) != 1 || s.Open[0].Pool {
			t.Fatalf("open are %+v, want one zone", s.Open)
		}
		a, err := m.loop.Order(t.Context(), api.RepairOrder{Op: api.OpRelease, By: "ann"})
		pass(time.Hour)
		m.stop(t)
		if err != nil || !a.OK || c.acted["reboot n3"]+c.acted["reboot n4"]+c.acted["reboot n5"] != 3 {
			t.Errorf("released %+v, %v, did %v:\n%s", a, err, c.acted, m.dump())
		}
	})
}

// A release of the node withdraws a waiting repair request.
func TestRepairRequestIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, plain(judge.Action{Name: api.ActionReboot}))
		pass(time.Minute)
		for _, o := range []api.RepairOrder{{Op: api.OpPause, By: "ann", For: time.Minute}, {Op: api.OpRecover, Nodes: []string{"n4"}, By: "ann", For: time.Hour}, {Op: api.OpRelease, Nodes: []string{"n4"}, By: "bob"}} {
			a, err := m.loop.Order(t.Context(), o)
			if err != nil || !a.OK {
				t.Errorf("%s: %+v, %v", o.Op, a, err)
			}
		}
		pass(10 * time.Minute)
		m.stop(t)
		if len(c.acted) > 0 {
			t.Errorf("did %v:\n%s", c.acted, m.dump())
		}
	})
}

// pausedWriter is the writer of a pool that operators paused.
type pausedWriter struct{ *term }

var errPaused = errors.New("the pool is paused")

func (pausedWriter) Repair(context.Context, pools.RepairRequest) error        { return errPaused }
func (pausedWriter) Write(context.Context, func(context.Context) error) error { return errPaused }

// While operators pause the whole pool, no repair begins and no alarm is raised. After the pause
// the pool is repaired. A workflow needs permission too.
func TestPausedPool(t *testing.T) {
	if testprograms.WithoutRace(t, "nodehealth") {
		return
	}
	for name, p := range map[string]judge.Policy{
		"workflow": plain(workflow()), "exclusive": exclusive(), "reboot": plain(judge.Action{Name: api.ActionReboot}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud(ten()...)
				var why atomic.Value
				why.Store("the pool is paused by ann")
				m := c.begin(t, p, func(w *World) { w.Paused = func() (string, bool) { return why.Load().(string), true } })
				pass(time.Minute)
				c.markUnhealthy("n4", "impaired")
				pass(testsize.Pick(3*time.Hour, time.Hour))
				s, _ := m.loop.Status(t.Context(), api.HealthQuery{})
				if len(c.runs)+len(c.acted)+len(s.Alarms) > 0 || m.saw("fence.started n4") || m.saw("repair.started n4") {
					t.Errorf("did %v, alarms %+v:\n%s", c.acted, s.Alarms, m.dump())
				}
				why.Store("")
				pass(20 * time.Minute)
				m.stop(t)
				if !m.saw("repair.started n4") {
					t.Errorf("nothing is healed:\n%s", m.dump())
				}
			})
		})
	}
}

// A pause that is not reported yet also blocks a workflow.
func TestWorkflowNeedsPermission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.begin(t, plain(workflow()), func(w *World) { w.Writer = pausedWriter{w.Writer.(*term)} })
		pass(time.Minute)
		c.markUnhealthy("n4", "impaired")
		pass(20 * time.Minute)
		m.stop(t)
		if len(c.runs) > 0 || m.saw("node.quarantined n4") {
			t.Errorf("ran %+v:\n%s", c.runs, m.dump())
		}
	})
}

// fullWriter is the writer of an autoscaler whose groups are at their maximum.
type fullWriter struct{ *term }

func (h fullWriter) Repair(ctx context.Context, r pools.RepairRequest) error {
	if r.Hold {
		return pools.ErrNoRoom
	}
	return h.term.Repair(ctx, r)
}

// If no replacement can be launched first, the machine goes first if it does not serve or if one
// less may serve. Otherwise nothing is done, and no node is quarantined for that.
func TestNoRoom(t *testing.T) {
	for name, serves := range map[string]bool{"it is silent": false, "it serves, and one may be out": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud(ten()...)
				p := plain(judge.Action{Name: api.ActionRecreate})
				p.Detection.Modes = append(p.Detection.Modes, judge.DetectionMode{Type: api.DetectHypervisorStatus})
				p.Safety.MinAvailable = &judge.Limit{Value: 100, Percent: true}
				m := c.begin(t, p, func(w *World) { w.Writer = fullWriter{w.Writer.(*term)} })
				pass(time.Minute)
				c.with(func() {
					b := c.boxes["n4"]
					b.silent, b.sick = !serves, "impaired"
					if serves { // otherwise its heartbeat would be a veto
						b.conditions = append(b.conditions, api.NodeCondition{Type: "disk", Failed: true})
					}
				})
				pass(10 * time.Minute)
				m.stop(t)
				if c.acted["ended n4"] != 1 || m.saw("node.quarantined n4") {
					t.Errorf("did %v:\n%s", c.acted, m.dump())
				}
			})
		})
	}
}
