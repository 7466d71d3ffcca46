package autoscaler

import (
	"context"
	"testing"
	"time"

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
