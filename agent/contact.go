package agent

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Bounds of the time between two probes of the bus. The time is a quarter of SelfFenceAfter within
// these bounds.
const (
	minProbe = 20 * time.Millisecond
	maxProbe = 5 * time.Second
)

// contact is the state of the connection to the bus, for an agent that fences itself. Only the
// agent's loop uses it.
type contact struct {
	answers    chan time.Time // of probes: the start time of each successful probe
	lost       *time.Timer    // fires when the last success is too old
	last       time.Time      // start time of the latest successful probe
	unreported []api.Exited   // copies that ended without contact
}

func newContact(now time.Time, limit time.Duration) *contact {
	return &contact{answers: make(chan time.Time), lost: time.NewTimer(limit), last: now}
}

// probeBus probes the bus until ctx ends. An open connection proves nothing. Only a response of the
// server does.
func (a *Agent) probeBus(ctx context.Context) {
	period := min(max(a.cfg.SelfFenceAfter/4, minProbe), maxProbe)
	again := time.NewTicker(period)
	defer again.Stop()
	for {
		asked := time.Now()
		asking, cancel := context.WithTimeout(ctx, period)
		err := a.nc.FlushWithContext(asking)
		cancel()
		if err == nil {
			select {
			case a.contact.answers <- asked:
			case <-ctx.Done():
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// answered records a successful probe. If the one before is too old, the timer did not fire in
// time: the process was frozen.
func (a *Agent) answered(now, asked time.Time) {
	c := a.contact
	if asked.Sub(c.last) >= a.cfg.SelfFenceAfter {
		a.fenceSelf()
	}
	c.last = asked
	c.lost.Reset(a.cfg.SelfFenceAfter - now.Sub(asked))
	if !a.machine.selfFenced {
		return
	}
	a.machine.selfFenced = false
	a.log.Info("bus contact restored: node accepts app instances")
	for _, e := range c.unreported {
		a.send(message.ExitedSubject(a.cfg.Cluster, a.cfg.node()), e)
	}
	c.unreported = nil
	a.publish(now)
}

// fenceSelf fences the node, because others may assume that it is gone.
func (a *Agent) fenceSelf() {
	if a.machine.selfFenced {
		return
	}
	a.machine.selfFenced = true
	a.log.Warn("bus contact lost: stopping all app instances", "after", a.cfg.SelfFenceAfter, "running", len(a.procs))
	a.evacuate()
}
