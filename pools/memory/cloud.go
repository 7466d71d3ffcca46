package memory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// Operation names what a group is asked to do.
type Operation string

const (
	Snapshot  Operation = "snapshot"
	SetTarget Operation = "set target"
	Terminate Operation = "terminate"
)

// cloud is the group itself, behind all of its handles.
type cloud struct {
	config Config // never changes

	mu        sync.Mutex
	now       time.Time
	version   int // counts changes
	target    int
	stale     bool
	stock     float64 // weight that can exist at most
	launched  int     // names the instances
	instances []instance
	owned     map[string]bool // all that ever were
	refuse    map[Operation]error
}

type instance struct {
	pools.Instance
	ended time.Time // set when terminating
}

// Advance lets time pass: instances come up, those that end are gone, and what
// is missing to the target is ordered.
func (g *Group) Advance(now time.Time) {
	g.outside(func(c *cloud) {
		c.now = now
		c.instances = slices.DeleteFunc(c.instances, func(i instance) bool {
			return i.State == pools.InstanceTerminating && now.Sub(i.ended) >= c.config.Leave
		})
		c.launchLocked()
	})
}

// Lose makes an instance vanish at once; it is replaced with the next Advance.
// It reports whether there was one.
func (g *Group) Lose(id string) (found bool) {
	g.outside(func(c *cloud) {
		before := len(c.instances)
		c.instances = slices.DeleteFunc(c.instances, func(i instance) bool { return i.ID == id })
		found = len(c.instances) < before
	})
	return found
}

// Protect sets or lifts the protection of an instance. It reports whether there
// is one.
func (g *Group) Protect(id string, on bool) (found bool) {
	g.outside(func(c *cloud) {
		if i := c.findLocked(id); i != nil {
			i.Protected, found = on, true
		}
	})
	return found
}

// MarkStale has the group rolled away: its instances stay, none is launched.
func (g *Group) MarkStale() {
	g.outside(func(c *cloud) {
		c.stale = true
		for i := range c.instances {
			c.instances[i].Stale = true
		}
	})
}

// Stock sets the weight that can exist at most: no instance is launched beyond
// it, and raising the target beyond it fails with ErrShortage.
func (g *Group) Stock(weight float64) { g.outside(func(c *cloud) { c.stock = weight }) }

// Refuse has an operation fail with err from now on, nil ends that. Nothing is
// changed by an operation that fails.
func (g *Group) Refuse(op Operation, err error) {
	g.outside(func(c *cloud) { c.refuse[op] = err })
}

func (g *Group) outside(change func(*cloud)) {
	// The error is always that of the function below: nil.
	_ = g.cloud.change(func(c *cloud) error { change(c); return nil })
}

// change makes a change of the group, which none of its readers sees half done.
func (c *cloud) change(do func(*cloud) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := do(c)
	if err == nil {
		c.version++
	}
	return err
}

// admit returns the error that the operation is to fail with, if any.
func (c *cloud) admit(ctx context.Context, op Operation) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refuse[op]
}

// read returns the group as it is, and which version that is.
func (c *cloud) read() (pools.GroupSnapshot, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := pools.GroupSnapshot{
		ID: c.config.ID, Target: c.target, Min: c.config.Min, Max: c.config.Max, Stale: c.stale,
		Instances: make([]pools.Instance, 0, len(c.instances)),
	}
	for _, i := range c.instances {
		s.Instances = append(s.Instances, i.Instance)
	}
	return s, c.version
}

func clone(s pools.GroupSnapshot) pools.GroupSnapshot {
	s.Instances = slices.Clone(s.Instances)
	return s
}

func (c *cloud) setTargetLocked(target int) error {
	if target < c.config.Min || target > c.config.Max {
		return fmt.Errorf("%w: %d to %d", pools.ErrTargetBounds, c.config.Min, c.config.Max)
	}
	if target > c.target && float64(target) > c.stock {
		return fmt.Errorf("%w: it has %v", ErrShortage, c.stock)
	}
	c.target = target
	c.launchLocked()
	return nil
}

func (c *cloud) terminateLocked(ids []string) error {
	for _, id := range ids {
		if !c.owned[id] {
			return fmt.Errorf("%s: %w", id, pools.ErrNotOwned)
		}
		if i := c.findLocked(id); i != nil && i.Protected && i.State != pools.InstanceTerminating {
			return fmt.Errorf("%s: %w", id, ErrProtected)
		}
	}
	for _, id := range ids {
		if i := c.findLocked(id); i != nil && i.State != pools.InstanceTerminating {
			i.State, i.ended = pools.InstanceTerminating, c.now
			c.target = max(c.config.Min, int(math.Floor(float64(c.target)-i.Weight)))
		}
	}
	return nil
}

func (c *cloud) findLocked(id string) *instance {
	for i := range c.instances {
		if c.instances[i].ID == id {
			return &c.instances[i]
		}
	}
	return nil
}

// launchLocked orders instances until the target is reached, and has those
// running whose time has come.
func (c *cloud) launchLocked() {
	defer c.settleLocked()
	if c.stale {
		return
	}
	var exist float64
	for _, i := range c.instances {
		if i.State != pools.InstanceTerminating {
			exist += i.Weight
		}
	}
	for exist < float64(c.target) {
		offer := c.config.Offers[c.launched%len(c.config.Offers)]
		if exist+offer.Weight > c.stock {
			break
		}
		c.launched++
		exist += offer.Weight
		id := fmt.Sprintf("%s-%d", c.config.ID, c.launched)
		c.owned[id] = true
		c.instances = append(c.instances, instance{Instance: pools.Instance{
			ID: id, Group: c.config.ID, Market: offer.Market, Weight: offer.Weight,
			State: pools.InstancePending, Launched: c.now,
		}})
	}
}

// settleLocked has the instances running whose time has come.
func (c *cloud) settleLocked() {
	for i := range c.instances {
		in := &c.instances[i]
		if in.State == pools.InstancePending && c.now.Sub(in.Launched) >= c.config.Join {
			in.State = pools.InstanceRunning
		}
	}
}
