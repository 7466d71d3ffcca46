package nodehealth

import (
	"maps"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools/disruption"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

const (
	// drainOwner is the owner of the pauses that drains take.
	drainOwner = "drain"
	// poolOwner is the owner of the pause that a pool's own one is.
	poolOwner = "operator (weir pause)"
	// poolPause is how long that lasts without being renewed.
	poolPause = time.Hour
	// drainGrace is how long such a pause lasts beyond the deadline of its drain.
	drainGrace = time.Minute
	// drainRoom bounds the drain events that wait; beyond it the records show the end of
	// a repair.
	drainRoom = 10_000
)

// pauses keep repairs off nodes that leave for another reason, and off a pool that
// operators have paused. The Loop's goroutine owns them.
type pauses struct {
	*kit
	until map[string]time.Time       // of the nodes that leave
	out   map[string]disruption.Kind // as the judge has them; nil: it has none from here
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
			taken = taken && until.After(late) // renewed while it lasts, now and then
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

// drained reports whether the node of the record is drained for another reason than a
// repair.
func drained(r drain.Record) bool {
	return r.Reason != drain.Repair && r.Validate() == nil && (r.State.Leaving() || r.State == drain.Terminating)
}

// drains returns the nodes that are drained, if they have changed.
func (p *pauses) drains() []judge.Event {
	records, known := p.world.Drains.Records()
	if !known {
		return nil
	}
	out := map[string]disruption.Kind{}
	for _, r := range records {
		if drained(r) {
			out[r.Node] = disruption.Kind(r.Reason)
		}
	}
	if p.out != nil && maps.Equal(p.out, out) {
		return nil
	}
	p.out = out
	return []judge.Event{judge.Drains{Out: out}}
}

// pool returns the pause of a pool that operators have paused, or its end.
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
		return []judge.Event{judge.Pause{Owner: poolOwner, TTL: poolPause, Why: cut(why)}}
	}
	return nil
}
