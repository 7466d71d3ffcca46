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

// flights are the fetches that are under way: what several callers fetch at the same
// time is fetched once.
type flights struct {
	mu    sync.Mutex
	byKey map[string]*flight
}

// share calls fetch, or waits for who called it with that key.
func (s *flights) share(ctx context.Context, key string, fetch func() (Installed, error)) (Installed, error) {
	for {
		f, first := s.join(key)
		if first {
			f.installed, f.err = fetch()
			f.abandoned = f.err != nil && ctx.Err() != nil
			s.leave(key, f)
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

// join returns the flight of that key, and whether the caller has to fly it.
func (s *flights) join(key string) (f *flight, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f, ok := s.byKey[key]; ok {
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	s.byKey[key] = f
	return f, true
}

func (s *flights) leave(key string, f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byKey, key)
	close(f.done)
}
