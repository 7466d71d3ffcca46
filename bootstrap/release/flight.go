package release

import (
	"context"
	"sync"
)

// flight is a fetch that others may wait for.
type flight struct {
	done      chan struct{} // closed when the rest is set
	installed Installed
	err       error
	abandoned bool // the context of who fetched ended, which says nothing to others
}

// flights are the fetches that are under way, by key: what several callers fetch at
// the same time is fetched once.
type flights struct{ byKey sync.Map }

// share calls fetch, or waits for who called it with that key.
func (s *flights) share(ctx context.Context, key string, fetch func() (Installed, error)) (Installed, error) {
	for {
		f := &flight{done: make(chan struct{})}
		if other, joined := s.byKey.LoadOrStore(key, f); joined {
			f = other.(*flight)
		} else {
			f.installed, f.err = fetch()
			f.abandoned = f.err != nil && ctx.Err() != nil
			s.byKey.Delete(key)
			close(f.done)
			return f.installed, f.err
		}
		select {
		case <-ctx.Done():
			return Installed{}, context.Cause(ctx)
		case <-f.done:
		}
		if !f.abandoned {
			return f.installed, f.err
		}
	}
}
