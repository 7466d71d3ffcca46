package cloud

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Write is one received write, and its result.
type Write struct {
	At            time.Time // by the group's clock
	Op            Operation
	Target        int                 // of SetTarget
	IDs           []string            // of Terminate, Isolate or ResumeRepair
	RepairInPlace pools.InPlaceRepair // of RepairInPlace
	Way           pools.Fence         // of Isolate
	// Done is the response: the repair is done, or the fence is confirmed. Began means that this
	// write began the repair.
	Done, Began bool
	// Before and After are the group's target. Ended are the instances that this write terminated,
	// without those that were already terminating.
	Before, After int
	Ended         []string
	// Err is the error. With it nothing was changed. Lost means that the write took effect, but its
	// response was lost.
	Err  error
	Lost bool
}

// Log returns all received writes of all handles, in order.
func (g *Group) Log() []Write {
	g.cloud.mu.Lock()
	defer g.cloud.mu.Unlock()
	return slices.Clone(g.cloud.log)
}

// write carries out a write, completely or not at all, and logs it.
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
	if !c.config.NoLog {
		c.log = append(c.log, *w)
	}
	if w.Lost {
		return fmt.Errorf("the response was lost: %w", context.DeadlineExceeded)
	}
	return w.Err
}

func (c *cloud) tryLocked(w *Write) error {
	if c.config.Admit != nil {
		if err := c.config.Admit(w); err != nil {
			return err
		}
	}
	switch {
	case c.refuse[w.Op] != nil:
		return c.refuse[w.Op]
	case c.busy != "":
		return fmt.Errorf("%w: %s", pools.ErrRefused, c.busy)
	case w.Op == Terminate:
		return c.terminateLocked(w)
	case w.Op == RepairInPlace:
		return c.inPlaceLocked(w)
	case w.Op == Isolate:
		return c.isolateLocked(w)
	case w.Op == ResumeRepair:
		return c.ownerLocked(w)
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
		if !c.ownsLocked(id) {
			return fmt.Errorf("%s: %w", id, pools.ErrNotOwned)
		}
		if i := c.findLocked(id); i != nil && i.Protected && i.State != api.InstanceTerminating {
			return fmt.Errorf("%w: %s is protected", pools.ErrRefused, id)
		}
	}
	for _, id := range w.IDs {
		if i := c.findLocked(id); i != nil && i.State != api.InstanceTerminating {
			left := float64(c.target) - i.Weight
			if c.config.SurplusFirst {
				left = max(left, min(float64(c.target), c.begunLocked()-i.Weight))
			}
			c.endLocked(i, false)
			w.Ended = append(w.Ended, id)
			c.target = max(c.config.Min, int(math.Floor(left)))
		}
	}
	return nil
}
