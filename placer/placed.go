package placer

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

const (
	// keepEnded is how long an ended copy is kept, for a harmonizer that requests its placement after its exit.
	keepEnded = 10 * time.Minute
	// keepSilent is how long the copies of a silent node are kept: it may come back with them.
	keepSilent = 24 * time.Hour
	// adoptFor is how many heartbeat periods a placer adopts what nodes list, after a start without a memory or a restore of a backup.
	adoptFor = 3
)

// placed is a copy that this placer, or an earlier one, put on a node.
type placed struct {
	slot
	node      string
	footprint resource.Vector // zero: unknown, since it was adopted
	seen      time.Time       // when it was placed, or last listed
	// ended is when it ended, or its node no longer listed it; zero: it runs, or its node is silent.
	ended time.Time
}

// places has the copies that were put on nodes. Another copy that a node lists does not count: only the placer starts copies.
// After a start without a memory, or with one from a backup, what the nodes list is adopted for some periods, unless two nodes list one index.
type places struct {
	byInstance  map[string]*placed
	byApp       map[string]map[string]*placed // the same, by instance
	adopting    bool
	unconfirmed map[string]bool // instances that were listed while adopting, and not adopted
}

func newPlaces() places {
	return places{byInstance: map[string]*placed{}, byApp: map[string]map[string]*placed{}, adopting: true, unconfirmed: map[string]bool{}}
}

func (p *places) add(now time.Time, s slot, instance, node string, footprint resource.Vector) {
	one := &placed{slot: s, node: node, footprint: footprint, seen: now}
	p.byInstance[instance] = one
	if p.byApp[s.app] == nil {
		p.byApp[s.app] = map[string]*placed{}
	}
	p.byApp[s.app][instance] = one
}

func (p *places) remove(instance string) {
	one := p.byInstance[instance]
	if one == nil {
		return
	}
	delete(p.byInstance, instance)
	if delete(p.byApp[one.app], instance); len(p.byApp[one.app]) == 0 {
		delete(p.byApp, one.app)
	}
}

// on reports whether the copy was put on that node.
func (p *places) on(instance, node string, s slot) bool {
	one := p.byInstance[instance]
	return one != nil && one.node == node && one.slot == s
}

// listed records that a node lists a copy, and reports whether the copy is there. changed: the copy was adopted.
func (c durable) listed(now time.Time, instance, node string, s slot) bool {
	if one := c.places.byInstance[instance]; one != nil {
		if one.node != node || one.slot != s {
			return false
		}
		if !one.ended.IsZero() {
			c.changed[one.app] = true
		}
		one.seen, one.ended = now, time.Time{}
		return true
	}
	if !c.places.adopting {
		return false
	}
	for _, other := range c.places.byApp[s.app] {
		if other.slot == s && other.node != node && other.ended.IsZero() {
			if len(c.places.unconfirmed) < maxWants {
				c.places.unconfirmed[instance] = true
			}
			return false
		}
	}
	c.places.add(now, s, instance, node, resource.Vector{})
	c.changed[s.app] = true
	return true
}

// mayBeListed reports whether a copy of the slot was put on a node that does not drain, and whose latest heartbeat is not readable in
// part.
func (c durable) mayBeListed(s slot) bool {
	for _, one := range c.places.byApp[s.app] {
		if _, unread := c.unread[one.node]; unread && one.slot == s && one.ended.IsZero() && (c.nodes[one.node] == nil || !c.nodes[one.node].facts.Draining) {
			return true
		}
	}
	return false
}

// ended records the end of a copy.
func (c durable) ended(now time.Time, instance string) {
	if one := c.places.byInstance[instance]; one != nil && one.ended.IsZero() {
		one.ended = now
		c.changed[one.app] = true
	}
}

// notStarted removes a copy that a node refused.
func (c durable) notStarted(instance string) {
	if one := c.places.byInstance[instance]; one != nil {
		c.places.remove(instance)
		c.changed[one.app] = true
	}
}

// expirePlaces removes copies that ended long ago, and those of nodes that are silent for very long.
func (c durable) expirePlaces(now time.Time) {
	for instance, one := range c.places.byInstance {
		_, unread := c.unread[one.node]
		if !one.ended.IsZero() && now.Sub(one.ended) > keepEnded || now.Sub(one.seen) > keepSilent && !unread {
			c.places.remove(instance)
			c.changed[one.app] = true
		}
	}
}

// answer returns which copies were put on the nodes that list them.
func (p *places) answer(q []api.PlacedCopy) api.PlacedAnswer {
	a := api.PlacedAnswer{Placed: []string{}, NotPlaced: []string{}}
	for _, one := range q {
		switch {
		case p.on(one.Instance, one.Node, slot{one.App, one.Version, one.Index}):
			a.Placed = append(a.Placed, one.Instance)
		case p.byInstance[one.Instance] == nil && (p.adopting || p.unconfirmed[one.Instance]):
		default:
			a.NotPlaced = append(a.NotPlaced, one.Instance)
		}
	}
	return a
}

// Placed is a copy that was put on a node.
type Placed struct {
	Version   string          `json:"version"`
	Index     int             `json:"index"`
	Instance  string          `json:"instance"`
	Node      string          `json:"node"`
	Footprint resource.Vector `json:"footprint,omitzero"` // as it was placed
	Ended     time.Time       `json:"ended,omitzero"`
}

// placedOf returns the copies of an app that were put on nodes, without those that a node is still to list, which are bookings.
func (c durable) placedOf(app string) (all []Placed) {
	for instance, one := range c.places.byApp[app] {
		if c.bookings.byInstance[instance] == nil {
			all = append(all, Placed{one.version, one.index, instance, one.node, one.footprint, one.ended.Round(0).UTC()})
		}
	}
	slices.SortFunc(all, func(x, y Placed) int { return cmp.Compare(x.Instance, y.Instance) })
	return all
}

// restorePlaces adds the copies that earlier placers put on nodes.
func (c durable) restorePlaces(now time.Time, a Assignments) {
	for _, one := range a.Placed {
		c.places.add(now, slot{a.App, one.Version, one.Index}, one.Instance, one.Node, one.Footprint)
		if !one.Ended.IsZero() {
			c.places.byInstance[one.Instance].ended = earlier(one.Ended, now)
		}
	}
	for _, b := range a.Bookings {
		c.places.add(now, slot{a.App, b.Version, b.Index}, b.Instance, b.Node, b.Footprint)
	}
	c.places.adopting = c.places.adopting && len(a.Placed)+len(a.Bookings) == 0
}

// unlisted records the copies of a node that its heartbeat omits, and that no booking waits for.
func (c durable) unlisted(now time.Time, node string, listed map[string]bool) {
	n := c.nodes[node]
	for _, instance := range slices.Collect(maps.Keys(n.copies)) {
		if !listed[instance] {
			c.ended(now, instance)
		}
	}
}
