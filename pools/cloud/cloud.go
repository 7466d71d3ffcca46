package cloud

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Operation is a request to a group.
type Operation string

const (
	Snapshot      Operation = "snapshot"
	SetTarget     Operation = "set target"
	Terminate     Operation = "terminate"
	RepairInPlace Operation = "repair in place"
	Isolate       Operation = "isolate"
	ResumeRepair  Operation = "heal" // the writes of a Provider as pools.RepairOwner
)

// cloud is the state of a group, shared by all of its handles.
type cloud struct {
	config Config // never changes

	mu         sync.Mutex
	now        time.Time
	version    int // counts changes
	target     int
	stale      bool
	stock      float64   // maximum existing weight
	quota      float64   // the same, but a higher target is accepted
	short      string    // why the latest launch was incomplete
	shortAt    time.Time // time of that launch
	busy       string
	image      string // of the instances that are launched
	template   string
	launched   int            // number of launches, for the ids of instances
	begun      int            // number of launches that have begun
	ordered    []instance     // launches that have not
	named      map[string]int // with Config.Launch: the numbers of all instances by id
	instances  []instance     // in order of launch
	shared     *reading       // with Config.Shared: the latest reading, until a change
	calm       calm           // of a version
	refuse     map[Operation]error
	drop       map[Operation]int // responses to lose
	log        []Write
	ownsRepair bool               // stopped instances are replaced
	stalled    bool               // no fence takes effect
	repairs    map[string]*repair // by attempt
}

type instance struct {
	pools.Instance
	number  int           // of the launch, from 1
	joins   time.Time     // when it runs
	ended   time.Time     // time of termination
	leave   time.Duration // from then to its disappearance
	taken   time.Time     // when the provider ends it by itself; zero: never
	stopped bool
	unfit   bool // marked as unhealthy, so that it is replaced
	broken  bool // repairs in place fail
	boots   int
	health  pools.Inspection // reported health, without the state
	fenced  map[pools.Fence]time.Time
}

// live reports whether the instance is not terminating.
func (i *instance) live() bool { return i.State != api.InstanceTerminating }

// Advance sets the time. Instances start, repairs end, and instances whose time has come are
// interrupted. If the provider owns the repair, stopped and unfit instances are terminated.
// Terminated instances disappear, and missing ones are launched.
func (g *Group) Advance(now time.Time) {
	c := g.cloud
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
	if c.quietLocked() {
		return
	}
	c.version++
	c.repairLocked()
	for i := range c.instances {
		in := &c.instances[i]
		if in.live() && (c.takenLocked(in) || c.ownsRepair && (in.stopped && !c.restartingLocked(in.ID) || in.unfit)) {
			c.endLocked(in, true)
		}
	}
	c.instances = slices.DeleteFunc(c.instances, func(i instance) bool { return !i.live() && c.now.Sub(i.ended) >= i.leave })
	c.launchLocked()
}

// calm is what a group does by itself until its next change from outside.
type calm struct {
	version int
	busy    bool      // each Advance may change it
	next    time.Time // when it changes next; zero: never
}

// quietLocked reports whether nothing changes now by itself.
func (c *cloud) quietLocked() bool {
	calm := c.calmLocked()
	return !calm.busy && (calm.next.IsZero() || c.now.Before(calm.next))
}

// calmLocked computes the calm of this version once.
func (c *cloud) calmLocked() calm {
	if c.calm.version == c.version {
		return c.calm
	}
	now := calm{version: c.version, busy: len(c.repairs) > 0 || !c.stale && c.weightLocked() < float64(c.target) || c.short != ""}
	earlier := func(t time.Time) {
		if now.next.IsZero() || t.Before(now.next) {
			now.next = t
		}
	}
	for i := range c.ordered {
		earlier(c.ordered[i].Launched)
	}
	for i := range c.instances {
		in := &c.instances[i]
		now.busy = now.busy || in.stopped || in.unfit
		if !in.live() {
			earlier(in.ended.Add(in.leave))
			continue
		}
		if in.State == api.InstancePending {
			earlier(in.joins)
		}
		if !in.taken.IsZero() {
			earlier(in.taken)
		}
	}
	c.calm = now
	return now
}

