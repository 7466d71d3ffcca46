package autoscaler

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
)

const (
	// goneAfter is how many snapshots in a row must lack an instance: a single list may have missed it.
	goneAfter = 2
	// goneFor is how long the end of a machine is repeated, because a message may be lost.
	goneFor = 5 * time.Minute
)

// ends finds the machines that have ended. The provider reported such a machine as ending, or accepted its termination, and later
// complete lists lack it. A machine that only vanishes from its group may run on: it has not ended.
type ends struct {
	ending map[string]*endingMachine
	ended  map[string]time.Time
}

type endingMachine struct {
	group  string
	lacked int // snapshots in a row
}

// note adds a snapshot and the drains after its tick.
func (e *ends) note(now time.Time, s *snapshot.Snapshot, drains []api.Drain) {
	if e.ended == nil {
		e.ending, e.ended = map[string]*endingMachine{}, map[string]time.Time{}
	}
	for id, at := range e.ended {
		if now.Sub(at) > goneFor {
			delete(e.ended, id)
		}
	}
	for _, d := range drains {
		if over := d.State == api.DrainTerminating || d.State == api.DrainGone; over && (d.ProviderEnds || !d.EndAccepted.IsZero()) && e.ending[d.Node] == nil {
			e.ending[d.Node] = &endingMachine{group: d.Group}
		}
	}
	listed, read := map[string]bool{}, map[string]bool{}
	for _, g := range s.Groups {
		read[g.ID] = g.Unknown == nil
		for _, i := range g.Instances {
			listed[i.ID] = true
			if i.State == api.InstanceTerminating && e.ending[i.ID] == nil {
				e.ending[i.ID] = &endingMachine{group: i.Group}
			}
		}
	}
	for id, m := range e.ending {
		switch {
		case listed[id]:
			m.lacked = 0
		case read[m.group]:
			if m.lacked++; m.lacked >= goneAfter {
				delete(e.ending, id)
				e.ended[id] = now
			}
		}
	}
}

// report reports the ended machines to the scheduler that speaks for the nodes of the pool.
func (e *ends) report(world World, config Config, r *api.TickRecord) {
	if world.Gone == nil || config.DryRun || r.Case.State.NodeScheduler == "" {
		return
	}
	for id, at := range e.ended {
		addProblem(r, world.Gone(id, at))
	}
}
