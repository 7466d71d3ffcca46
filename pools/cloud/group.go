package cloud

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Launch is the launch of one instance.
type Launch struct {
	ID     string        // never used again
	Weight float64       // 0: that of the offer
	After  time.Duration // from the target to the launch
	Join   time.Duration // from launch to running
	Leave  time.Duration // from termination to disappearance; 0: that of the group
}

// Offer is one kind of machine.
type Offer struct {
	Market pools.Market
	Weight float64 // more than 0
}

// Config is the configuration of a group. Min, Max and Target are in weight.
type Config struct {
	ID     string
	Min    int
	Max    int // 0 and api.Unbounded: no upper bound.
	Target int // the initial target.
	// Offers are launched in turn. Default: one offer of weight 1.
	Offers []Offer
	Join   time.Duration // from launch to running.
	// Launch returns what the launch with that number, from 1, brings. nil: the id is that of the group and the number,
	// and all have Join.
	Launch func(number int) Launch
	Leave  time.Duration // from termination to disappearance.
	// SurplusFirst lets a termination end weight beyond the target first, as a Spot Fleet does: only the rest lowers the target.
	SurplusFirst bool
	Lag          int // number of reads of a handle that do not show the latest writes of others.
	// LagFor bounds the age of what such a read shows. 0: no bound.
	LagFor time.Duration
	// RepairKinds are the supported kinds of repair in place. nil: all. Boot is how long each takes.
	RepairKinds []api.RepairKind
	Boot        time.Duration
	// Fences are the supported fences. nil: all. Fence is how long each takes.
	Fences []pools.Fence
	Fence  time.Duration
	// Ended is called once for each instance that ends: a termination was accepted, or the provider took it. It may be
	// called concurrently, and must not call the group. It may be nil.
	Ended func(i pools.Instance, at time.Time, byProvider bool)
	// Admit returns the error with which a write fails without a change, or nil. It may be called concurrently, and must
	// not call the group. nil: no write fails by it.
	Admit func(w *Write) error
	// Shared lets snapshots share their instances while nothing changes: readers must not change them. The group then reports no
	// health. NoLog keeps no log.
	Shared, NoLog bool
}

func (c Config) withDefaults() Config {
	if c.Max == 0 {
		c.Max = api.Unbounded
	}
	if len(c.Offers) == 0 {
		c.Offers = []Offer{{Market: pools.Market{InstanceType: "memory.1", Zone: "zone-a"}, Weight: 1}}
	}
	if c.RepairKinds == nil {
		c.RepairKinds = []api.RepairKind{api.RepairStart, api.RepairReboot, api.RepairReset, api.RepairRebuild}
	}
	if c.Fences == nil {
		c.Fences = []pools.Fence{pools.FenceService, pools.FenceTraffic, pools.FenceNetwork, pools.FenceCompute}
	}
	return c
}

// Group is a handle on a group in memory. It implements [pools.Group], and has methods for changes
// from outside. These count as writes of others.
type Group struct {
	cloud *cloud

	mu       sync.Mutex
	lastRead reading // the latest read
	version  int     // of shown
	behind   int     // reads since a newer version exists
}

// reading is the result of a read.
type reading struct {
	at     time.Time
	group  pools.GroupSnapshot
	health []pools.Inspection

	version int
	shared  bool // several readings have the instances
}

var (
	_ pools.Group    = (*Group)(nil)
	_ pools.Repairer = (*Group)(nil)
	_ pools.Isolator = (*Group)(nil)
)

// New returns a group whose instances are launched at now.
func New(config Config, now time.Time) *Group {
	c := &cloud{
		config:     config.withDefaults(),
		now:        now,
		target:     config.Target,
		refuse:     make(map[Operation]error),
		drop:       make(map[Operation]int),
		stock:      math.Inf(1),
		quota:      math.Inf(1),
		ownsRepair: true,

		named:   make(map[string]int),
		repairs: make(map[string]*repair),
		calm:    calm{version: -1},
	}
	c.launchLocked()
	return (&Group{cloud: c}).Other()
}

// Other returns another handle on the same group, as for another process.
func (g *Group) Other() *Group {
	lastRead, version := g.cloud.read()
	return &Group{cloud: g.cloud, lastRead: lastRead, version: version}
}

// ID implements [pools.Group].
func (g *Group) ID() string { return g.cloud.config.ID }

// Snapshot implements [pools.Group]. The first Config.Lag reads do not show a write of others, within Config.LagFor.
func (g *Group) Snapshot(ctx context.Context) (pools.GroupSnapshot, error) {
	seen, err := g.look(ctx)
	return seen.group, err
}

// look reads the group with the lag of this handle.
func (g *Group) look(ctx context.Context) (reading, error) {
	if err := g.cloud.admit(ctx); err != nil {
		return reading{}, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now, version := g.cloud.read()
	c := g.cloud.config
	if version != g.version && g.behind < c.Lag && (c.LagFor == 0 || now.at.Sub(g.lastRead.at) < c.LagFor) {
		g.behind++
		return g.lastRead.clone(), nil
	}
	g.lastRead, g.version, g.behind = now, version, 0
	return now.clone(), nil
}

// SetTarget implements [pools.Group]. Beyond Stock the error is pools.ErrShort. While the group is
// Busy it is pools.ErrRefused.
func (g *Group) SetTarget(ctx context.Context, target int) error {
	err := g.write(ctx, &Write{Op: SetTarget, Target: target})
	if err != nil {
		return fmt.Errorf("set target of group %s to %d: %w", g.ID(), target, err)
	}
	return nil
}

// Terminate implements [pools.Group]. The target is not lowered below the group's minimum, so
// instances below it are replaced. If one of the instances is protected, or the group is Busy, the
// error is pools.ErrRefused and nothing is terminated.
func (g *Group) Terminate(ctx context.Context, ids []string) error {
	err := g.write(ctx, &Write{Op: Terminate, IDs: slices.Clone(ids)})
	if err != nil {
		return fmt.Errorf("terminate instances of group %s: %w", g.ID(), err)
	}
	return nil
}

// write makes a change that this handle shows at once.
func (g *Group) write(ctx context.Context, w *Write) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.cloud.write(ctx, w); err != nil {
		return err
	}
	if g.cloud.config.Lag > 0 { // otherwise each read is a new one
		g.lastRead, g.version = g.cloud.read()
		g.behind = 0
	}
	return nil
}
