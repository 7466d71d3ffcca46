package bootstrap

import (
	"context"
	"time"
)

// trialTimeout bounds one use of Trials.
const trialTimeout = 5 * time.Second

// Trials keeps how shadows did, over restarts of bootstrap.
type Trials interface {
	// Load returns what was saved, in any order. With an error it returns what
	// could be read all the same.
	Load(ctx context.Context) ([]Trial, error)
	// Save keeps a trial in place of the one of the same app, signal, pinned and
	// shadow version; it may forget the others of its app.
	Save(ctx context.Context, t Trial) error
}

// keepTrial saves a trial. One that cannot be saved counts until bootstrap ends.
func (s *seat) keepTrial(t Trial) {
	if s.config.Trials == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.lives), trialTimeout)
	defer cancel()
	if err := s.config.Trials.Save(ctx, t); err != nil {
		s.log.Error("trial of a shadow is not kept, bootstrap will have forgotten it after a restart", "app", s.app, "err", err)
	}
}

// loadTrials gives the seats what was kept of their trials. Run calls it before
// it starts them.
func (b *Bootstrap) loadTrials(ctx context.Context) error {
	if b.config.Trials == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	kept, err := b.config.Trials.Load(ctx)
	if err != nil {
		b.config.Log.Error("trials of shadows are not known, but for some: the others begin anew", "known", len(kept), "err", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = kept
	for _, s := range b.seats {
		if s.plan.Shadow == nil {
			continue
		}
		if err := s.adopt(pick(kept, s.plan, time.Now())); err != nil {
			return err
		}
	}
	return nil
}