// Next returns when the group changes next by itself: an instance joins, is taken or disappears. It is zero if nothing does.
func (g *Group) Next() time.Time {
	g.cloud.mu.Lock()
	defer g.cloud.mu.Unlock()
	return g.cloud.calmLocked().next
}

// Version counts the changes of the group.
func (g *Group) Version() int {
	g.cloud.mu.Lock()
	defer g.cloud.mu.Unlock()
	return g.cloud.version
}

func (c *cloud) takenLocked(in *instance) bool {
	return in.live() && !in.taken.IsZero() && !c.now.Before(in.taken)
}

// endLocked begins the end of an instance.
func (c *cloud) endLocked(in *instance, byProvider bool) {
	in.State, in.ended = api.InstanceTerminating, c.now
	if c.config.Ended != nil {
		c.config.Ended(in.Instance, c.now, byProvider)
	}
}

// Lose removes an instance at once. The next Advance replaces it. Lose reports whether the instance
// existed.
func (g *Group) Lose(id string) (found bool) {
	g.outside(func(c *cloud) {
		i := c.findLocked(id)
		if found = i != nil; !found {
			return
		}
		if i.live() {
			c.endLocked(i, true)
		}
		c.instances = slices.DeleteFunc(c.instances, func(i instance) bool { return i.ID == id })
	})
	return found
}

// Protect sets or removes the protection of an instance. It reports whether the instance exists.
func (g *Group) Protect(id string, on bool) (found bool) {
	g.outside(func(c *cloud) {
		if i := c.findLocked(id); i != nil {
			i.Protected, found = on, true
		}
	})
	return found
}

// MarkStale marks the group as stale: its instances stay, and none is launched.
func (g *Group) MarkStale() {
	g.outside(func(c *cloud) {
		c.stale = true
		for i := range c.instances {
			c.instances[i].Stale = true
		}
	})
}

// Interrupt lets the provider end an instance by itself at that time. The target stays, so the
// instance is replaced. Interrupt reports whether the instance exists.
func (g *Group) Interrupt(id string, at time.Time) (found bool) {
	g.outside(func(c *cloud) {
		if i := c.findLocked(id); i != nil {
			i.taken, found = at, true
		}
	})
	return found
}

// Stock sets the maximum existing weight. No instance is launched beyond it, and a target beyond it
// fails with pools.ErrShort.
func (g *Group) Stock(weight float64) { g.outside(func(c *cloud) { c.stock = weight }) }

// Quota sets the maximum existing weight. A target beyond it is accepted, but no instance is
// launched, and snapshots have Short set.
func (g *Group) Quota(weight float64) { g.outside(func(c *cloud) { c.quota = weight }) }

// Busy lets another party change the group: all writes fail with pools.ErrRefused. An empty why
// ends that.
func (g *Group) Busy(why string) { g.outside(func(c *cloud) { c.busy = why }) }

// Launches sets the image and the template of the instances that are launched from now on.
func (g *Group) Launches(image, template string) {
	g.outside(func(c *cloud) { c.image, c.template = image, template })
}

// Refuse lets an operation fail with err, without a change. nil ends that.
func (g *Group) Refuse(op Operation, err error) {
	g.outside(func(c *cloud) { c.refuse[op] = err })
}

// Drop loses the responses to the next n writes of that kind: they take effect, and fail with
// context.DeadlineExceeded.
func (g *Group) Drop(op Operation, n int) { g.outside(func(c *cloud) { c.drop[op] = n }) }

func (g *Group) outside(change func(*cloud)) {
	g.cloud.mu.Lock()
	defer g.cloud.mu.Unlock()
	change(g.cloud)
	g.cloud.version++
}

// admit returns the error with which a read fails, or nil.
func (c *cloud) admit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refuse[Snapshot]
}

