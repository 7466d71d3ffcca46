package release

import (
	"context"
	"sync"
)

// flight is a fetch that several callers may wait for.
type flight struct {
	done      chan struct{} // closed after the other fields are set
	installed Installed
	err       error
	abandoned bool // the context of the fetching caller ended; waiting callers fetch again
}

// flights holds the fetches in progress by key. Concurrent callers with the same key share one fetch.
type flights struct{ byKey sync.Map }

// share calls fetch, or waits for the caller that is already fetching with that key.
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
