package supervise

import (
	"context"
	"fmt"
	"time"
)

// hangError is the reason why a child that still runs is killed.
type hangError struct{ why string }

func (e *hangError) Error() string { return e.why }

// watchHealth calls condemn after HealthFailures failed checks in a row. It returns then, or when ctx ends.
func (p *Process) watchHealth(ctx context.Context, condemn context.CancelCauseFunc) {
	due := time.NewTicker(p.config.HealthEvery)
	defer due.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		}
		err := p.checkHealth(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
			continue
		}
		failures++
		p.config.Log.Warn("process is unhealthy", "process", p.config.Name, "in_a_row", failures, "err", err)
		if failures >= p.config.HealthFailures {
			condemn(&hangError{fmt.Sprintf("unhealthy, %d in a row: %v", failures, err)})
			return
		}
	}
}

func (p *Process) checkHealth(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.config.HealthTimeout)
	defer cancel()
	return p.config.Health(ctx)
}
