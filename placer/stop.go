package placer

import (
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// refusal is a stop that was rejected.
type refusal struct {
	slot
	instance string
	why      string
}

// Reasons to reject a stop.
const (
	whyIncomplete  = "the expected state is not loaded yet"
	whyLast        = "no other copy serves the index"
	whyNotReplaced = "no other copy of a version of the app is ready at the index yet"
)

// stop processes a nudge and returns the rejected stops. It checks each one against the rows, as a
// cloud controller does: the sender may have an older row, or may mean both of two copies. The
// sender may also have a newer row, so a rejected stop is held for a while.
func (c *core) stop(now time.Time, m api.Stop) []refusal {
	var refused []refusal
	for _, instance := range slices.Sorted(maps.Keys(m.Instances)) {
		cp := c.findCopy(instance)
		if cp == nil || c.stopping(now, cp) {
			continue
		}
		if why := c.keepReason(now, cp); why != "" {
			refused = append(refused, refusal{cp.slot, instance, why})
			c.held[instance] = now.Add(c.cfg.NudgeTTL)
			continue
		}
		c.endCopy(now, cp)
	}
	return refused
}

// release carries out held stops after a new row that does not want the copy. It ignores a new copy
// in the same slot, because the nudge did not refer to it.
func (c *core) release(now time.Time) {
	for _, instance := range slices.Sorted(maps.Keys(c.held)) {
		cp := c.findCopy(instance)
		if cp == nil || now.After(c.held[instance]) {
			delete(c.held, instance)
		} else if _, expect := c.rows.current(cp.slot); expect == unwanted {
			delete(c.held, instance)
			c.endCopy(now, cp)
		}
	}
}

// findCopy returns a copy that a heartbeat lists or that is booked.
func (c *core) findCopy(instance string) *copyOf {
	if b := c.bookings.byInstance[instance]; b != nil {
		return &copyOf{slot: b.slot, instance: instance, node: b.node}
	}
	return c.copies[instance]
}

// endCopy stops a copy. A booked copy is stopped after the response of its node.
func (c *core) endCopy(now time.Time, cp *copyOf) {
	if b := c.bookings.byInstance[cp.instance]; b != nil {
		b.toStop()
		c.changed[b.app] = true
		return
	}
	c.stopCopy(now, cp)
}

// keepReason returns why a copy must not be stopped. It is empty for a copy that is known to be unwanted, and for
// a copy with a substitute.
func (c *core) keepReason(now time.Time, cp *copyOf) string {
	live, expect := c.rows.current(cp.slot)
	switch {
	case !c.complete:
		return whyIncomplete
	case expect == unknown:
		return c.rows.whyUnknown(cp.app)
	case expect == unwanted:
		return ""
	case live != cp.slot && c.rows.apps[cp.app].OneShot:
		return ""
	case live != cp.slot:
		if !(substitutes{c}).ready(cp, live) && !(substitutes{c}).earlier(now, cp) {
			return whyNotReplaced
		}
	case !(substitutes{c}).same(now, cp) && !(substitutes{c}).earlier(now, cp):
		return whyLast
	}
	return ""
}

// substitutes are the copies that can replace another one.
type substitutes struct{ *core }

// ready reports whether a copy in the slot of the row's version can replace an old one.
func (c substitutes) ready(old *copyOf, live slot) bool {
	for _, cp := range c.bySlot[live] {
		if cp.replaces(old) {
			return true
		}
	}
	return false
}

// earlier reports whether another copy of an earlier version of the row can replace this one on its index: the harmonizer halted the
// update to the version of the row, and decides which earlier one serves.
func (c substitutes) earlier(now time.Time, cp *copyOf) bool {
	for _, v := range c.rows.apps[cp.app].History {
		for _, other := range c.bySlot[slot{cp.app, v.Version, cp.index}] {
			if other.instance != cp.instance && other.asked.IsZero() && other.node.fresh(now, c.cfg.Heartbeat) && other.replaces(cp) && (!other.node.facts.Draining || cp.node.facts.Draining) {
				return true
			}
		}
	}
	return false
}

// same reports whether another copy in the slot can replace this one: it is up if this one is, and ready if this one is;
// it stays if this one stays, its node is not late, and no stop of it was requested.
func (c substitutes) same(now time.Time, cp *copyOf) bool {
	for _, other := range c.bySlot[cp.slot] {
		if other.instance != cp.instance && other.asked.IsZero() && other.node.fresh(now, c.cfg.Heartbeat) &&
			(other.running || !cp.running) && (other.ready || !cp.ready) && (!other.node.facts.Draining || cp.node.facts.Draining) {
			return true
		}
	}
	return false
}

// end stops the substitutes of a copy whose work is done, and starts none.
func (c substitutes) end(now time.Time, s slot) {
	if c.wants[s] != nil {
		c.removeWant(s)
	}
	others := append(slices.Collect(maps.Keys(c.bookings.bySlot[s])), slices.Collect(maps.Keys(c.bySlot[s]))...)
	slices.Sort(others)
	for _, instance := range others {
		if cp := c.findCopy(instance); !c.stopping(now, cp) {
			c.endCopy(now, cp)
		}
	}
}

// stopping reports whether a stop of the copy was sent recently.
func (c *core) stopping(now time.Time, cp *copyOf) bool {
	return !cp.asked.IsZero() && now.Sub(cp.asked) < c.cfg.Heartbeat
}

func (c *core) stopCopy(now time.Time, cp *copyOf) {
	cp.asked = now
	durable{c}.noteAsked(cp.app, cp.instance, now)
	c.out = append(c.out, action{stop: true, node: cp.node.facts.ID, instance: cp.instance, slot: cp.slot})
}

// staying reports whether a copy in the slot, on a node that does not drain, can replace a copy.
func (c substitutes) staying(old *copyOf, s slot) bool {
	for _, cp := range c.bySlot[s] {
		if cp.replaces(old) && !cp.node.facts.Draining {
			return true
		}
	}
	return false
}

// slot returns the slot of a copy's replacement. Until a copy of the row's version is ready, it has the version of the copy,
// if that is one of the row.
func (c substitutes) slot(cp *copyOf, proved map[string]bool) (slot, expectation) {
	current, expect := c.rows.current(cp.slot)
	row := c.rows.apps[cp.app]
	if _, known := row.Find(cp.version); current.version == cp.version || !known || expect != wanted {
		return current, expect
	}
	is, found := proved[cp.app]
	if !found {
		for index := range row.Instances {
			for _, other := range c.bySlot[slot{cp.app, row.Version, index}] {
				is = is || other.ready
			}
		}
		proved[cp.app] = is
	}
	if !is {
		current.version = cp.version
	}
	return current, expect
}
