package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/retry"
)

// swap makes what is wanted run in place of what does. What runs goes on until
// the other one has answered, and as long as it does not.
func (s *seat) swap(ctx context.Context) {
	pauses := retry.Policy{First: time.Second, Longest: 5 * time.Minute}.Pauses()
	for {
		s.mu.Lock()
		want, before := s.wantedLocked(), s.current
		s.mu.Unlock()
		err := s.attempt(ctx, want)
		if err == nil || ctx.Err() != nil {
			return
		}
		pause := pauses.NextBackOff()
		s.log.Error("new signal is given up for now, the one before goes on", "app", s.app,
			"wanted", want.Version, "running", before.plan.Version, "err", err, "retry_in", pause)
		s.setTrouble(fmt.Sprintf("%s is given up for now: %v", title(want), err))
		if !wait(ctx, pause) {
			return
		}
	}
}

// title is what of a plan people tell it by in a sentence.
func title(p SignalPlan) string {
	if p.Shipped() {
		return p.Namespace + "/" + p.Name
	}
	return p.Version
}

func (s *seat) setTrouble(why string) {
	s.mu.Lock()
	s.trouble = why
	s.mu.Unlock()
	s.stream.wake()
}

// attempt is one attempt at a swap.
func (s *seat) attempt(ctx context.Context, want SignalPlan) error {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	switch {
	case !current.launched():
		s.dropCandidate()
		return s.replace(current, want)
	case !want.movable() && cmp.Or(current.at().address, want.Address) == want.Address:
		s.dropCandidate()
		return s.replaceFetched(ctx, current, want)
	}
	candidate, err := s.seatCandidate(want, false)
	if err != nil {
		return err
	}
	if err := s.proveItself(ctx, candidate); err != nil {
		if ctx.Err() == nil {
			s.dropCandidate()
		}
		return err
	}
	s.promote()
	return nil
}

// replaceFetched stops what runs before the other one starts, as they would have
// the same socket; but not before that one's release is here.
func (s *seat) replaceFetched(ctx context.Context, current *signal, want SignalPlan) error {
	if !want.Shipped() {
		release, err := s.shelf.take(ctx, want.Ref())
		if err != nil {
			return err
		}
		defer s.shelf.giveBack(release)
	}
	return s.replace(current, want)
}

// replace stops what runs, and starts what is wanted.
func (s *seat) replace(current *signal, want SignalPlan) error {
	s.mu.Lock()
	policy := s.policyLocked()
	s.mu.Unlock()
	next, err := newSignal(s, want, policy)
	if err != nil {
		return err
	}
	current.cancel()
	<-current.done
	s.mu.Lock()
	s.current, s.trouble = next, ""
	s.mu.Unlock()
	s.start(next)
	s.changed()
	return nil
}

// seatCandidate makes what is wanted the candidate, and starts it unless it is
// that already.
func (s *seat) seatCandidate(want SignalPlan, shadow bool) (*signal, error) {
	s.mu.Lock()
	if c := s.candidate; c != nil && c.plan.runsAs(want) {
		s.shadow = shadow
		s.mu.Unlock()
		return c, nil
	}
	policy := s.policyLocked()
	s.mu.Unlock()
	if shadow {
		policy = revocable()
	}
	s.dropCandidate()
	next, err := newSignal(s, want, policy)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.candidate, s.shadow, s.listed, s.verdict, s.refusal = next, shadow, shadow, "", ""
	s.mu.Unlock()
	s.start(next)
	return next, nil
}

// dropCandidate stops the candidate, if there is one. It has no effect, so nobody
// has to know before.
func (s *seat) dropCandidate() {
	s.mu.Lock()
	c, listed := s.candidate, s.listed
	s.candidate, s.listed = nil, false
	s.mu.Unlock()
	if c == nil {
		return
	}
	if revision := s.stream.announce(); listed {
		s.mu.Lock()
		s.leaving[c.at().address] = revision
		s.mu.Unlock()
	}
	c.cancel()
	<-c.done
}

