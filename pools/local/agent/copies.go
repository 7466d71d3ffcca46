package agent

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/pools/local/internal/call"
)

func (a *Agent) start(ctx context.Context, now time.Time, r StartRequest) error {
	c, err := a.books.admit(now, r)
	if err != nil || c == nil {
		return err
	}
	p, err := a.launch(ctx, c)
	if err != nil {
		delete(a.books.copies, r.Instance)
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
		a.told <- event{instance: instance}
		<-p.done()
	case <-p.done():
	}
	end := p.end()
	a.told <- event{instance: instance, end: &end}
}

func (a *Agent) stop(instance string) error {
	p, c := a.procs[instance], a.books.copies[instance]
	if p == nil || c == nil {
		return &call.Error{Code: codeUnknown, Message: "no app instance " + instance + " on node " + a.cfg.ID}
	}
	if !c.asked && !c.ousted {
		c.asked = true
		a.wg.Go(p.stop)
	}
	return nil
}

// fence stops all copies and accepts none while on, or lifts the fence of the owner.
func (a *Agent) fence(on bool) FenceReply {
	a.dirty = a.dirty || a.books.fenced != on
	a.books.fenced = on
	if on {
		a.oust()
	}
	return FenceReply{Left: len(a.procs) + a.unclean}
}

// oust stops all copies as in an evacuation.
func (a *Agent) oust() {
	a.dirty = true
	for instance, p := range a.procs {
		if c := a.books.copies[instance]; !c.asked && !c.ousted {
			c.ousted = true
			a.wg.Go(p.stop)
		}
	}
}

func (a *Agent) event(now time.Time, e event, leaving bool) {
	a.dirty = true
	if e.end == nil {
		a.books.running(now, e.instance)
		return
	}
	delete(a.procs, e.instance)
	if e.end.left {
		a.unclean++
	}
	told, ok := a.books.exited(now, e.instance, *e.end, leaving)
	if !ok {
		return
	}
	a.log.Info("app instance ended", "app", told.App, "index", told.Index, "instance", told.Instance,
		"reason", told.Reason, "description", told.Description)
	if a.books.alone {
		a.contact.untold = append(a.contact.untold, told)
		return
	}
	a.send(message.SubjectExited, told)
}
