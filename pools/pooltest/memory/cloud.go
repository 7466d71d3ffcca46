package memory

import (
	"context"
	"fmt"
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
	Mend      Operation = "mend"
	Isolate   Operation = "isolate"
	Heal      Operation = "heal" // what a Provider's Healer writes
)

// cloud is the group itself, behind all of its handles.
type cloud struct {
	config Config // never changes

	mu        sync.Mutex
	now       time.Time
	version   int // counts changes
	target    int
	stale     bool
	stock     float64   // weight that can exist at most
	quota     float64   // the same, but more can be asked for
	short     string    // why the last launch gave less than what was missing
	shortAt   time.Time // when that was
	busy      string
	launched  int // names the instances
	instances []instance
	owned     map[string]bool // all that ever were
	refuse    map[Operation]error
	drop      map[Operation]int // answers to lose
	log       []Write
	heals     bool               // what has stopped is replaced
	stalled   bool               // no fence holds
	repairs   map[string]*repair // by attempt
}

type instance struct {
	pools.Instance
	ended   time.Time // set when terminating
	taken   time.Time // when the provider takes it by itself, zero if it does not
	stopped bool
	unfit   bool // told to be, so that it is replaced
	broken  bool // repairs in place are in vain
	boots   int
	health  pools.Inspection // what is said of it beside its state
	fenced  map[pools.Fence]time.Time
}

// live reports whether the instance is not on its way out.
func (i *instance) live() bool { return i.State != pools.InstanceTerminating }

// Advance lets time pass: instances come up, repairs come to their end, those whose
// time has come are taken, as are stopped and unfit ones where the provider heals, those
// that end are gone, and what is missing to the target is ordered.
func (g *Group) Advance(now time.Time) {
	g.outside(func(c *cloud) {
		c.now = now
		c.repairLocked()
		for i := range c.instances {
			in := &c.instances[i]
			taken := !in.taken.IsZero() && !now.Before(in.taken)
			if in.live() && (taken || c.heals && (in.stopped && !c.restartingLocked(in.ID) || in.unfit)) {
				in.State, in.ended = pools.InstanceTerminating, now
			}
		}
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

// Interrupt has the provider end an instance by itself at that time; the target
// stays, so it is replaced. It reports whether there is one.
func (g *Group) Interrupt(id string, at time.Time) (found bool) {
	g.outside(func(c *cloud) {
		if i := c.findLocked(id); i != nil {
			i.taken, found = at, true
		}
	})
	return found
}

// Stock sets the weight that there is to be had at most: no instance is launched
// beyond it, and raising the target beyond it fails with pools.ErrShort.
func (g *Group) Stock(weight float64) { g.outside(func(c *cloud) { c.stock = weight }) }

// Quota sets the weight that the provider gives us at most. A target beyond it is
// taken, but no instance is launched; the snapshot says Short then.
func (g *Group) Quota(weight float64) { g.outside(func(c *cloud) { c.quota = weight }) }

// Busy has somebody else change the group from now on, as why says: all writes
// are refused with pools.ErrRefused. An empty why ends that.
func (g *Group) Busy(why string) { g.outside(func(c *cloud) { c.busy = why }) }

// Refuse has an operation fail with err from now on, nil ends that. Nothing is
// changed by an operation that fails.
func (g *Group) Refuse(op Operation, err error) {
	g.outside(func(c *cloud) { c.refuse[op] = err })
}

// Drop has the answers to the next n writes of that kind get lost: they take
// effect, and fail with context.DeadlineExceeded.
func (g *Group) Drop(op Operation, n int) { g.outside(func(c *cloud) { c.drop[op] = n }) }

func (g *Group) outside(change func(*cloud)) {
	g.cloud.mu.Lock()
	defer g.cloud.mu.Unlock()
	change(g.cloud)
	g.cloud.version++
}

// admit returns the error that reading is to fail with, if any.
func (c *cloud) admit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refuse[Snapshot]
}

// read returns the group as it is, and which version that is.
func (c *cloud) read() (sight, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := pools.GroupSnapshot{
		ID: c.config.ID, Target: c.target, Min: c.config.Min, Max: c.config.Max, Stale: c.stale,
		Kind: "memory", Short: c.short, ShortAt: c.shortAt, Busy: c.busy,
		Instances: make([]pools.Instance, 0, len(c.instances)),
	}
	var health []pools.Inspection
	for i := range c.instances {
		s.Instances = append(s.Instances, c.instances[i].Instance)
		health = append(health, c.instances[i].inspection())
	}
	return sight{s, health}, c.version
}

func (s sight) clone() sight {
	s.group.Instances, s.health = slices.Clone(s.group.Instances), slices.Clone(s.health)
	return s
}

func (c *cloud) findLocked(id string) *instance {
	for i := range c.instances {
		if c.instances[i].ID == id {
			return &c.instances[i]
		}
	}
	return nil
}

// launchLocked orders instances until the target is reached, or what there is to
// be had, and has those running whose time has come.
func (c *cloud) launchLocked() {
	defer c.settleLocked()
	c.short, c.shortAt = "", time.Time{}
	if c.stale {
		return
	}
	exist := c.weightLocked()
	for exist < float64(c.target) {
		offer := c.config.Offers[c.launched%len(c.config.Offers)]
		exist += offer.Weight
		if exist > min(c.stock, c.quota) {
			c.short, c.shortAt = c.limitLocked(), c.now
			return
		}
		c.launched++
		id := fmt.Sprintf("%s-%d", c.config.ID, c.launched)
		c.owned[id] = true
		c.instances = append(c.instances, instance{Instance: pools.Instance{
			ID: id, Group: c.config.ID, Market: offer.Market, Weight: offer.Weight,
			State: pools.InstancePending, Launched: c.now,
		}, boots: 1})
	}
}

// weightLocked returns the weight that exists and stays.
func (c *cloud) weightLocked() float64 {
	var sum float64
	for _, i := range c.instances {
		if i.State != pools.InstanceTerminating {
			sum += i.Weight
		}
	}
	return sum
}

// limitLocked says what keeps instances from being launched.
func (c *cloud) limitLocked() string {
	if c.stock <= c.quota {
		return fmt.Sprintf("no capacity: there is %v", c.stock)
	}
	return fmt.Sprintf("the quota is %v", c.quota)
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