// proveItself waits until a candidate runs and has answered the autoscaler on
// live windows. Where there is no autoscaler, running is enough.
func (s *seat) proveItself(ctx context.Context, c *signal) error {
	err := s.await(ctx, func() (bool, error) {
		if why, fell := c.fallen(); fell {
			return false, errors.New(why)
		}
		return c.process.Status().State == supervise.Running, nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.listed = true
	patience := s.config.swapPatience() + s.plan.TimeLimit
	s.mu.Unlock()
	s.stream.wake()
	late := fmt.Errorf("it did not answer on live windows within %v", patience)
	ctx, cancel := context.WithTimeoutCause(ctx, patience, late)
	defer cancel()
	return s.await(ctx, func() (bool, error) {
		if why, fell := c.fallen(); fell {
			return false, errors.New(why)
		}
		present, _, _ := s.stream.progress()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.verdict == VerdictFailed {
			return false, fmt.Errorf("it failed on live windows: %s", s.refusal)
		}
		return s.verdict != "" || !present, nil
	})
}

// promote makes the candidate the one that counts, and stops the one before when
// nobody asks that any more.
func (s *seat) promote() {
	s.mu.Lock()
	before, now := s.current, s.candidate
	s.current, s.candidate, s.listed, s.trouble = now, nil, false, ""
	s.askLocked()
	s.mu.Unlock()
	s.log.Info("signal is switched", "app", s.app, "from", before.plan.Version, "to", now.plan.Version, "socket", now.at().address)
	s.dismiss(before, s.stream.announce())
}

// try runs the shadow beside the version that is pinned, until its trial is
// decided, and acts on the outcome.
func (s *seat) try(ctx context.Context) {
	s.mu.Lock()
	plan, trial := s.plan, s.trial
	s.mu.Unlock()
	if plan.Shadow == nil || trial.Outcome != Undecided {
		s.dropCandidate()
		return
	}
	c, err := s.seatCandidate(plan.promoted(), true)
	if err != nil {
		s.decide(func(t Trial) Trial { return t.Crashed(time.Now(), err.Error()) })
		return
	}
	s.keepTrial(trial)
	err = s.await(ctx, func() (bool, error) {
		why, fell := c.fallen()
		s.mu.Lock()
		defer s.mu.Unlock()
		if fell && s.onTrialLocked() {
			s.trial = s.trial.Crashed(time.Now(), why)
		}
		trial = s.trial
		return trial.Outcome != Undecided, nil
	})
	if err != nil {
		return // the plan has changed: the next round says whether the candidate stays
	}
	s.log.Warn("trial of a shadow is over", "app", s.app, "pinned", trial.Pinned, "shadow", trial.Shadow,
		"outcome", string(trial.Outcome), "why", trial.Why, "agreeing", trial.Agreeing)
	s.keepTrial(trial)
	switch {
	case ctx.Err() != nil: // the plan has changed: likewise
	case trial.Outcome == Promoted:
		s.promote()
	default:
		s.dropCandidate()
	}
}

// decide steps the trial.
func (s *seat) decide(step func(Trial) Trial) Trial {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trial = step(s.trial)
	return s.trial
}

// revive ends the rest of a signal that has spent its restart budget, which is as
// long as the longest pause. A version that was promoted makes room for the pinned
// one.
func (s *seat) revive(ctx context.Context) {
	s.mu.Lock()
	promoted, current := s.promotedLocked(), s.current
	s.mu.Unlock()
	why := current.process.Status().Why
	if promoted {
		trial := s.decide(func(t Trial) Trial { return t.GivenUp(time.Now(), why) })
		s.log.Error("promoted version is given up, the pinned one takes its place again", "app", s.app,
			"pinned", trial.Pinned, "shadow", trial.Shadow, "err", why)
		s.keepTrial(trial)
		return
	}
	// Somebody else may have restarted it meanwhile.
	if wait(ctx, s.config.restarts().Max) && current.process.Status().State == supervise.Fatal {
		current.process.Restart("nobody else serves its app")
	}
}
