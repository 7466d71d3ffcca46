package bootstrap

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
)

const (
	// Bounds of the stored output of an app's signal: lines, and bytes of text.
	tailLines = 1000
	tailBytes = 256 << 10
)

// dependencies are shared by all app processes.
type dependencies struct {
	config       Config
	log          *slog.Logger
	releaseCache *releaseCache
	stream       *stream
	environment  func() []string // variables of the plan, for children
	folder       keptFolder      // of the sockets of plugins
}

// appProcess manages the processes of one app: the current signal and its candidate, if any. Only the goroutine of run
// decides. Other goroutines change fields and wake it.
type appProcess struct {
	dependencies
	app       string
	tail      *output.Tail
	wake      chan struct{} // buffer of 1: the state has changed
	processes sync.WaitGroup
	lives     context.Context // of all its signals; set by run
	after     <-chan struct{} // closed when the app's previous appProcess has ended; nil: there was no such process
	ended     chan struct{}   // closed when run has ended

	mu        sync.Mutex
	plan      SignalPlan
	trial     api.Trial // of the plan's shadow
	current   *signal
	candidate *signal
	shadow    bool               // the candidate is a shadow
	listed    bool               // the candidate is in the directory
	verdict   string             // of the candidate on live windows; empty: no answer yet
	refusal   string             // why the candidate's request failed
	trouble   string             // why the wanted version does not run
	reserved  map[string]*signal // by address
	leaving   map[string]int     // addresses of dropped candidates; value: first revision without them
	retired   int                // first revision that does not list the app; 0: it is listed
	interrupt context.CancelFunc // ends the current round of run
	left      []error            // errors of ended processes
}

func newAppProcess(m dependencies, p SignalPlan, trial api.Trial) (*appProcess, error) {
	s := &appProcess{
		dependencies: m, app: p.App, tail: output.NewTail(tailLines, tailBytes), wake: make(chan struct{}, 1),
		ended: make(chan struct{}), plan: p, reserved: map[string]*signal{}, leaving: map[string]int{}, interrupt: func() {},
	}
	return s, s.adopt(trial)
}

// adopt sets the saved trial of the shadow. Call it before run.
func (s *appProcess) adopt(t api.Trial) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trial = t
	current, err := newSignal(s, s.wantedLocked(), s.policyLocked())
	s.current = current
	return err
}

// wantedLocked returns what should run: the plan's version, or its shadow if that was promoted.
func (s *appProcess) wantedLocked() SignalPlan {
	if s.promotedLocked() {
		return s.plan.promoted()
	}
	return s.plan.process()
}

func (s *appProcess) promotedLocked() bool {
	return trialOf(s.trial, s.plan) && s.trial.Outcome == api.TrialPromoted
}

// policyLocked returns the restart policy of the wanted version: unlimited, unless there is a version to return to.
func (s *appProcess) policyLocked() supervise.Policy {
	if s.promotedLocked() {
		return limitedRestarts()
	}
	return s.config.restarts()
}

// limitedRestarts is the restart policy of a version with an older one to return to.
func limitedRestarts() supervise.Policy {
	p := supervise.DefaultPolicy()
	p.Budget = 5
	return p
}

// replan changes the plan. It drops the trial of another pinned or shadow version.
func (s *appProcess) replan(p SignalPlan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plan.same(p) {
		return
	}
	s.plan, s.trouble = p, ""
	if p.Shadow == nil {
		s.trial = api.Trial{}
	} else if !trialOf(s.trial, p) {
		s.trial = newTrial(p, time.Now())
	}
	s.setRequestsLocked()
	s.interrupt()
}

// setRequestsLocked sets the plan's request configuration for the processes that should run. The others keep theirs.
func (s *appProcess) setRequestsLocked() {
	want := s.wantedLocked()
	for _, sig := range []*signal{s.current, s.candidate} {
		if sig != nil && sig.plan.runsAs(want) {
			sig.requestConfig = want.RequestConfig
		}
	}
}

