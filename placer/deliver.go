package placer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
)

// batch is what a save of assignments precedes. Nothing is requested from a node, and no nudge is confirmed, before the
// assignments that it follows from are durable.
type batch struct {
	began   time.Time
	actions []action
	nudges  []string           // to confirm
	waiting []api.WaitingStart // to report
	unsaved []Assignments
}

// act decides, saves the changed assignments, and then delivers the actions.
func (p *Placer) act(ctx context.Context, wg *sync.WaitGroup, now time.Time) {
	b := &p.batch
	durable{p.core}.markAgain(b.unsaved)
	if len(b.actions) == 0 {
		b.began = now
	}
	b.actions = append(b.actions, p.core.act(now)...)
	b.nudges = append(b.nudges, p.confirmations.takeConfirmable(now, p.core)...)
	if p.reportDue || b.waiting != nil { // a report that a failed save delays would be outdated
		p.reportDue, b.waiting = false, waitingStarts(p.core)
	}
	b.unsaved = (durable{p.core}).takeChanged()
	if p.ports.Memory == nil || len(b.unsaved) == 0 {
		p.deliver(ctx, wg, now)
		return
	}
	p.saving = true
	unsaved := b.unsaved
	wg.Go(func() {
		limited, cancel := context.WithTimeout(ctx, saveLimit)
		defer cancel()
		p.saved <- p.ports.Memory.Save(limited, unsaved)
	})
}

// noteSave logs failed saves, and stores the problem.
func (p *Placer) noteSave(err error) {
	p.problem.set(err)
	if err != nil {
		p.saveLog.Do(func() { p.log.Error("assignments not saved, nothing is started or stopped", "err", err) })
	}
}

// deliver sends the actions of the batch that are still right, and confirms its nudges.
func (p *Placer) deliver(ctx context.Context, wg *sync.WaitGroup, now time.Time) {
	b := p.batch
	p.batch = batch{}
	late := now.Sub(b.began) > p.cfg.Heartbeat
	for _, a := range b.actions {
		if a.stop && late && (durable{p.core}).takeBackStop(a.instance) {
			continue // a nudge or the drain repeats it
		}
		if !a.stop && !(durable{p.core}).stillBooked(now, a.instance) {
			continue
		}
		wg.Go(func() { p.send(ctx, a) })
	}
	if len(b.nudges) > 0 {
		if err := p.ports.Bus.Confirm(p.epoch(), b.nudges); err != nil {
			p.log.Warn("nudges not confirmed", "err", err) // the harmonizer repeats them
		}
	}
	if len(b.waiting) > 0 && p.ports.Reporter != nil {
		if err := p.ports.Reporter.Waiting(p.epoch(), b.waiting); err != nil {
			p.log.Warn("waiting starts not reported", "err", err) // the harmonizer repeats them
		}
	}
}

// takeBackStop reports whether a listed copy was to be stopped, and removes the stop.
func (c durable) takeBackStop(instance string) bool {
	cp := c.copies[instance]
	if cp == nil {
		return false
	}
	cp.asked = time.Time{}
	c.forgetAsked(cp.app, instance)
	return true
}

// stillBooked reports whether a start is still right, and lets its booking begin now.
func (c durable) stillBooked(now time.Time, instance string) bool {
	b := c.bookings.byInstance[instance]
	if b == nil || b.stop {
		if b != nil {
			c.unbook(b)
		}
		return false
	}
	b.until = c.bookedUntil(now)
	return true
}

func (p *Placer) epoch() uint64 {
	if p.ports.Lease == nil {
		return 0
	}
	return p.ports.Lease.Epoch()
}

// maySend reports whether the lease outlasts a request to a node.
func (p *Placer) maySend() bool {
	return p.ports.Lease == nil || p.ports.Lease.Left() > p.cfg.StartTimeout
}

func (p *Placer) send(ctx context.Context, a action) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-p.slots }()
	if a.stop {
		p.stop(ctx, a)
	} else {
		p.start(ctx, a)
	}
}

func (p *Placer) start(ctx context.Context, a action) {
	log := p.log.With("app", a.app, "index", a.index, "instance", a.instance, "node", a.node)
	reply := answer{instance: a.instance, unsent: true}
	if p.maySend() {
		limited, cancel := context.WithTimeout(ctx, p.cfg.StartTimeout)
		defer cancel()
		r, err := p.ports.Bus.Start(limited, a.node, Start{
			App: a.app, Version: a.version, Index: a.index, Instance: a.instance, Command: a.command, Release: a.release,
			Footprint: a.footprint, Ready: a.ready, Env: a.env, Ports: a.ports, OneShot: a.oneShot, Epoch: p.epoch(),
		})
		reply = answer{instance: a.instance, result: r}
		if err != nil {
			reply.why = prose.Marked(err.Error(), maxWhy)
			log.Warn("app instance not placed", "err", err)
		} else {
			log.Info("app instance placed")
		}
	}
	select {
	case p.answers <- reply:
	case <-ctx.Done():
	}
}

// maxWhy bounds the reason of a rejected start, in bytes.
const maxWhy = 300

func (p *Placer) stop(ctx context.Context, a action) {
	if !p.maySend() {
		return // a nudge or the drain repeats it
	}
	limited, cancel := context.WithTimeout(ctx, p.cfg.StartTimeout)
	defer cancel()
	ended, err := p.ports.Bus.Stop(limited, a.node, a.instance, p.epoch())
	log := p.log.With("app", a.app, "index", a.index, "instance", a.instance, "node", a.node)
	switch {
	case ended:
		log.Debug("app instance to stop has already ended")
	case err != nil: // a nudge or the drain repeats it
		log.Warn("app instance not stopped", "err", err)
	default:
		log.Info("app instance stopping")
	}
}

// problem is the failure of the latest save.
type problem struct{ text atomic.Pointer[string] }

func (p *problem) set(err error) {
	if err == nil {
		p.text.Store(nil)
		return
	}
	text := err.Error()
	p.text.Store(&text)
}

// Problems returns why the placer is not ready, one sentence per cause. It returns nil if the placer is ready, or a
// standby. It may be called concurrently with Run.
func (p *Placer) Problems() []string {
	text := p.problem.text.Load()
	if text == nil {
		return nil
	}
	return []string{fmt.Sprintf("the placer of pool %s cannot save its assignments, so it starts and stops nothing: %s; check NATS and its JetStream", p.cfg.Pool, *text)}
}
