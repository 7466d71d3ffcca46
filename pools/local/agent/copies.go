package agent

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/pools/local/internal/call"
)

func (a *Agent) start(ctx context.Context, now time.Time, r StartRequest) error {
	c, err := a.machine.admit(now, r)
	if err != nil || c == nil {
		return err
	}
	p, err := a.launch(ctx, c)
	if err != nil {
		delete(a.machine.copies, r.Instance)
		return &call.Error{Code: codeLaunch, Message: err.Error()}
	}
	a.procs[r.Instance] = p
	a.dirty = true
	a.wg.Go(func() { a.watch(p, r.Instance) })
	a.log.Info("app instance started", "app", r.App, "index", r.Index, "instance", r.Instance)
	return nil
}

// watch reports to the loop that a copy is up, and later that it ended.
func (a *Agent) watch(p *process, instance string) {
	up := time.NewTimer(upAfter)
	defer up.Stop()
	select {
	case <-up.C:
		a.reported <- event{instance: instance}
		<-p.done()
	case <-p.done():
	}
	end := p.end()
	a.reported <- event{instance: instance, end: &end}
}

func (a *Agent) stop(instance string) error {
	p, c := a.procs[instance], a.machine.copies[instance]
	if p == nil || c == nil {
		return &call.Error{Code: codeUnknown, Message: "no app instance " + instance + " on node " + a.cfg.ID}
	}
	if !c.asked && !c.evacuated {
		c.asked = true
		a.wg.Go(p.stop)
	}
	return nil
}

// fence stops all copies and accepts none while on, or lifts the fence of the owner.
func (a *Agent) fence(on bool) FenceReply {
	a.dirty = a.dirty || a.machine.fenced != on
	a.machine.fenced = on
	if on {
		a.evacuate()
	}
	return FenceReply{Left: len(a.procs) + a.unclean}
}

// evacuate stops all copies as in an evacuation.
func (a *Agent) evacuate() {
	a.dirty = true
	for instance, p := range a.procs {
		if c := a.machine.copies[instance]; !c.asked && !c.evacuated {
			c.evacuated = true
			a.wg.Go(p.stop)
		}
	}
}

func (a *Agent) event(now time.Time, e event, leaving bool) {
	a.dirty = true
	if e.end == nil {
		a.machine.running(now, e.instance)
		return
	}
	delete(a.procs, e.instance)
	if e.end.left {
		a.unclean++
	}
	reported, ok := a.machine.exited(now, e.instance, *e.end, leaving)
	if !ok {
		return
	}
	a.log.Info("app instance ended", "app", reported.App, "index", reported.Index, "instance", reported.Instance,
		"reason", reported.Reason, "description", reported.Description)
	if a.machine.selfFenced {
		a.contact.unreported = append(a.contact.unreported, reported)
		return
	}
	a.send(message.ExitedSubject(a.cfg.Cluster, a.cfg.ID), reported)
}
