package release

import (
	"context"
	"fmt"
)

// flightKey is what two fetches have in common that may share a download.
type flightKey struct {
	bucket string
	ref    Ref
}

// flight is a fetch that others may wait for.
type flight struct {
	done      chan struct{} // closed when the rest is set
	installed Installed
	err       error
	abandoned bool // the context of who fetched ended, which says nothing to others
}

// Fetch returns a release, verified, from the cache or by way of it from the
// bucket. If the bucket is unavailable and this very release was fetched from it
// before, that is returned, with the reason in Away; another version never is.
// Errors name the object's URL and the cause. What is fetched by several at the
// same time is downloaded once.
func (c *Cache) Fetch(ctx context.Context, b Bucket, ref Ref) (Installed, error) {
	if err := ref.Validate(); err != nil {
		return Installed{}, fmt.Errorf("fetch: %w", err)
	}
	k := flightKey{b.URL(""), ref}
	for {
		f, first := c.join(k)
		if first {
			f.installed, f.err = c.fetch(ctx, b, ref)
			f.abandoned = f.err != nil && ctx.Err() != nil
			c.leave(k, f)
			return f.installed, f.err
		}
		select {
		case <-ctx.Done():
			return Installed{}, fmt.Errorf("fetch %s: %w", ref, context.Cause(ctx))
		case <-f.done:
		}
		if !f.abandoned {
			return f.installed, f.err
		}
	}
}

// join returns the flight of that key, and whether the caller has to fly it.
func (c *Cache) join(k flightKey) (f *flight, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f, ok := c.flights[k]; ok {
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	c.flights[k] = f
	return f, true
}

func (c *Cache) leave(k flightKey, f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flights, k)
	close(f.done)
}
