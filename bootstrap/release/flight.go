package release

import "context"

// flight is a fetch that others may wait for.
type flight struct {
	done      chan struct{} // closed when the rest is set
	installed Installed
	err       error
	abandoned bool // the context of who fetched ended, which says nothing to others
}

// share calls fetch, or waits for who called it with that key.
func (c *Cache) share(ctx context.Context, key string, fetch func() (Installed, error)) (Installed, error) {
	for {
		f, first := c.join(key)
		if first {
			f.installed, f.err = fetch()
			f.abandoned = f.err != nil && ctx.Err() != nil
			c.leave(key, f)
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
func (c *Cache) join(key string) (f *flight, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.flights[key]; ok {
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	c.flights[key] = f
	return f, true
}

func (c *Cache) leave(key string, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flights, key)
	close(f.done)
}
