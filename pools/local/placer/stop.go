package placer

import (
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// refusal is a stop that was not carried out.
type refusal struct {
	slot
	instance string
	why      string
}

// Why a stop is refused.
const (
	whyIncomplete  = "the expected state is not known yet"
	whyLast        = "no other copy serves the index"
	whyNotReplaced = "no copy of the app's version runs at the index yet"
)

// stop is a nudge. As a cloud controller does, we check it against the rows: who
// nudges may know an earlier one, or mean both of two copies. It may know a later
// one, too: what is refused is held for a while.
func (c *core) stop(now time.Time, m message.Stop) []refusal {
	var refused []refusal
	for _, instance := range slices.Sorted(maps.Keys(m.Instances)) {
		cp := c.find(instance)
		if cp == nil || c.stopping(now, cp) {
			continue
		}
		if why := c.keeps(now, cp); why != "" {
			refused = append(refused, refusal{cp.slot, instance, why})
			c.held[instance] = now.Add(c.cfg.NudgeTTL)
			continue
		}
		c.end(now, cp)
	}
	return refused
}

// release carries out the stops that were held until a row came that does not want
// the copy any more. That another copy has come since is not what the nudge meant.
func (c *core) release(now time.Time) {
	for _, instance := range slices.Sorted(maps.Keys(c.held)) {
		cp := c.find(instance)
		if cp == nil || now.After(c.held[instance]) {
			delete(c.held, instance)
		} else if _, wanted := c.rows.current(cp.slot); !wanted {
			delete(c.held, instance)
			c.end(now, cp)
		}
	}
}

// find returns a copy that a heartbeat lists, or that we gave to a node.
func (c *core) find(instance string) *copyOf {
	if b := c.bookings.byInstance[instance]; b != nil {
		return &copyOf{slot: b.slot, instance: instance, node: b.node}
	}
	return c.copies[instance]
}

// end stops a copy; one that is on its way when its node has answered.
func (c *core) end(now time.Time, cp *copyOf) {
	if b := c.bookings.byInstance[cp.instance]; b != nil {
		b.stop = true
		return
	}
	c.stopCopy(now, cp)
}

// keeps returns why a copy must not be stopped; it is empty for one that is beyond
// the app, and one that another stands in for.
func (c *core) keeps(now time.Time, cp *copyOf) string {
	live, wanted := c.rows.current(cp.slot)
	switch {
	case !c.complete:
		return whyIncomplete
	case !wanted:
		return ""
	case live != cp.slot:
		if !c.runs(live) {
			return whyNotReplaced
		}
	case !c.standIn(now, cp):
		return whyLast
	}
	return ""
}

func (c *core) runs(s slot) bool {
	for _, cp := range c.bySlot[s] {
		if cp.running {
			return true
		}
	}
	return false
}

// standIn reports whether another copy in the slot serves as well: it is up if this
// one is, it stays if this one does, its node is heard, and it was not asked to stop.
func (c *core) standIn(now time.Time, cp *copyOf) bool {
	for _, other := range c.bySlot[cp.slot] {
		if other.instance != cp.instance && other.asked.IsZero() && c.fresh(now, other.node) &&
			(other.running || !cp.running) && (!other.node.facts.Draining || cp.node.facts.Draining) {
			return true
		}
	}
	return false
}

// stopping reports whether a copy was asked to stop just now.
func (c *core) stopping(now time.Time, cp *copyOf) bool {
	return !cp.asked.IsZero() && now.Sub(cp.asked) < c.cfg.Heartbeat
}

func (c *core) stopCopy(now time.Time, cp *copyOf) {
	cp.asked = now
	c.out = append(c.out, action{stop: true, node: cp.node.facts.ID, instance: cp.instance, slot: cp.slot})
}
