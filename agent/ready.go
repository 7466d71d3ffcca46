package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/readiness"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// watchReady checks whether a copy is ready, until its process ends or this agent does.
func (a *Agent) watchReady(p *process, c *copyOf, began time.Time) {
	start, releaseDir := c.StartRequest, p.releaseDir
	w := readiness.Watch{Readiness: start.Ready.WithDefaults(), Began: began, Command: func(ctx context.Context, command string) error {
		return a.runCheck(ctx, p, environment(a.cfg, start, p.dir, releaseDir), nameOf(start), command)
	}}
	ctx, cancel := context.WithCancel(context.Background())
	a.wg.Go(func() {
		defer cancel()
		select {
		case <-p.done():
		case <-a.released:
		}
	})
	a.wg.Go(func() {
		w.Run(ctx, func(change readiness.Change) { a.report(event{instance: start.Instance, ready: &change}) })
	})
}

// runCheck runs the command of a readiness check in the folder of a copy. It ends with this agent.
func (a *Agent) runCheck(ctx context.Context, p *process, env []string, name, command string) error {
	child, err := a.launcher.Start(ctx, supervise.Spec{
		Name: name + " readiness", Argv: []string{"/bin/sh", "-c", command}, Env: env, Dir: p.dir, StopGrace: time.Millisecond,
	})
	if err != nil {
		return err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		_ = child.Stop(context.Background()) // the timeout is the error
		return errors.New("the command of the check did not end in time")
	}
	if err := child.Stop(context.Background()); err != nil { // its own children
		return err
	}
	if exit, _ := child.Exit(); exit.Signal != 0 || exit.Unknown || exit.Code != 0 {
		return fmt.Errorf("the command of the check ended with %s", exit)
	}
	return nil
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
	if c.Ready != nil && c.Ready.RestartUnready && !c.asked && !c.evacuated && c.unreadyEnd == "" {
		c.unreadyEnd = "ended because it is not ready: " + change.Why
		a.end(c)
	}
}
