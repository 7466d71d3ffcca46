package awsfake

import (
	"container/heap"
	"fmt"
	"slices"
	"time"
)

const (
	// fade is how long EC2 lists a terminated instance.
	fade = time.Hour
	// notice is the time from an interruption warning to the end.
	notice = 2 * time.Minute
	// settleAfter is how long Auto Scaling takes to begin a requested change.
	settleAfter = time.Second
	// validateAfter is how long a new fleet request stays submitted.
	validateAfter = 5 * time.Second
	// defaultCooldown is the cooldown of every group.
	defaultCooldown = 5 * time.Minute
)

// cloud is AWS: its services, their resources, and a clock. The Server's mutex guards it. Each
// service has its own state, and reaches the others through cloud.
type cloud struct {
	config Config
	url    string // of the server
	clock
	world
	compute   *compute
	scaling   *scaling
	spot      *spot
	balancing *balancing
	queue     *queue
	watch     *watch
}

func newCloud(config Config) *cloud {
	c := &cloud{config: config, clock: clock{now: config.Start, serial: config.Serial}}
	c.compute = &compute{cloud: c, stock: map[Market]int{}, quota: map[Quota]int{}}
	c.watch = &watch{cloud: c, metrics: map[string]*stored{}}
	c.scaling, c.spot, c.balancing, c.queue = &scaling{c}, &spot{c}, &balancing{c}, &queue{cloud: c}
	return c
}

// clock has the time, the scheduled events, and the serial number of the latest name or event.
type clock struct {
	now    time.Time
	agenda agenda
	serial int
}

// name returns a unique id.
func (c *clock) name(prefix string) string {
	c.serial++
	return fmt.Sprintf("%s-%017x", prefix, c.serial)
}

func (c *clock) uuid() string {
	c.serial++
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(c.serial), c.serial)
}

// after schedules do for that much later.
func (c *clock) after(d time.Duration, do func()) {
	c.serial++
	heap.Push(&c.agenda, event{at: c.now.Add(d), serial: c.serial, do: do})
}

// advance sets the time, and runs all events that are due until then, in order.
func (c *clock) advance(to time.Time) {
	for len(c.agenda) > 0 && !c.agenda[0].at.After(to) {
		e := heap.Pop(&c.agenda).(event)
		c.now = e.at
		e.do()
	}
	c.now = to
}

// event is a scheduled function.
type event struct {
	at     time.Time
	serial int // order of events of the same time
	do     func()
}

// agenda is a heap of events. The next event is first.
type agenda []event

func (a agenda) Len() int      { return len(a) }
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a agenda) Less(i, j int) bool {
	if a[i].at.Equal(a[j].at) {
		return a[i].serial < a[j].serial
	}
	return a[i].at.Before(a[j].at)
}
func (a *agenda) Push(e any) { *a = append(*a, e.(event)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	e := (*a)[last]
	*a = (*a)[:last]
	return e
}

// world is the state that describing requests return. Lagging reads use a copy.
type world struct {
	instances []*instance // in order of launch
	groups    []*group
	fleets    []*fleet
	balanced  []*targetGroup
	tasks     []*volumeTask // in order of start
}

func (w *world) clone() *world {
	return &world{
		instances: cloneEach(w.instances, func(i instance) instance { return i }),
		groups:    cloneEach(w.groups, group.clone),
		fleets:    cloneEach(w.fleets, fleet.clone),
		balanced:  cloneEach(w.balanced, targetGroup.clone),
		tasks:     cloneEach(w.tasks, func(t volumeTask) volumeTask { return t }),
	}
}

func cloneEach[T any](list []*T, clone func(T) T) []*T {
	out := make([]*T, len(list))
	for i, v := range list {
		out[i] = new(clone(*v))
	}
	return out
}

func (w *world) instance(id string) *instance {
	return first(w.instances, func(i *instance) bool { return i.id == id })
}

func (w *world) group(name string) *group {
	return first(w.groups, func(g *group) bool { return g.Name == name })
}

func (w *world) fleet(id string) *fleet {
	return first(w.fleets, func(f *fleet) bool { return f.ID == id })
}

func first[T any](list []*T, is func(*T) bool) *T {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i]
	}
	return nil
}

// members returns the instances of a group or fleet for which is returns true, in order of launch.
func (w *world) members(owner string, is func(*instance) bool) []*instance {
	var out []*instance
	for _, i := range w.instances {
		if i.owner == owner && is(i) {
			out = append(out, i)
		}
	}
	return out
}

func (w *world) weight(owner string, is func(*instance) bool) float64 {
	var sum float64
	for _, i := range w.members(owner, is) {
		sum += i.weight
	}
	return sum
}
