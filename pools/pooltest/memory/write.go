package memory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// Write is one write that the provider was asked for, and what came of it.
type Write struct {
	At     time.Time // by the group's own time
	Op     Operation
	Target int           // that SetTarget asked for
	IDs    []string      // that Terminate, Isolate or Heal asked for
	Mend   pools.Mending // that Mend asked for
	Way    pools.Fence   // that Isolate asked for
	// Done is what was answered: the repair is through, the fence confirmed. Began says
	// that this write began the repair.
	Done, Began bool
	// Before and After are the group's target; Ended are the instances that this
	// write ended, so those are not in it that were on their way out already.
	Before, After int
	Ended         []string
	// Err is what it failed with, and then nothing was changed; Lost is that it took
	// effect, and the caller never heard of it.
	Err  error
	Lost bool
}

// Log returns all writes that reached the provider, through any handle, in order.
func (g *Group) Log() []Write {
	g.cloud.mu.Lock()
	defer g.cloud.mu.Unlock()
	return slices.Clone(g.cloud.log)
}

// write does what is asked for, whole or not at all, and logs it.
func (c *cloud) write(ctx context.Context, w *Write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w.At, w.Before = c.now, c.target
	w.Err = c.tryLocked(w)
	w.After = c.target
	if w.Err == nil {
		c.version++
		if w.Lost = c.drop[w.Op] > 0; w.Lost {
			c.drop[w.Op]--
		}
	}
	c.log = append(c.log, *w)
	if w.Lost {
		return fmt.Errorf("the answer was lost: %w", context.DeadlineExceeded)
	}
	return w.Err
}

func (c *cloud) tryLocked(w *Write) error {
	switch {
	case c.refuse[w.Op] != nil:
		return c.refuse[w.Op]
	case c.busy != "":
		return fmt.Errorf("%w: %s", pools.ErrRefused, c.busy)
	case w.Op == Terminate:
		return c.terminateLocked(w)
	case w.Op == Mend:
		return c.mendLocked(w)
	case w.Op == Isolate:
		return c.isolateLocked(w)
	case w.Op == Heal:
		return c.healLocked(w)
	}
	return c.setTargetLocked(w.Target)
}

func (c *cloud) setTargetLocked(target int) error {
	if target < c.config.Min || target > c.config.Max {
		return fmt.Errorf("%w: %d to %d", pools.ErrTargetBounds, c.config.Min, c.config.Max)
	}
	if target > c.target && float64(target) > c.stock {
		return fmt.Errorf("%w: it has %v", pools.ErrShort, c.stock)
	}
	c.target = target
	c.launchLocked()
	return nil
}

func (c *cloud) terminateLocked(w *Write) error {
	for _, id := range w.IDs {
		if !c.owned[id] {
			return fmt.Errorf("%s: %w", id, pools.ErrNotOwned)
		}
		if i := c.findLocked(id); i != nil && i.Protected && i.State != pools.InstanceTerminating {
			return fmt.Errorf("%w: %s is protected", pools.ErrRefused, id)
		}
	}
	for _, id := range w.IDs {
		if i := c.findLocked(id); i != nil && i.State != pools.InstanceTerminating {
			i.State, i.ended = pools.InstanceTerminating, c.now
			w.Ended = append(w.Ended, id)
			c.target = max(c.config.Min, int(math.Floor(float64(c.target)-i.Weight)))
		}
	}
	return nil
}
