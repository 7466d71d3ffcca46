package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/agent/readiness"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// readyChecks check whether the copies of an agent are ready.
type readyChecks struct {
	cfg      Config
	launcher *supervise.Launcher
	released <-chan struct{} // closed when the copies outlive the agent
	report   func(event)
	wg       *sync.WaitGroup
}

// watch checks a copy until its process ends or the agent does. The command of a check has the environment of the copy.
func (r readyChecks) watch(p *process, c *copyOf, began time.Time) {
	start, env := c.StartRequest, environment(r.cfg, c.StartRequest, c.ports, p.dir, p.releaseDir)
	w := readiness.Watch{Readiness: start.Ready.WithDefaults(), Began: began, Ports: c.ports, Command: func(ctx context.Context, command string) error {
		return r.run(ctx, p.dir, env, nameOf(start), command)
	}}
	ctx, cancel := context.WithCancel(context.Background())
	r.wg.Go(func() {
		defer cancel()
		select {
		case <-p.done():
		case <-r.released:
		}
	})
	r.wg.Go(func() {
		w.Run(ctx, func(change readiness.Change) { r.report(event{instance: start.Instance, ready: &change}) })
	})
}

// run runs the command of a check in the folder of a copy. It ends with the agent.
func (r readyChecks) run(ctx context.Context, dir string, env []string, name, command string) error {
	child, err := r.launcher.Start(ctx, supervise.Spec{
		Name: name + " readiness", Argv: []string{"/bin/sh", "-c", command}, Env: env, Dir: dir, StopGrace: time.Millisecond,
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
