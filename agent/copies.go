package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/readiness"
	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/resource"
)

func (a *Agent) start(ctx context.Context, now time.Time, r wire.StartRequest) error {
	a.followLimit()
	c, err := a.machine.admit(now, r)
	if err != nil || c == nil {
		return err
	}
	a.dirty = true
	if r.Release != "" {
		err = a.fetch(ctx, c)
	} else if err = a.run(ctx, c, ""); err != nil {
		err = &call.Error{Code: wire.CodeLaunch, Message: err.Error()}
	}
	if err != nil {
		delete(a.machine.copies, r.Instance)
	}
	return err
}

// run starts the process of a copy, with the folder of its release.
func (a *Agent) run(ctx context.Context, c *copyOf, releaseDir string) error {
	p, err := a.starter.start(ctx, c, releaseDir)
	if err != nil {
		return err
	}
	a.procs[c.Instance] = p
	a.disk.set(c.Instance, c.Footprint[resource.Disk])
	a.dirty = true
	a.wg.Go(func() { a.watch(p, c.Instance) })
	a.ready.watch(p, c, time.Now())
	a.log.Info("app instance started", "app", c.App, "index", c.Index, "instance", c.Instance)
	return nil
}

// fetch begins to fetch the release of an admitted copy, which stays STARTING. The copy outlives this agent, as its
// process will: the next agent fetches again.
func (a *Agent) fetch(ctx context.Context, c *copyOf) error {
	if a.artifacts.source == nil {
		return call.Invalid("app instance %s needs release %s, and this agent fetches no releases", c.Instance, c.Release)
	}
	if c.fetching = true; a.cfg.Keep && c.tag == "" {
		if err := a.records.retag(c); err != nil {
			return &call.Error{Code: wire.CodeLaunch, Message: err.Error()}
		}
	}
	a.artifacts.use(c.StartRequest, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the end of the agent is no failure of the copy
	a.artifacts.pending[c.Instance] = cancel
	a.wg.Go(func() {
		defer cancel()
		dir, err := a.artifacts.fetch(ctx, c.Release)
		a.report(event{instance: c.Instance, fetched: &fetched{dir, err}})
	})
	return nil
}

// fetchedRelease starts a copy whose release is here. If the fetch failed, or the copy has to stop, it ends.
func (a *Agent) fetchedRelease(ctx context.Context, now time.Time, e event, leaving bool) {
	delete(a.artifacts.pending, e.instance)
	c := a.machine.copies[e.instance]
	if c == nil {
		return
	}
	end := outcome{text: "ended before its release was fetched"}
	if !c.asked && !c.evacuated && !leaving {
		err := e.fetched.err
		if err == nil {
			if err = a.run(ctx, c, e.fetched.dir); err == nil {
				return
			}
		}
		end.text = wire.Clip(fmt.Sprintf("release %s not started: %v", c.Release, err))
		a.log.Error("release of app instance not fetched", "app", c.App, "index", c.Index, "instance", c.Instance, "release", c.Release, "err", err)
	}
	a.noteEnd(c, end)
	a.event(ctx, now, event{instance: e.instance, end: &end}, leaving)
}

// noteEnd makes the output of a copy without a process: its result.
func (a *Agent) noteEnd(c *copyOf, end outcome) {
	path := outputPath(a.cfg.DataDir, c.Instance)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	var out *os.File
	if err == nil {
		out, err = createOutput(path)
	}
	if err == nil {
		_ = out.Close() // empty
		err = endOutput(path, end.text)
	}
	if err != nil {
		a.log.Warn("end of app instance not added to its output", "file", path, "err", err)
	}
}

// watch reports to the loop that a copy is up, and later that it ended.
func (a *Agent) watch(p *process, instance string) {
	up := time.NewTimer(upAfter)
	defer up.Stop()
	select {
	case <-up.C:
		a.report(event{instance: instance})
		select {
		case <-p.done():
		case <-a.released:
			return
		}
	case <-p.done():
	case <-a.released:
		return
	}
	end := p.end()
	a.report(event{instance: instance, end: &end})
}

// report sends an event to the loop, unless the loop has left the copies.
func (a *Agent) report(e event) {
	select {
	case a.reported <- e:
	case <-a.released:
	}
}

func (a *Agent) stop(instance string) error {
	p, c := a.procs[instance], a.machine.copies[instance]
	if c == nil || p == nil && !c.fetching {
		return &call.Error{Code: wire.CodeUnknown, Message: "no app instance " + instance + " on node " + a.cfg.ID}
	}
	if !c.asked && !c.evacuated {
		c.asked = true
		a.records.update(c, nil)
		a.end(c)
	}
	return nil
}

// end ends the fetch or the process of a copy. The loop receives its end.
func (a *Agent) end(c *copyOf) {
	if p := a.procs[c.Instance]; p != nil {
		a.wg.Go(p.stop)
		return
	}
	a.artifacts.cancel(c.Instance)
}

// endToRestart ends a copy by a rule of its node. The result names why. The copy is started again, unless it has to end
// anyway.
func (a *Agent) endToRestart(c *copyOf, why string) {
	if p := a.procs[c.Instance]; p != nil && !c.asked && !c.evacuated && p.because.CompareAndSwap(nil, &why) {
		a.log.Warn("app instance ended by its node", "app", c.App, "index", c.Index, "instance", c.Instance, "why", why)
		a.end(c)
	}
}

// fence stops all copies and accepts none while on, or lifts the fence of the owner.
func (a *Agent) fence(on bool) wire.FenceReply {
	if a.machine.fenced != on {
		a.dirty, a.machine.fenced = true, on
		a.records.updateNode(a.machine)
	}
	if on {
		a.evacuate()
	}
	return wire.FenceReply{Left: len(a.machine.copies) + a.unclean}
}

// evacuate stops all copies as in an evacuation.
func (a *Agent) evacuate() {
	a.dirty = true
	for _, c := range a.machine.copies {
		if !c.asked && !c.evacuated {
			c.evacuated = true
			a.records.update(c, nil)
			a.end(c)
		}
	}
}

// removeDropped removes the output of ended copies that are no longer listed.
func (a *Agent) removeDropped() {
	for _, instance := range a.machine.dropped {
		a.records.remove(instance)
	}
	a.machine.dropped = nil
}

func (a *Agent) event(ctx context.Context, now time.Time, e event, leaving bool) {
	a.dirty = true
	switch {
	case e.fetched != nil:
		a.fetchedRelease(ctx, now, e, leaving)
		return
	case e.ready != nil:
		a.becameReady(now, e.instance, *e.ready)
		return
	case e.overuse != "":
		if c := a.machine.copies[e.instance]; c != nil {
			a.endToRestart(c, e.overuse)
		}
		return
	case e.end == nil:
		a.machine.running(now, e.instance)
		return
	}
	delete(a.procs, e.instance)
	a.disk.remove(e.instance)
	ended := a.machine.copies[e.instance]
	if e.end.left {
		a.unclean++
	}
	reported, ok := a.machine.exited(now, e.instance, *e.end, leaving)
	a.removeDropped()
	if !ok {
		return
	}
	a.artifacts.use(ended.StartRequest, -1)
	defer a.records.update(ended, &now) // after the message: a lost message is worse than a repeated one
	a.log.Info("app instance ended", "app", reported.App, "index", reported.Index, "instance", reported.Instance,
		"reason", reported.Reason, "description", reported.Description)
	a.finished.add(now, ended, reported)
	if a.machine.selfFenced {
		a.contact.unreported = append(a.contact.unreported, reported)
		return
	}
	a.send(message.ExitedSubject(a.cfg.Cluster, a.cfg.node()), reported)
}

// becameReady records a change of a copy, and ends it if it is to be started again.
func (a *Agent) becameReady(now time.Time, instance string, change readiness.Change) {
	c := a.machine.ready(now, instance, change.Ready)
	if c == nil {
		return
	}
	if change.Ready {
		a.log.Info("app instance ready", "app", c.App, "index", c.Index, "instance", c.Instance)
		return
	}
	a.log.Warn("app instance no longer ready", "app", c.App, "index", c.Index, "instance", c.Instance, "why", change.Why)
	if c.Ready != nil && c.Ready.RestartUnready {
		a.endToRestart(c, "it is not ready: "+change.Why)
	}
}
