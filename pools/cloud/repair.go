package cloud

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// repair is a repair in place.
type repair struct {
	pools.InPlaceRepair
	began time.Time
	ended bool
	why   string // why it failed; empty: it has not
}

// Stop stops an instance. If the provider owns the repair, the next Advance replaces it. Stop
// reports whether the instance exists.
func (g *Group) Stop(id string) (found bool) {
	g.outside(func(c *cloud) {
		if i := c.findLocked(id); i != nil && i.live() {
			i.stopped, found = true, true
		}
	})
	return found
}

// Break lets the repairs in place of an instance fail while on. It reports whether the instance
// exists.
func (g *Group) Break(id string, on bool) (found bool) {
	g.outside(func(c *cloud) {
		if i := c.findLocked(id); i != nil {
			i.broken, found = on, true
		}
	})
	return found
}

// Boot returns the boot id of an instance, which changes with each restart. It is empty while the
// instance does not run.
func (g *Group) Boot(id string) string {
	c := g.cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.findLocked(id)
	if i == nil || i.State != api.InstanceRunning || i.stopped {
		return ""
	}
	return fmt.Sprintf("%s-boot-%d", id, i.boots)
}

// RepairKinds implements [pools.Repairer].
func (g *Group) RepairKinds() []api.RepairKind { return slices.Clone(g.cloud.config.RepairKinds) }

// RepairInPlace implements [pools.Repairer]. A repair takes Config.Boot.
func (g *Group) RepairInPlace(ctx context.Context, m pools.InPlaceRepair) (done bool, err error) {
	m.Resumed = false // an attempt is the same after a restart
	w := Write{Op: RepairInPlace, RepairInPlace: m}
	if err := g.write(ctx, &w); err != nil {
		return false, fmt.Errorf("%s instance %s of group %s: %w", m.Kind, m.Instance, g.ID(), err)
	}
	return w.Done, nil
}

func (c *cloud) inPlaceLocked(w *Write) error {
	m := w.RepairInPlace
	r := c.repairs[m.Attempt]
	if r == nil {
		if err := c.repairableLocked(m); err != nil {
			return err
		}
		r = &repair{InPlaceRepair: m, began: c.now}
		c.repairs[m.Attempt], w.Began = r, true
		if i := c.findLocked(m.Instance); m.Kind != api.RepairStart || i.stopped {
			i.stopped = true
		} else {
			r.ended = true // it already runs
		}
		c.repairLocked()
	}
	if r.InPlaceRepair != m {
		return fmt.Errorf("%w: attempt %s is %s of %s", pools.ErrRefused, m.Attempt, r.Kind, r.Instance)
	}
	if r.why != "" {
		return fmt.Errorf("%w: %s", pools.ErrRepairFailed, r.why)
	}
	w.Done = r.ended
	return nil
}

// repairableLocked returns why a repair cannot begin.
func (c *cloud) repairableLocked(m pools.InPlaceRepair) error {
	i := c.findLocked(m.Instance)
	switch {
	case !c.ownsLocked(m.Instance):
		return fmt.Errorf("%s: %w", m.Instance, pools.ErrNotOwned)
	case i == nil || !i.live():
		return fmt.Errorf("%w: the instance has ended", pools.ErrRepairFailed)
	case !slices.Contains(c.config.RepairKinds, m.Kind):
		return fmt.Errorf("%w: %s is not supported", pools.ErrRepairFailed, m.Kind)
	case i.stopped && (m.Kind == api.RepairReboot || m.Kind == api.RepairRebuild):
		return fmt.Errorf("%w: the instance does not run", pools.ErrRepairFailed)
	}
	return nil
}

// repairLocked ends the repairs whose time has come.
func (c *cloud) repairLocked() {
	for _, r := range c.repairs {
		if r.ended || r.why != "" {
			continue
		}
		i := c.findLocked(r.Instance)
		switch {
		case i == nil || !i.live():
			r.why = "the instance has ended"
		case c.now.Sub(r.began) < c.config.Boot:
		case i.broken:
			r.why = "it does not come up"
		default:
			i.stopped, r.ended = false, true
			i.boots++
		}
	}
}

// restartingLocked reports whether a repair of the instance is in progress.
func (c *cloud) restartingLocked(id string) bool {
	for _, r := range c.repairs {
		if r.Instance == id && !r.ended && r.why == "" {
			return true
		}
	}
	return false
}

// Fences implements [pools.Isolator].
func (g *Group) Fences() []pools.Fence { return slices.Clone(g.cloud.config.Fences) }

// Isolate implements [pools.Isolator]. A fence takes effect after Config.Fence.
func (g *Group) Isolate(ctx context.Context, id string, way pools.Fence) (confirmed bool, err error) {
	w := Write{Op: Isolate, IDs: []string{id}, Way: way}
	if err := g.write(ctx, &w); err != nil {
		return false, fmt.Errorf("fence instance %s of group %s by %s: %w", id, g.ID(), way, err)
	}
	return w.Done, nil
}

func (c *cloud) isolateLocked(w *Write) error {
	id := w.IDs[0]
	i := c.findLocked(id)
	switch {
	case !c.ownsLocked(id):
		return fmt.Errorf("%s: %w", id, pools.ErrNotOwned)
	case !slices.Contains(c.config.Fences, w.Way):
		return fmt.Errorf("%w: fence %s is not supported", pools.ErrRefused, w.Way)
	case i == nil:
		w.Done = true
		return nil
	}
	if i.fenced == nil {
		i.fenced = map[pools.Fence]time.Time{}
	}
	asked, before := i.fenced[w.Way]
	if !before {
		asked, i.fenced[w.Way] = c.now, c.now
	}
	w.Done = !c.stalled && c.now.Sub(asked) >= c.config.Fence
	if w.Done && w.Way == pools.FenceCompute {
		i.stopped = true
	}
	return nil
}

// Fenced reports whether a fence of the instance is in effect, or the instance is gone.
func (g *Group) Fenced(id string, way pools.Fence) bool {
	c := g.cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	i := c.findLocked(id)
	if i == nil {
		return true
	}
	asked, fenced := i.fenced[way]
	return fenced && !c.stalled && c.now.Sub(asked) >= c.config.Fence
}

// Stall accepts fences without effect while on.
func (g *Group) Stall(on bool) { g.outside(func(c *cloud) { c.stalled = on }) }