// releases returns the releases that the plan may run.
func (s *appProcess) releases() (refs []release.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plan.Shipped() {
		return nil
	}
	refs = append(refs, s.plan.Ref())
	if s.plan.Shadow != nil {
		refs = append(refs, s.plan.promoted().Ref())
	}
	return refs
}

// retire records the first revision of the directory that does not list the app, and ends run.
func (s *appProcess) retire(revision int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = revision
	s.interrupt()
}

// changed notifies run and the directory of a change.
func (s *appProcess) changed() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
	s.stream.wake()
}

// run runs the app's processes according to the plan until ctx ends or the app is retired. When it returns, all its
// processes have ended, or the error lists those that are left.
func (s *appProcess) run(ctx context.Context) error {
	defer close(s.ended)
	if s.after != nil {
		s.setTrouble("waiting for the end of the app's previous process")
		<-s.after // it ends with ctx too
		s.setTrouble("")
	}
	lives, end := context.WithCancel(context.WithoutCancel(ctx))
	s.lives = lives
	s.start(s.current)
	for {
		round, ok := s.round(ctx)
		if !ok {
			break
		}
		s.follow(round)
	}
	if ctx.Err() == nil {
		s.stream.awaitFollowed(ctx, s.retired)
	}
	end()
	s.processes.Wait()
	return errors.Join(s.left...)
}

func (s *appProcess) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// round returns the context of a round, which ends when the plan changes. ok is false if there are no more rounds.
func (s *appProcess) round(ctx context.Context) (round context.Context, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupt() // releases the previous round's context
	round, s.interrupt = context.WithCancel(ctx)
	return round, ctx.Err() == nil && s.retired == 0
}

// follow runs the tasks one after another until ctx ends.
func (s *appProcess) follow(ctx context.Context) {
	for ctx.Err() == nil {
		switch s.next() {
		case taskSwap:
			s.swap(ctx)
		case taskTrial:
			s.try(ctx)
		case taskRevive:
			s.revive(ctx)
		case taskNone:
			_ = s.await(ctx, func() (bool, error) { return s.next() != taskNone, nil }) // the only error is ctx's
		}
	}
}

// task is what run has to do next.
type task uint8

const (
	taskNone   task = iota // nothing to do
	taskSwap               // the current process is not the wanted one
	taskTrial              // a shadow should run beside it
	taskRevive             // the restart budget is spent
)

func (s *appProcess) next() task {
	s.mu.Lock()
	defer s.mu.Unlock()
	trying := s.plan.Shadow != nil && s.trial.Outcome == api.TrialUndecided
	switch {
	case !s.current.plan.runsAs(s.wantedLocked()):
		return taskSwap
	case s.current.process.Status().State == supervise.Fatal:
		return taskRevive
	case trying, s.candidate != nil:
		return taskTrial
	}
	return taskNone
}

// await waits until good returns true or an error, and returns that error, or ctx's cause. It checks after every
// change.
func (s *appProcess) await(ctx context.Context, good func() (bool, error)) error {
	for {
		_, _, moved := s.stream.progress()
		if done, err := good(); done || err != nil {
			return err
		}
		select {
		case <-s.wake:
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// start runs a signal until it is stopped or run ends.
func (s *appProcess) start(sig *signal) {
	sig.life, sig.cancel = context.WithCancel(s.lives)
	s.processes.Go(func() {
		err := sig.run(sig.life)
		s.mu.Lock()
		s.releaseLocked(sig)
		if err != nil {
			s.left = append(s.left, err)
		}
		s.mu.Unlock()
		close(sig.done)
		s.changed()
	})
}

// dismiss stops a signal after the autoscaler has followed the revision.
func (s *appProcess) dismiss(sig *signal, revision int) {
	s.processes.Go(func() {
		s.stream.awaitFollowed(sig.life, revision)
		sig.cancel()
	})
}
