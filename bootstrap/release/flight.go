package release

import (
	"context"
	"fmt"
)

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
// What Trust does not admit, or what is yanked, is refused, from the cache too.
// Errors name the object's URL and the cause, and are told apart by the sentinels
// of this package. What is fetched by several at the same time is downloaded
// once.
func (c *Cache) Fetch(ctx context.Context, b Bucket, ref Ref) (Installed, error) {
	if err := ref.Validate(); err != nil {
		return Installed{}, fmt.Errorf("fetch: %w", err)
	}
	in, err := c.share(ctx, b.URL("")+" "+ref.String(), func() (Installed, error) { return c.fetch(ctx, b, ref) })
	if err != nil {
		return Installed{}, fmt.Errorf("fetch %s: %w", ref, classifyLocal(err))
	}
	return in, nil
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
