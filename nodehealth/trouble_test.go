package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

// troubled is a term whose ports fail a number of times.
type troubled struct {
	*term
	loads, publishes, listens, repairs int
	refusal                            error // error of a repair
}

func (x *troubled) Load(ctx context.Context) ([]byte, bool, error) {
	if x.loads--; x.loads >= 0 {
		return nil, false, errors.New("no quorum")
	}
	return x.term.Load(ctx)
}

func (x *troubled) Publish(published []api.HealthNotification) error {
	if x.publishes--; x.publishes >= 0 {
		return errors.New("not connected")
	}
	return x.term.Publish(published)
}

func (x *troubled) Listen(ctx context.Context, handler Handler) error {
	if x.listens--; x.listens >= 0 {
		return errors.New("not connected")
	}
	return x.term.Listen(ctx, handler)
}

func (x *troubled) Repair(ctx context.Context, r pools.RepairRequest) error {
	if x.repairs--; x.repairs >= 0 {
		return x.refusal
	}
	return x.term.Repair(ctx, r)
}

// trouble starts a process with ports that fail.
func (c *cloud) trouble(t *testing.T, p judge.Policy, x *troubled) *term {
	return c.begin(t, p, func(w *World) {
		x.term = w.Pool.(*term)
		w.Memory, w.Bus, w.Writer = x, x, x
	})
}

// Findings wait for the bus, in order. Without the saved state no node is evaluated.
func TestPortsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCloud(ten()...)
		m := c.trouble(t, plain(judge.Action{Name: api.ActionReboot}), &troubled{loads: 3, publishes: 20, listens: 3})
		pass(time.Minute)
		c.markUnhealthy("n4", "hung")
		pass(20 * time.Minute)
		m.stop(t)
		if !m.saw("path.up") || !m.saw("repair.succeeded n4") || c.acted["reboot n4"] != 1 {
			t.Errorf("did %v:\n%s", c.acted, m.dump())
		}
		for i := 1; i < len(m.published); i++ {
			if m.published[i].At.Before(m.published[i-1].At) {
				t.Errorf("told out of order:\n%s", m.dump())
			}
		}
	})
}

// A temporary error is retried under the same attempt. A refused repair is tried again later.
func TestWriterRefuses(t *testing.T) {
	tests := []struct {
		name    string
		times   int
		refusal error
		undone  bool
	}{
		{"it passes", 2, errors.New("the lease does not outlast it"), false},
		{"it does not pass", 3, errors.New("the pool is paused"), true},
		{"the group is busy", 1, fmt.Errorf("its group: %w", pools.ErrRefused), true},
		{"on its way out", 1, pools.ErrLeaving, true},
		{"not there", 1, pools.ErrUnknownNode, true},
		{"no room beside it", 1, pools.ErrNoRoom, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCloud(ten()...)
				m := c.trouble(t, plain(judge.Action{Name: api.ActionReboot}), &troubled{repairs: test.times, refusal: test.refusal})
				pass(time.Minute)
				c.markUnhealthy("n4", "hung")
				pass(10 * time.Minute)
				m.stop(t)
				if m.saw("repair.ended n4") != test.undone || c.acted["attempt n4"] != 1 || !m.saw("repair.succeeded n4") {
					t.Errorf("did %v:\n%s", c.acted, m.dump())
				}
			})
		})
	}
}

// If the outbox is full, the oldest findings are dropped and counted.
func TestOutbox(t *testing.T) {
	o := newAnnouncer(kitOf(World{Bus: silentBus{}}))
	for i := range outboxRoom + 10 {
		o.queueNotification(api.HealthNotification{Alarm: fmt.Sprint(i)})
	}
	first := o.takeNotifications()
	if lost := o.mail.losses()["findings"]; lost != 10 || len(first) != api.MaxNotifications || first[0].Alarm != "10" {
		t.Errorf("lost %d, the first of %d is %s", lost, len(first), first[0].Alarm)
	}
	left := len(first)
	for batch := o.takeNotifications(); len(batch) > 0; batch = o.takeNotifications() {
		left += len(batch)
	}
	if left != outboxRoom {
		t.Errorf("%d were left", left)
	}
}
