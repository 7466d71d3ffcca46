package nodehealth

import (
	"maps"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

const (
	// drainOwner is the owner of the pauses of draining nodes.
	drainOwner = "drain"
	// poolOwner is the owner of the pause that a paused pool has.
	poolOwner = "operator (weir pause)"
	// poolPause is the length of that pause unless it is renewed.
	poolPause = time.Hour
	// drainGrace is how long a drain's pause lasts after the drain's deadline.
	drainGrace = time.Minute
)

// pauses block repairs of nodes that leave for another reason, and of a pool that operators paused.
// The Loop's goroutine owns them.
type pauses struct {
	*shared
	until map[string]time.Time       // ends of the pauses, by leaving node
	out   map[string]disruption.Kind // last value sent to the judge; nil: not sent yet
}

func (p *pauses) sync(now time.Time, j *judge.Judge) []judge.Event {
	return append(p.nodes(now, j), p.pool(now, j)...)
}

func (p *pauses) nodes(now time.Time, j *judge.Judge) []judge.Event {
	records, known := p.world.Drains.Records()
	if !known {
		return nil
	}
	var out []judge.Event
	leaving := map[string]bool{}
	for _, r := range records {
		if !drained(r) {
			continue
		}
		leaving[r.Node] = true
		until, taken := p.until[r.Node]
		wanted := r.Deadline.Add(drainGrace)
		if late := now.Add(drainGrace); wanted.Before(late) {
			wanted = late.Add(drainGrace)
			taken = taken && until.After(late) // renew it before it ends
			if taken {
				continue
			}
		}
		if !taken || !until.Equal(wanted) {
			p.until[r.Node] = wanted
			out = append(out, judge.Pause{Node: r.Node, Owner: drainOwner, TTL: wanted.Sub(now), Why: string(r.Reason)})
		}
	}
	for node := range p.until {
		if leaving[node] {
			continue
		}
		delete(p.until, node)
		if _, is := j.Paused(node, drainOwner); is {
			out = append(out, judge.Resume{Node: node, Owner: drainOwner})
		}
	}
	return out
}

// drained reports whether the node of the record is drained for a reason other than a repair.
func drained(r api.Drain) bool {
	return r.Reason != api.DrainRepair && drain.ValidateRecord(r) == nil && (r.State.Leaving() || r.State == api.DrainTerminating)
}

// drains returns the draining nodes if they changed.
func (p *pauses) drains() []judge.Event {
	records, known := p.world.Drains.Records()
	if !known {
		return nil
	}
	all := DrainsOf(records)
	out := all.Out
	if p.out != nil && maps.Equal(p.out, out) {
		return nil
	}
	p.out = out
	return []judge.Event{all}
}

// DrainsOf returns the nodes that these records drain for another reason than a repair, for a judge.
func DrainsOf(records []api.Drain) judge.Drains {
	out := map[string]disruption.Kind{}
	for _, r := range records {
		if drained(r) {
			out[r.Node] = disruption.Kind(r.Reason)
		}
	}
	return judge.Drains{Out: out}
}

// pool returns the pause of a pool that operators paused, or its end.
func (p *pauses) pool(now time.Time, j *judge.Judge) []judge.Event {
	if p.world.Paused == nil {
		return nil
	}
	why, known := p.world.Paused()
	until, is := j.Paused("", poolOwner)
	switch {
	case !known:
	case why == "" && is:
		return []judge.Event{judge.Resume{Owner: poolOwner}}
	case why != "" && (!is || until.Sub(now) < poolPause/2):
		return []judge.Event{judge.Pause{Owner: poolOwner, TTL: poolPause, Why: prose.Clip(why, api.MaxWhy)}}
	}
	return nil
}
