package awstest

import (
	"slices"
	"time"
)

// world is all that a describing request may tell of. It is copied to answer
// reads that lag.
type world struct {
	instances []*instance // in order of launch
	groups    []*group
	fleets    []*fleet
	balanced  []*targetGroup
	tasks     []*volumeTask // in order of their beginning
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

// members returns the instances of a group or fleet for which is holds, in order of launch.
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

// EC2's states of an instance.
//
//	   ┌───────── stopped ◄── stopping
//	   ▼             │           ▲ │
//	pending ──► running ─────────┘ │
//	   └─────────┬───┴─────────────┘
//	             └──► shutting-down ──► terminated ──► (told of for an hour)
const (
	pending      = "pending"
	running      = "running"
	stopping     = "stopping"
	stopped      = "stopped"
	shuttingDown = "shutting-down"
	terminated   = "terminated"
)

// Auto Scaling's states of an instance; none: it is of a fleet, or the group has done with it.
//
//	Pending ──► InService ──► Terminating ──► (none)
//	   └────────────────────────▲
const (
	lifePending     = "Pending"
	lifeInService   = "InService"
	lifeTerminating = "Terminating"
)

type instance struct {
	id, owner string
	market    Market
	weight    float64
	state     string
	lifecycle string
	protected bool
	spot      bool
	taken     bool      // a spot instance whose end is announced
	version   int       // of the group's launch template
	launched  time.Time // the last time
	by        Cause     // why it ended
	tags      map[string]string
	health
}

// alive: it runs or is about to, as far as EC2 is concerned.
func (i *instance) alive() bool { return i.state == pending || i.state == running }

// exists: it was not ended.
func (i *instance) exists() bool { return i.state != shuttingDown && i.state != terminated }

// counts: it is part of its group's capacity, as far as the group knows.
func (i *instance) counts() bool { return i.lifecycle == lifePending || i.lifecycle == lifeInService }

// listed: its group tells of it.
func (i *instance) listed() bool { return i.lifecycle != "" }

func (i *instance) is(id string) bool { return i.id == id }
