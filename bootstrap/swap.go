package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

// swap replaces the current process by the wanted one. The current one runs until the wanted one has answered.
func (s *appProcess) swap(ctx context.Context) {
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
		s.log.Error("swap failed, previous signal keeps running", "app", s.app,
			"wanted", want.Version, "running", before.plan.Version, "err", err, "retry_in", pause)
		s.setTrouble(fmt.Sprintf("%s cannot replace it yet: %v", title(want), err))
		if !retry.Pause(ctx, pause) {
			return
		}
	}
}

// title returns the short name of a plan in messages.
func title(p SignalPlan) string {
	if p.Shipped() {
		return p.Namespace + "/" + p.Name
	}
	return p.Version
}

func (s *appProcess) setTrouble(why string) {
	s.mu.Lock()
	s.trouble = why
	s.mu.Unlock()
	s.stream.wake()
}

// attempt makes one attempt at a swap.
func (s *appProcess) attempt(ctx context.Context, want SignalPlan) error {
	s.mu.Lock()
	current := s.current
	s.mu.Unlock()
	switch {
	case !current.launched():
		s.dropCandidate()
		return s.replace(current, want)
	case !want.movable() && cmp.Or(current.currentPlace().address, want.Address) == want.Address:
		s.dropCandidate()
		return s.replaceFetched(ctx, current, want)
	}
	candidate, err := s.startCandidate(want, false)
	if err != nil {
		return err
	}
	if err := s.awaitCandidate(ctx, candidate); err != nil {
		if ctx.Err() == nil {
			s.dropCandidate()
		}
		return err
	}
	s.promote()
	return nil
}

// replaceFetched fetches the wanted release, and then stops the current process before starting the other, because both
// need the same socket.
func (s *appProcess) replaceFetched(ctx context.Context, current *signal, want SignalPlan) error {
	if !want.Shipped() {
		release, err := s.releaseCache.takeRelease(ctx, want.Ref())
		if err != nil {
			return err
		}
		defer s.releaseCache.giveBack(release)
	}
	return s.replace(current, want)
}

// replace stops the current process and starts the wanted one.
func (s *appProcess) replace(current *signal, want SignalPlan) error {
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

// startCandidate makes the wanted version the candidate, and starts it unless it already is.
func (s *appProcess) startCandidate(want SignalPlan, shadow bool) (*signal, error) {
	s.mu.Lock()
	if c := s.candidate; c != nil && c.plan.runsAs(want) {
		s.shadow = shadow
		s.mu.Unlock()
		return c, nil
	}
	policy := s.policyLocked()
	s.mu.Unlock()
	if shadow {
		policy = limitedRestarts()
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

// dropCandidate stops the candidate, if there is one. Its answers have no effect, so the autoscaler need not follow
// first.
func (s *appProcess) dropCandidate() {
	s.mu.Lock()
	c, listed := s.candidate, s.listed
	s.candidate, s.listed = nil, false
	s.mu.Unlock()
	if c == nil {
		return
	}
	if revision := s.stream.announce(); listed {
		s.mu.Lock()
		s.leaving[c.currentPlace().address] = revision
		s.mu.Unlock()
	}
	c.cancel()
	<-c.done
}

// awaitCandidate waits until a candidate runs and has answered the autoscaler on live windows. Without an autoscaler,
// running is enough.
func (s *appProcess) awaitCandidate(ctx context.Context, c *signal) error {
	err := s.await(ctx, func() (bool, error) {
		if why, failed := c.lastFailure(); failed {
			return false, errors.New(why)
		}
		return c.process.Status().State == supervise.Running, nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.listed = true
	timeouts := s.config.swapTimeout() + s.plan.TimeLimit
	s.mu.Unlock()
	s.stream.wake()
	late := fmt.Errorf("no response to live windows within %v", timeouts)
	ctx, cancel := context.WithTimeoutCause(ctx, timeouts, late)
	defer cancel()
	return s.await(ctx, func() (bool, error) {
		if why, failed := c.lastFailure(); failed {
			return false, errors.New(why)
		}
		present, _, _ := s.stream.progress()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.verdict == VerdictFailed {
			return false, fmt.Errorf("failed on live windows: %s", s.refusal)
		}
		return s.verdict != "" || !present, nil
	})
}

// promote makes the candidate the current process. It stops the previous one when it gets no more requests.
func (s *appProcess) promote() {
	s.mu.Lock()
	before, now := s.current, s.candidate
	s.current, s.candidate, s.listed, s.trouble = now, nil, false, ""
	s.setRequestsLocked()
	s.mu.Unlock()
	s.log.Info("signal swapped", "app", s.app, "from", before.plan.Version, "to", now.plan.Version, "socket", now.currentPlace().address)
	s.dismiss(before, s.stream.announce())
}

// try runs the shadow beside the pinned version until its trial is decided, and acts on the outcome.
func (s *appProcess) try(ctx context.Context) {
	s.mu.Lock()
	plan, trial := s.plan, s.trial
	s.mu.Unlock()
	if plan.Shadow == nil || trial.Outcome != api.TrialUndecided {
		s.dropCandidate()
		return
	}
	c, err := s.startCandidate(plan.promoted(), true)
	if err != nil {
		s.decide(func(t api.Trial) api.Trial { return TrialCrashed(t, time.Now(), err.Error()) })
		return
	}
	s.saveTrial(trial)
	err = s.await(ctx, func() (bool, error) {
		why, failed := c.lastFailure()
		s.mu.Lock()
		defer s.mu.Unlock()
		if failed && s.onTrialLocked() {
			s.trial = TrialCrashed(s.trial, time.Now(), why)
		}
		trial = s.trial
		return trial.Outcome != api.TrialUndecided, nil
	})
	if err != nil {
		return // the plan has changed: the next round decides about the candidate
	}
	s.log.Warn("shadow trial ended", "app", s.app, "pinned", trial.Pinned, "shadow", trial.Shadow,
		"outcome", string(trial.Outcome), "why", trial.Why, "agreeing", trial.Agreeing)
	s.saveTrial(trial)
	switch {
	case ctx.Err() != nil: // the plan has changed: as above
	case trial.Outcome == api.TrialPromoted:
		s.promote()
	default:
		s.dropCandidate()
	}
}

// decide applies step to the trial and returns the result.
func (s *appProcess) decide(step func(api.Trial) api.Trial) api.Trial {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trial = step(s.trial)
	return s.trial
}

// revive waits for the policy's longest pause and restarts a signal that has spent its restart budget. A promoted
// version is replaced by the pinned one.
func (s *appProcess) revive(ctx context.Context) {
	s.mu.Lock()
	promoted, current := s.promotedLocked(), s.current
	s.mu.Unlock()
	why := current.process.Status().Why
	if promoted {
		trial := s.decide(func(t api.Trial) api.Trial { return TrialGivenUp(t, time.Now(), why) })
		s.log.Error("promoted version failed, rolling back to the pinned version", "app", s.app,
			"pinned", trial.Pinned, "shadow", trial.Shadow, "err", why)
		s.saveTrial(trial)
		return
	}
	// It may have been restarted meanwhile.
	if retry.Pause(ctx, s.config.restarts().Max) && current.process.Status().State == supervise.Fatal {
		current.process.Restart("restart after the pause for a spent restart budget")
	}
}
