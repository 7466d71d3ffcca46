package placer

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

// act returns the next requests to agents. It is cheap if nothing changed, and checks everything at
// least once each heartbeat period.
func (c *core) act(now time.Time) []action {
	c.expire(now)
	if c.complete {
		c.sweep(now)
		durable{c}.resume(now)
		c.release(now)
		c.drain(now)
		c.place(now)
	}
	out := c.out
	c.out = nil
	return out
}

func (c *core) sweep(now time.Time) {
	if now.Sub(c.swept) >= c.cfg.Heartbeat {
		c.swept, c.retry = now, true
		durable{c}.expireAsked(now)
		durable{c}.expirePlaces(now)
		limiter{c}.expireTaken(now)
	}
}

func (c *core) place(now time.Time) {
	todo := c.untried
	if c.retry {
		todo = slices.Collect(maps.Values(c.wants))
	}
	c.untried, c.retry = nil, false
	var largest resource.Vector
	if len(todo) > 1 {
		largest = capacityOf(c.nodes, nil).largest
	}
	slices.SortFunc(todo, func(a, b *want) int { // of the copies of one node, the largest first: so they fit as they did there
		return cmp.Or(a.since.Compare(b.since), cmp.Compare(fit.Share(c.rows.footprint(b.slot), largest), fit.Share(c.rows.footprint(a.slot), largest)),
			cmp.Compare(a.app, b.app), cmp.Compare(a.index, b.index), cmp.Compare(a.version, b.version))
	})
	noRoomFor := map[needKey]bool{} // room only shrinks during place
	for _, w := range todo {
		if c.wants[w.slot] == w {
			c.tryPlace(now, w, noRoomFor)
		}
	}
}

func (c *core) tryPlace(now time.Time, w *want, noRoomFor map[needKey]bool) {
	live, certain := c.live(now, w.slot)
	if certain {
		c.removeWant(w.slot)
		return
	}
	if live || !c.rows.startable(w.slot) {
		w.noRoom = false
		if now.Sub(w.receivedAt) > c.cfg.NudgeTTL {
			c.removeWant(w.slot)
		}
		return
	}
	if now.Before(w.after) {
		return
	}
	want := c.rows.need(w.slot)
	n := c.pick(w.slot, want, noRoomFor)
	if n == nil {
		w.noRoom, w.receivedAt = true, now // reported as waiting, so no nudge repeats it
		noRoomFor[want.key()] = true
		return
	}
	c.removeWant(w.slot)
	limiter{c}.retry(n, want)
	b := &booking{slot: w.slot, instance: c.newInstance(), node: n, footprint: want.footprint, until: c.bookedUntil(now)}
	c.bookings.add(b)
	c.places.add(now, w.slot, b.instance, n.facts.ID, want.footprint)
	c.rows.remember(w.slot, n.facts.ID)
	c.out = append(c.out, c.startOf(b))
}

// startOf returns the start of a booking.
func (c *core) startOf(b *booking) action {
	row := c.rows.apps[b.app]
	v, _ := row.Find(b.version)
	return action{
		node: b.node.facts.ID, instance: b.instance, slot: b.slot, command: v.Command, release: v.Release, footprint: b.footprint,
		ready: v.Ready, env: v.Env, ports: v.Ports, oneShot: row.OneShot,
	}
}

// pick returns the node that last ran the index, if it has room. Otherwise it returns the node with the fewest copies of the
// app, in the zone with the fewest, or nil. If the row spreads by zone, the zone counts before the node.
func (c *core) pick(s slot, want need, noRoomFor map[needKey]bool) *node {
	if noRoomFor[want.key()] {
		return nil
	}
	if n := c.nodes[c.rows.ran[s.app][s.index]]; n != nil && (limiter{c}).takes(n, want) {
		return n
	}
	zones := map[string]int{} // copies of the app
	for _, n := range c.nodes {
		if n.own = n.apps[s.app]; n.own > 0 && !n.facts.Draining {
			zones[n.facts.Zone] += n.own
		}
	}
	var best *node
	spread := c.rows.apps[s.app].Spread
	byZone := spread != nil && spread.By == api.SpreadByZone
	for _, n := range c.nodes {
		if (limiter{c}).takes(n, want) && (best == nil || n.before(best, zones, byZone, want.footprint)) {
			best = n
		}
	}
	if best != nil {
		return best
	}
	for _, n := range c.nodes {
		if (limiter{c}).retries(n, want) && (best == nil || n.before(best, zones, byZone, want.footprint)) {
			best = n
		}
	}
	return best
}

// open reports whether the node takes copies, and has room for one of that footprint.
func (n *node) open(footprint resource.Vector) bool {
	return !n.facts.Draining && !n.blocked && footprint.Fits(n.room())
}

// before reports whether n comes before m for such a copy: fewer copies of the app first, on the node and then in its zone, or in its
// zone first, then more room, then fewer copies, then order of id. So the result is always unique.
func (n *node) before(m *node, zones map[string]int, byZone bool, footprint resource.Vector) bool {
	node, zone := cmp.Compare(n.own, m.own), cmp.Compare(zones[n.facts.Zone], zones[m.facts.Zone])
	if byZone {
		node, zone = zone, node
	}
	if node != 0 {
		return node < 0
	}
	return cmp.Or(
		zone,
		cmp.Compare(m.copiesThatFit(footprint), n.copiesThatFit(footprint)),
		cmp.Compare(len(n.copies)+len(n.booked), len(m.copies)+len(m.booked)),
		cmp.Compare(n.facts.ID, m.facts.ID),
	) < 0
}

// copiesThatFit measures the room by its scarcest resource.
func (n *node) copiesThatFit(footprint resource.Vector) float64 {
	fit := math.Inf(1)
	room := n.room()
	for k, x := range footprint {
		if x > 0 {
			fit = min(fit, room[k]/x)
		}
	}
	return fit
}

// drain moves the copies of draining nodes. A replacement in the row's present version starts
// first, and the old copy stops when the replacement is ready. A copy that is known to be unwanted is only
// stopped. A copy of an unknown app stays.
func (c *core) drain(now time.Time) {
	proved := map[string]bool{} // whether a copy of the row's version is ready, by app
	for _, id := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[id]
		if !n.facts.Draining {
			continue
		}
		for _, instance := range slices.Sorted(maps.Keys(n.copies)) {
			c.drainCopy(now, n.copies[instance], proved)
		}
	}
}

func (c *core) drainCopy(now time.Time, cp *copyOf, proved map[string]bool) {
	current, expect := substitutes{c}.slot(cp, proved)
	live, _ := c.live(now, current)
	switch {
	case c.stopping(now, cp) || expect == unknown:
	case expect == unwanted || substitutes{c}.staying(cp, current):
		c.stopCopy(now, cp)
	case c.wants[current] == nil && !live && !now.Before(cp.after):
		c.want(now, current)
		cp.after = now.Add(replaceDelay(cp.tries))
		cp.tries++
	}
}

// replaces reports whether a copy serves at least as well as an old one: it is ready, or the old one is not ready and both are up.
func (cp *copyOf) replaces(old *copyOf) bool {
	return cp.running && (cp.ready || !old.ready)
}

// replaceDelay returns the time between two replacements of a copy. It bounds the retries of a
// replacement that crashes at once.
func replaceDelay(tries int) time.Duration {
	const first, most = time.Second, time.Minute
	return min(first<<min(tries, 10), most)
}