// read returns the current state of the group and its version.
func (c *cloud) read() (reading, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shared != nil && c.shared.version == c.version {
		c.shared.at = c.now
		return *c.shared, c.version
	}
	s := pools.GroupSnapshot{
		ID: c.config.ID, Target: c.target, Min: c.config.Min, Max: c.config.Max, Stale: c.stale,
		Kind: "memory", Short: c.short, ShortAt: c.shortAt, Busy: c.busy,
		Instances: make([]pools.Instance, 0, len(c.instances)),
	}
	for _, o := range c.config.Offers {
		s.Markets = append(s.Markets, api.MarketOffer{InstanceType: o.Market.InstanceType, Zone: o.Market.Zone, Spot: o.Market.Spot, Weight: o.Weight})
	}
	var health []pools.Inspection
	for i := range c.instances {
		s.Instances = append(s.Instances, c.instances[i].Instance)
		s.Instances[i].Current = c.template
		if !c.config.Shared {
			health = append(health, c.instances[i].inspection())
		}
	}
	r := reading{c.now, s, health, c.version, c.config.Shared}
	if c.config.Shared {
		c.shared = &r
	}
	return r, c.version
}

func (s reading) clone() reading {
	if s.shared {
		return s
	}
	s.group.Instances, s.health = slices.Clone(s.group.Instances), slices.Clone(s.health)
	return s
}

// numberLocked returns the number of an instance that the group has or had, and 0 for another one.
func (c *cloud) numberLocked(id string) int {
	if c.config.Launch != nil {
		return c.named[id]
	}
	text, ours := strings.CutPrefix(id, c.config.ID+"-")
	number, err := strconv.Atoi(text)
	if !ours || err != nil || text[0] == '0' || text[0] == '+' || number < 1 || number > c.launched {
		return 0
	}
	return number
}

func (c *cloud) ownsLocked(id string) bool { return c.numberLocked(id) > 0 }

func (c *cloud) findLocked(id string) *instance {
	number := c.numberLocked(id)
	i, found := slices.BinarySearchFunc(c.instances, number, func(i instance, n int) int { return cmp.Compare(i.number, n) })
	if !found {
		return nil
	}
	return &c.instances[i]
}

// launchLocked launches instances until the target or the maximum weight is reached. Then it starts
// instances whose time has come.
func (c *cloud) launchLocked() {
	defer c.settleLocked()
	defer c.beginLocked()
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
		next := c.nextLocked()
		next.Weight = cmp.Or(next.Weight, offer.Weight)
		exist += next.Weight - offer.Weight
		at := c.now.Add(next.After)
		c.ordered = append(c.ordered, instance{joins: at.Add(next.Join), leave: cmp.Or(next.Leave, c.config.Leave), Instance: pools.Instance{
			ID: next.ID, Group: c.config.ID, Market: offer.Market, Weight: next.Weight,
			State: api.InstancePending, Launched: at, Image: c.image, Template: c.template,
		}, boots: 1})
	}
}

// beginLocked begins the launches whose time has come.
func (c *cloud) beginLocked() {
	c.ordered = slices.DeleteFunc(c.ordered, func(i instance) bool {
		if i.Launched.After(c.now) {
			return false
		}
		c.begun++
		i.number = c.begun
		if c.config.Launch != nil {
			c.named[i.ID] = i.number
		}
		c.instances = append(c.instances, i)
		return true
	})
}

// nextLocked returns the launch that comes now.
func (c *cloud) nextLocked() Launch {
	if c.config.Launch == nil {
		return Launch{ID: fmt.Sprintf("%s-%d", c.config.ID, c.launched), Join: c.config.Join}
	}
	return c.config.Launch(c.launched)
}

// weightLocked returns the weight of the instances that are not terminating.
func (c *cloud) weightLocked() float64 {
	sum := c.begunLocked()
	for _, i := range c.ordered {
		sum += i.Weight
	}
	return sum
}

// begunLocked is weightLocked without the launches that have not begun.
func (c *cloud) begunLocked() float64 {
	var sum float64
	for _, i := range c.instances {
		if i.State != api.InstanceTerminating {
			sum += i.Weight
		}
	}
	return sum
}

// limitLocked returns why no more instances are launched.
func (c *cloud) limitLocked() string {
	if c.stock <= c.quota {
		return fmt.Sprintf("no capacity beyond %v", c.stock)
	}
	return fmt.Sprintf("the quota is %v", c.quota)
}

// settleLocked starts the instances whose time has come.
func (c *cloud) settleLocked() {
	for i := range c.instances {
		if in := &c.instances[i]; in.State == api.InstancePending && !c.now.Before(in.joins) {
			in.State = api.InstanceRunning
		}
	}
}
