package autoscaler

import (
	"context"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
)

// TestTargetOfTheLastHolderIsKept has a process take over right after another has raised the target
// of a group, which the provider still shows as it was: no party has lowered the target, and what is
// wanted stays.
func TestTargetOfTheLastHolderIsKept(t *testing.T) {
	for _, drift := range []Drift{Obey, Correct} {
		t.Run(string(drift), func(t *testing.T) {
			d := newDay(t)
			d.config.Drift = drift
			d.groups, d.nodes.groups = nil, nil
			g := cloud.New(cloud.Config{ID: "a", Max: dayGroupMax, Target: 6, Join: time.Second, Leave: time.Minute, Boot: time.Second, Lag: 2}, d.now)
			d.groups, d.nodes.groups = []*cloud.Group{g}, []*group{{Group: g.Other()}}
			d.loop.Close()
			d.born(-1)
			defer func() { d.loop.Close() }()
			for range 3 {
				d.tick()
			}
			standby := g.Other() // has read the group just now
			d.demand = 9
			d.tick()
			d.loop.Close()
			d.born(-1)
			d.handles, d.unknownNeed = []*cloud.Group{standby}, true
			if r := d.tick(); *r.State.Wanted != 9 || len(r.Drift) > 0 {
				t.Errorf("after the takeover %v is wanted, want 9; drift %v", *r.State.Wanted, r.Drift)
			}
			for range 2 {
				d.tick()
			}
			s, err := g.Other().Snapshot(context.Background())
			if err != nil || s.Target != 9 || *d.loop.state().Wanted != 9 {
				t.Errorf("the target is %d and %v is wanted, want 9: %v", s.Target, *d.loop.state().Wanted, err)
			}
		})
	}
}

// A process dies at any point of a tick that raises the targets, and the provider shows the raises late. The next process, whose need
// is smaller, does not lower a target: that would end a machine which no process chose. Its raises are no orders of another party.
// If a group is short, the process orders more from another one in a further step.
func TestRaiseOfADeadProcessIsNotLowered(t *testing.T) {
	t.Parallel()
	for _, short := range []bool{false, true} {
		for _, next := range []int{5, 6, 7, 8} {
			fuse := 0
			for fuse < 40 && !raiseOfADeadProcess(t, fuse, next, short) {
				fuse++
			}
			if fuse == 40 {
				t.Error("no process survived the tick: more calls are needed")
			}
		}
	}
}

// raiseOfADeadProcess lets a process die before the given call in a tick that raises the target from 6 to 9, if it makes so many. The
// need of the next process is given.
func raiseOfADeadProcess(t *testing.T, fuse, next int, short bool) (survived bool) {
	t.Helper()
	d := newDay(t)
	d.groups, d.nodes.groups = nil, nil
	for _, id := range []string{"a", "b"} {
		g := cloud.New(cloud.Config{ID: id, Max: dayGroupMax, Target: 3, Join: time.Second, Leave: time.Minute, Boot: time.Second, Lag: 2}, d.now)
		d.groups, d.nodes.groups = append(d.groups, g), append(d.nodes.groups, &group{Group: g.Other()})
	}
	d.loop.Close()
	d.born(-1)
	for range 3 {
		d.tick()
	}
	standby := []*cloud.Group{d.groups[0].Other(), d.groups[1].Other()}
	if short {
		d.groups[0].Refuse(cloud.SetTarget, pools.ErrShort)
	}
	d.demand, d.life.fuse = 9, fuse
	survived = d.tick() != nil
	d.loop.Close()
	d.born(-1)
	d.handles, d.demand = standby, next
	for i := range 6 {
		if r := d.tick(); len(r.Drift) > 0 {
			t.Errorf("dead before call %d, need %d, short %t, tick %d: the own raise counts as one of another party: %v", fuse, next, short, i, r.Drift)
		}
	}
	d.loop.Close()
	for _, g := range d.groups {
		for _, w := range g.Log() {
			if w.Op == cloud.SetTarget && w.Err == nil && w.After < w.Before {
				t.Errorf("dead before call %d, need %d, short %t: the target of %s is set from %d to %d", fuse, next, short, g.ID(), w.Before, w.After)
			}
		}
	}
	return survived
}
