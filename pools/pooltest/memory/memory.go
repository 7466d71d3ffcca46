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

// Offer is one kind of machine.
type Offer struct {
	Market pools.Market
	Weight float64 // more than 0
}

// Config says what a group is. Min, Max and Target are in weight.
type Config struct {
	ID     string
	Min    int
	Max    int // 0 and pools.Unlimited: no upper bound
	Target int // with which it starts
	// Offers are taken in turn; none is the same as one of weight 1.
	Offers []Offer
	Join   time.Duration // from the order until an instance runs
	Leave  time.Duration // from its end until it is gone
	Lag    int           // reads of a handle that do not see the writes of others yet
	// Mends are the repairs in place that there are; nil: all. Boot is how long each
	// takes.
	Mends []pools.MendKind
	Boot  time.Duration
	// Fences are the ways to fence that there are; nil: all. Fence is how long it takes
	// until one holds.
	Fences []pools.Fence
	Fence  time.Duration
}

func (c Config) withDefaults() Config {
	if c.Max == 0 {
		c.Max = pools.Unlimited
	}
	if len(c.Offers) == 0 {
		c.Offers = []Offer{{Market: pools.Market{InstanceType: "memory.1", Zone: "zone-a"}, Weight: 1}}
	}
	if c.Mends == nil {
		c.Mends = []pools.MendKind{pools.MendStart, pools.MendReboot, pools.MendReset, pools.MendRebuild}
	}
	if c.Fences == nil {
		c.Fences = []pools.Fence{pools.FenceService, pools.FenceTraffic, pools.FenceNetwork, pools.FenceCompute}
	}
	return c
}

// Group is a handle on a group in memory: a [pools.Group], and what a test does
// to it from outside. What is done from outside counts as a write of others.
type Group struct {
	cloud *cloud

	mu      sync.Mutex
	shown   sight // what the last read gave
	version int   // of shown
	behind  int   // reads since there is something newer
}

// sight is what a read gives.
type sight struct {
	group  pools.GroupSnapshot
	health []pools.Inspection
}

var (
	_ pools.Group    = (*Group)(nil)
	_ pools.Mender   = (*Group)(nil)
	_ pools.Isolator = (*Group)(nil)
)

// New returns a group with its instances ordered at that time.
func New(config Config, now time.Time) *Group {
	c := &cloud{
		config: config.withDefaults(),
		now:    now,
		target: config.Target,
		owned:  make(map[string]bool),
		refuse: make(map[Operation]error),
		drop:   make(map[Operation]int),
		stock:  math.Inf(1),
		quota:  math.Inf(1),
		heals:  true,

		repairs: make(map[string]*repair),
	}
	c.launchLocked()
	return (&Group{cloud: c}).Other()
}

// Other returns another handle on the same group, as another process has one.
func (g *Group) Other() *Group {
	shown, version := g.cloud.read()
	return &Group{cloud: g.cloud, shown: shown, version: version}
}

// ID implements [pools.Group].
func (g *Group) ID() string { return g.cloud.config.ID }

// Snapshot implements [pools.Group]. Writes of others are not seen by as many
// reads as Config.Lag.
func (g *Group) Snapshot(ctx context.Context) (pools.GroupSnapshot, error) {
	seen, err := g.look(ctx)
	return seen.group, err
}

// look reads the group, as far as this handle sees it.
func (g *Group) look(ctx context.Context) (sight, error) {
	if err := g.cloud.admit(ctx); err != nil {
		return sight{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now, version := g.cloud.read()
	if version != g.version && g.behind < g.cloud.config.Lag {
		g.behind++
		return g.shown.clone(), nil
	}
	g.shown, g.version, g.behind = now, version, 0
	return now.clone(), nil
}

// SetTarget implements [pools.Group]: pools.ErrShort for more than Stock has,
// pools.ErrRefused while the group is Busy.
func (g *Group) SetTarget(ctx context.Context, target int) error {
	err := g.write(ctx, &Write{Op: SetTarget, Target: target})
	if err != nil {
		return fmt.Errorf("set target of group %s to %d: %w", g.ID(), target, err)
	}
	return nil
}

// Terminate implements [pools.Group]. The target is not lowered below the
// group's minimum, so what ends there is replaced. If one of the instances is
// protected, or the group Busy, it is pools.ErrRefused and nothing is ended.
func (g *Group) Terminate(ctx context.Context, ids []string) error {
	err := g.write(ctx, &Write{Op: Terminate, IDs: slices.Clone(ids)})
	if err != nil {
		return fmt.Errorf("terminate instances of group %s: %w", g.ID(), err)
	}
	return nil
}

// write makes a change that this handle sees from now on.
func (g *Group) write(ctx context.Context, w *Write) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.cloud.write(ctx, w); err != nil {
		return err
	}
	g.shown, g.version = g.cloud.read()
	g.behind = 0
	return nil
}
