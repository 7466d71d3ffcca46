package bootstrap

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

const (
	signalStartTimeout = 10 * time.Second
	signalStopGrace    = 2 * time.Second
	fetchPauseMax      = 30 * time.Second
)

// States of a signal that has no process yet; the others are those of
// supervise.State.
const (
	fetching   = "fetching"    // its release is on the way
	notFetched = "not fetched" // the last attempt to fetch it went wrong
)

// signal is one signal process and, before it can run, its release.
type signal struct {
	config  Config
	plan    SignalPlan
	process *supervise.Process
	wake    func() // tells that entry() may have changed

	mu        sync.Mutex
	socket    socket
	installed *release.Installed // nil until fetched, and for a shipped signal
	fetchErr  error              // of the last attempt; nil if it went well
}

func newSignal(c Config, p SignalPlan, wake func()) (*signal, error) {
	s := &signal{config: c, plan: p, wake: wake, socket: socket{p.App, p.Address}}
	process, err := supervise.NewProcess(c.Launcher, supervise.ProcessConfig{
		Name: "signal " + p.App, NewSpec: s.spec, Probe: s.probe, StartTimeout: signalStartTimeout,
		Policy: forEver(), Watch: func(supervise.Status) { wake() }, Log: c.Log,
	})
	s.process = process
	return s, err
}

func (s *signal) run(ctx context.Context) error {
	if !s.plan.Shipped() && !s.awaitRelease(ctx) {
		return nil // ctx ended: nothing was started
	}
	return s.process.Run(ctx)
}

// awaitRelease fetches until the release is here, and reports whether it is
// before ctx ends. Nothing runs in its place.
func (s *signal) awaitRelease(ctx context.Context) bool {
	pauses := backoff.NewExponentialBackOff()
	pauses.MaxInterval = fetchPauseMax
	for {
		if _, err := s.fetch(ctx); err == nil {
			return true
		}
		pause := time.NewTimer(pauses.NextBackOff())
		select {
		case <-ctx.Done():
			pause.Stop()
			return false
		case <-pause.C:
		}
	}
}

// fetch makes one attempt, and keeps and tells its outcome.
func (s *signal) fetch(ctx context.Context) (release.Installed, error) {
	installed, err := s.config.Releases.Fetch(ctx, s.plan.Ref())
	if err != nil && ctx.Err() != nil {
		return installed, err // it was not awaited, which says nothing of the release
	}
	s.mu.Lock()
	s.fetchErr = err
	if err == nil {
		s.installed = &installed
	}
	s.mu.Unlock()
	s.wake()
	if err != nil {
		s.config.Log.Error("release is not here", "app", s.plan.App, "release", s.plan.Ref().String(), "err", err)
	}
	return installed, err
}

// spec is asked before each start: the executable is verified anew each time.
func (s *signal) spec(ctx context.Context) (supervise.Spec, error) {
	at, err := s.settle(ctx)
	if err != nil {
		return supervise.Spec{}, err
	}
	spec := supervise.Spec{
		Name: "signal " + s.plan.App, Env: s.config.SignalEnv, StopGrace: signalStopGrace,
		Lines: supervise.LogLines(s.config.Log.With("app", s.plan.App)),
	}
	if s.plan.Shipped() {
		spec.Argv = s.config.Shipped(s.plan, at.app)
		return spec, nil
	}
	executable, err := s.executable(ctx)
	if err != nil {
		return supervise.Spec{}, err
	}
	spec.Executable = executable
	spec.Argv = []string{s.plan.Name, s.plan.Namespace, s.plan.Name, at.app}
	return spec, nil
}

// executable opens the signal's program. One that was damaged since it was
// fetched is fetched again.
func (s *signal) executable(ctx context.Context) (*os.File, error) {
	s.mu.Lock()
	installed := *s.installed
	s.mu.Unlock()
	executable, err := installed.Open(installed.Entry)
	if err == nil {
		return executable, nil
	}
	s.config.Log.Warn("release is damaged, it is fetched again", "app", s.plan.App, "release", s.plan.Ref().String(), "err", err)
	if installed, err = s.fetch(ctx); err != nil {
		return nil, err
	}
	return installed.Open(installed.Entry)
}

// entry is the signal's line in the directory.
func (s *signal) entry() Entry {
	p := s.status()
	e := Entry{App: s.plan.App, Address: p.Address, Group: p.PID, Version: p.Version}
	if p.State != supervise.Running.String() {
		e.Down = "the signal is " + p.State
		if p.Why != "" {
			e.Down += ": " + p.Why
		}
	}
	return e
}

func (s *signal) status() Process {
	now := s.process.Status()
	p := Process{
		App: s.plan.App, Signal: s.plan.Namespace + "/" + s.plan.Name, Wanted: s.plan.Version,
		State: now.State.String(), PID: now.PID, Since: now.Since, Restarts: now.Restarts, Why: now.Why,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Address = s.socket.address
	switch {
	case s.plan.Shipped():
	case s.fetchErr != nil:
		p.State, p.Why = notFetched, s.fetchErr.Error()
	case s.installed == nil:
		p.State = fetching
	default:
		p.Version = s.plan.Version
		if p.Why == "" && s.installed.Away != nil {
			p.Why = "from the cache, as the bucket was away when it was fetched: " + s.installed.Away.Error()
		}
	}
	return p
}
