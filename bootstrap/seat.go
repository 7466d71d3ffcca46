package bootstrap

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise/output"
)

const (
	// Of the last output of an app's signal: lines, and bytes of all of them.
	tailLines = 1000
	tailBytes = 256 << 10
)

// means are what all seats work with.
type means struct {
	config      Config
	log         *slog.Logger
	shelf       *shelf
	stream      *stream
	environment func() []string // of the plan, for children
}

// seat is an app's place in the directory: the signal that serves it, and the
// candidate beside that, if there is one. One goroutine, run, decides; everybody
// else leaves it word.
type seat struct {
	means
	app       string
	tail      *output.Tail
	wake      chan struct{} // has room for one: something is to be looked at
	processes sync.WaitGroup
	lives     context.Context // of all its signals; set by run
	after     <-chan struct{} // closed when the app's former seat has ended; nil: it had none
	ended     chan struct{}   // closed when run has

	mu        sync.Mutex
	plan      SignalPlan
	trial     Trial // of the plan's shadow
	current   *signal
	candidate *signal
	shadow    bool               // what the candidate is
	listed    bool               // the candidate is in the directory
	verdict   string             // of the candidate on live windows; empty: none yet
	refusal   string             // why that was no answer
	trouble   string             // why what is wanted does not run
	reserved  map[string]*signal // by address
	leaving   map[string]int     // addresses of dropped candidates, and the first revision without them
	retired   int                // the revision that does not list it any more; 0: it is listed
	interrupt context.CancelFunc // ends the present round of run
	left      []error            // of processes that have ended
}

func newSeat(m means, p SignalPlan, trial Trial) (*seat, error) {
	s := &seat{
		means: m, app: p.App, tail: output.NewTail(tailLines, tailBytes), wake: make(chan struct{}, 1),
		ended: make(chan struct{}), plan: p, reserved: map[string]*signal{}, leaving: map[string]int{}, interrupt: func() {},
	}
	return s, s.adopt(trial)
}

// adopt gives the seat the trial that was kept of its shadow. It is not yet run.
func (s *seat) adopt(t Trial) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trial = t
	current, err := newSignal(s, s.wantedLocked(), s.policyLocked())
	s.current = current
	return err
}

// wantedLocked is what should run: as the plan says, or its shadow if that was
// promoted.
func (s *seat) wantedLocked() SignalPlan {
	if s.promotedLocked() {
		return s.plan.promoted()
	}
	return s.plan.process()
}

func (s *seat) promotedLocked() bool { return s.trial.of(s.plan) && s.trial.Outcome == Promoted }

// policyLocked is how what is wanted is restarted: for ever, unless there is
// something to go back to.
func (s *seat) policyLocked() supervise.Policy {
	if s.promotedLocked() {
		return revocable()
	}
	return s.config.restarts()
}

// revocable is the restart policy of a version that there is an older one for.
func revocable() supervise.Policy {
	p := supervise.DefaultPolicy()
	p.Budget = 5
	return p
}

// replan gives the seat another plan. A trial of another pin or shadow is
// forgotten.
func (s *seat) replan(p SignalPlan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plan.same(p) {
		return
	}
	s.plan, s.trouble = p, ""
	if p.Shadow == nil {
		s.trial = Trial{}
	} else if !s.trial.of(p) {
		s.trial = newTrial(p, time.Now())
	}
	s.askLocked()
	s.interrupt()
}

// askLocked has the processes that are wanted asked with what the plan says. The
// others keep the question that they were planned with.
func (s *seat) askLocked() {
	want := s.wantedLocked()
	for _, sig := range []*signal{s.current, s.candidate} {
		if sig != nil && sig.plan.runsAs(want) {
			sig.question = want.Question
		}
	}
}

// releases returns the releases that the plan of the seat may run.
func (s *seat) releases() (refs []release.Ref) {
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

// retire tells the seat that the directory does not list it from revision on.
func (s *seat) retire(revision int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retired = revision
	s.interrupt()
}

// changed tells run and the directory that there may be something new.
func (s *seat) changed() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
	s.stream.wake()
}

// run keeps the seat as its plan says, until ctx ends or it is retired. When it
// returns, no process of it is left, or the error says which.
func (s *seat) run(ctx context.Context) error {
	defer close(s.ended)
	if s.after != nil {
		s.setTrouble("it waits for the app's former process to end")
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

func (s *seat) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// round returns the context of a round, which ends when the plan changes; ok is
// false if there is none any more.
func (s *seat) round(ctx context.Context) (round context.Context, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupt() // frees what the round before holds
	round, s.interrupt = context.WithCancel(ctx)
	return round, ctx.Err() == nil && s.retired == 0
}

// follow does what is to be done, one thing after another, until ctx ends.
func (s *seat) follow(ctx context.Context) {
	for ctx.Err() == nil {
		switch s.next() {
		case toSwap:
			s.swap(ctx)
		case toTry:
			s.try(ctx)
		case toRevive:
			s.revive(ctx)
		case toRest:
			_ = s.await(ctx, func() (bool, error) { return s.next() != toRest, nil }) // its error is ctx's
		}
	}
}

// task is what a seat has to do.
type task uint8

const (
	toRest   task = iota // all is as it should be
	toSwap               // something else should run than what does
	toTry                // a shadow should run beside it
	toRevive             // its restart budget is spent
)

func (s *seat) next() task {
	s.mu.Lock()
	defer s.mu.Unlock()
	trying := s.plan.Shadow != nil && s.trial.Outcome == Undecided
	switch {
	case !s.current.plan.runsAs(s.wantedLocked()):
		return toSwap
	case s.current.process.Status().State == supervise.Fatal:
		return toRevive
	case trying, s.candidate != nil:
		return toTry
	}
	return toRest
}

// await waits until good returns true or an error, and returns that error, or
// ctx's cause. It looks whenever something has changed.
func (s *seat) await(ctx context.Context, good func() (bool, error)) error {
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

// start runs a signal until it is stopped, or the seat is.
func (s *seat) start(sig *signal) {
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

// dismiss stops a signal when the autoscaler has followed the revision.
func (s *seat) dismiss(sig *signal, revision int) {
	s.processes.Go(func() {
		s.stream.awaitFollowed(sig.life, revision)
		sig.cancel()
	})
}
