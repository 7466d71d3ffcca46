package bootstrap

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// trialTimeout bounds one call of Trials.
const trialTimeout = 5 * time.Second

// Trials stores trials across restarts of bootstrap.
type Trials interface {
	// Load returns the saved trials, unsorted. With an error it returns those that could be read.
	Load(ctx context.Context) ([]api.Trial, error)
	// Save stores a trial. It replaces the one with the same app, signal, pinned and shadow version. It may delete the
	// app's other trials.
	Save(ctx context.Context, t api.Trial) error
}

// saveTrial saves a trial. A trial that cannot be saved remains valid until bootstrap ends.
func (s *appProcess) saveTrial(t api.Trial) {
	if s.config.Trials == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.lives), trialTimeout)
	defer cancel()
	if err := s.config.Trials.Save(ctx, t); err != nil {
		s.log.Error("cannot save shadow trial, a restart loses it", "app", s.app, "err", err)
	}
}

// loadTrials passes saved trials to the app processes. Run calls it before it starts them.
func (b *Bootstrap) loadTrials(ctx context.Context) error {
	if b.config.Trials == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	kept, err := b.config.Trials.Load(ctx)
	if err != nil {
		b.config.Log.Error("some shadow trials cannot be loaded and start again", "known", len(kept), "err", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = kept
	for _, s := range b.appProcesses {
		if s.plan.Shadow == nil {
			continue
		}
		if err := s.adopt(selectTrial(kept, s.plan, time.Now())); err != nil {
			return err
		}
	}
	return nil
}
