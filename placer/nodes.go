package placer

import (
	"cmp"
	"maps"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
	"github.com/weirkeeper/weirkeeper/resource"
)

// node is the placer's state of a machine.
type node struct {
	facts      api.NodeFacts
	receivedAt time.Time
	copies     map[string]*copyOf  // of its latest heartbeat, by instance
	booked     map[string]*booking // assigned since then, by instance
	reserved   resource.Vector     // the sum of booked
	running    resource.Vector     // the sum of copies, as far as their footprints are known
	revision   uint64              // of all that its view has; see touch
	view       view
	apps       map[string]int // copies and booked, by app
	own        int            // while a copy is placed: the copies of its app
	held       held
	taken      map[int]taken // fixed ports that it refused
	missed     int           // heartbeats that were missing when the latest question was answered, at most 2
	blocked    bool          // it rejected a start: no more until its next facts
	restored   bool          // its facts are unknown yet: it has only bookings of the previous placer
}

// room returns the free resources. A booking counts until a heartbeat lists it. The agent publishes
// its facts before its heartbeat, so each copy is counted at all times. An agent that reports a smaller allocation than that of the
// copies on it gets no more of them than its resources hold.
func (n *node) room() resource.Vector {
	allocated := n.facts.Allocated
	for k := range allocated {
		allocated[k] = max(allocated[k], n.running[k])
	}
	return n.facts.Resources.Sub(allocated).Sub(n.reserved)
}

// count adds to the number of copies of an app.
func (n *node) count(app string, more int) {
	if n.apps[app] += more; n.apps[app] == 0 {
		delete(n.apps, app)
	}
}

// newNode returns a node without facts, which counts as draining. So its first facts count as new room.
func newNode(id string, now time.Time) *node {
	n := &node{copies: map[string]*copyOf{}, booked: map[string]*booking{}, apps: map[string]int{}, receivedAt: now, revision: 1}
	n.facts.ID, n.facts.Draining = id, true
	return n
}

// fresh reports whether the node missed no heartbeat.
func (n *node) fresh(now time.Time, heartbeat time.Duration) bool {
	return now.Sub(n.receivedAt) <= heartbeat*3/2
}

// copyOf is a copy in a heartbeat.
type copyOf struct {
	slot
	instance  string
	node      *node
	footprint resource.Vector // as it was placed; zero: unknown
	running   bool            // up, not only starting
	ready     bool            // and ready to replace another one
	asked     time.Time       // when the latest stop was sent
	tries     int             // replacements begun while its node drains
	after     time.Time       // the earliest time of the next replacement
}

// nodeFacts processes the facts of a node of the pool.
func (c *core) nodeFacts(now time.Time, f api.NodeFacts) {
	n := c.nodes[f.ID]
	if n != nil && !n.restored && n.facts.BootID != f.BootID {
		c.forgetNode(now, n)
		n = nil
	}
	if n == nil {
		if len(c.nodes) >= maxNodes {
			return
		}
		n = newNode(f.ID, now)
		c.nodes[f.ID] = n
	}
	if n.restored || n.blocked || n.facts.Resources != f.Resources || n.facts.Allocated != f.Allocated ||
		n.facts.Draining != f.Draining || n.facts.Tasks != f.Tasks || n.facts.BatchTasks != f.BatchTasks {
		n.touch()
	}
	c.restoredNodes, n.restored = c.restoredNodes || n.restored, false
	before, blocked := n.facts, n.blocked
	n.facts, n.receivedAt, n.blocked = f, now, false
	gained := blocked || before.Draining && !f.Draining
	was, is := before.Resources.Sub(before.Allocated), f.Resources.Sub(f.Allocated)
	for k := range is {
		gained = gained || is[k] > was[k]
	}
	c.retry = c.retry || gained && !f.Draining
}

// heartbeat replaces the copies of a node. One of which a part is not readable only adds to them. It ignores a node without facts: they will
// arrive soon.
func (c *core) heartbeat(now time.Time, h Heartbeat) {
	if delete(c.unread, h.Node); h.Unread != nil && len(c.unread) < maxNodes {
		c.unread[h.Node] = now
	}
	n := c.nodes[h.Node]
	if n == nil {
		return
	}
	n.receivedAt = now
	listed := make(map[string]bool, len(h.Beats))
	for _, beat := range h.Beats {
		if !(durable{c}).listed(now, beat.Instance, h.Node, slot{beat.App, beat.Version, beat.Index}) {
			if len(c.foreign) < maxListed {
				c.foreign = append(c.foreign, foreignCopy{h.Node, beat.App, beat.Instance})
			}
			continue
		}
		if beat.State != api.CopyCrashed {
			listed[beat.Instance] = true
			c.beat(now, n, beat)
		}
	}
	if h.Unread != nil {
		return
	}
	durable{c}.unlisted(now, h.Node, listed)
	for instance, cp := range n.copies {
		if !listed[instance] {
			c.dropCopy(cp)
		}
	}
}

func (c *core) beat(now time.Time, n *node, beat api.Beat) {
	s := slot{beat.App, beat.Version, beat.Index}
	cp := c.copies[beat.Instance]
	if cp != nil && (cp.node != n || cp.slot != s) {
		c.dropCopy(cp) // one instance id on two nodes: the latest message counts
		cp = nil
	}
	if cp == nil {
		cp = &copyOf{slot: s, instance: beat.Instance, node: n, footprint: c.places.byInstance[beat.Instance].footprint}
		c.copies[beat.Instance], n.copies[beat.Instance] = cp, cp
		n.running = n.running.Add(cp.footprint)
		n.count(s.app, 1)
		n.touch()
		if c.bySlot[s] == nil {
			c.bySlot[s] = map[string]*copyOf{}
		}
		c.bySlot[s][beat.Instance] = cp
		cp.asked = c.asked[s.app][beat.Instance]
		if c.rows.remember(s, n.facts.ID) {
			c.changed[s.app] = true
		}
	}
	cp.running = beat.State == api.CopyRunning || cp.running && beat.State == api.CopyEvacuating
	cp.ready = cp.running && !beat.Unready
	if b := c.bookings.byInstance[beat.Instance]; b != nil {
		c.unbook(b)
		if b.stop {
			c.stopCopy(now, cp)
		}
	}
}

// nodeOf returns the node that runs the copy, or is to run it. It is empty for an unknown copy.
func (c *core) nodeOf(instance string) string {
	if cp := c.copies[instance]; cp != nil {
		return cp.node.facts.ID
	}
	if b := c.bookings.byInstance[instance]; b != nil {
		return b.node.facts.ID
	}
	return ""
}

// exited removes an ended copy. The harmonizer decides whether to start it again.
func (c *core) exited(now time.Time, e api.Exited) {
	durable{c}.ended(now, e.Instance)
	if b := c.bookings.byInstance[e.Instance]; b != nil {
		c.unbook(b)
	}
	if cp := c.copies[e.Instance]; cp != nil {
		c.dropCopy(cp)
	}
	if e.Reason == api.ExitCrashed && e.Status != nil && *e.Status == 0 && c.rows.apps[e.App].OneShot {
		substitutes{c}.end(now, slot{e.App, e.Version, e.Index})
	}
}

func (c *core) dropCopy(cp *copyOf) {
	delete(c.copies, cp.instance)
	delete(cp.node.copies, cp.instance)
	cp.node.count(cp.app, -1)
	if cp.node.running = cp.node.running.Sub(cp.footprint); len(cp.node.copies) == 0 {
		cp.node.running = resource.Vector{} // removes rounding errors
	}
	c.retry = c.retry || cp.footprint != resource.Vector{} // its room is free again
	limiter{c}.forgetTaken(cp)
	cp.node.touch()
	durable{c}.forgetAsked(cp.app, cp.instance)
	if delete(c.bySlot[cp.slot], cp.instance); len(c.bySlot[cp.slot]) == 0 {
		delete(c.bySlot, cp.slot)
	}
}

// forgetNode removes a lost node. Its booked copies that no heartbeat listed become wanted again. The
// harmonizer detects the loss of the others.
func (c *core) forgetNode(now time.Time, n *node) {
	for _, b := range n.booked {
		c.unbook(b)
		if !b.stop {
			c.want(now, b.slot)
		}
	}
	for _, cp := range n.copies {
		c.dropCopy(cp)
	}
	delete(c.nodes, n.facts.ID)
	c.revision += n.revision + 1
	c.retry = true // a nudge may wait for this
}

// expire removes silent nodes, and bookings that no heartbeat listed in time. While a part of the heartbeat is not readable, the
// booked copies may run.
func (c *core) expire(now time.Time) {
	for _, n := range c.nodes {
		if liveness.Silent(now, n.receivedAt, liveness.Period(cmp.Or(n.facts.Heartbeat, c.cfg.Heartbeat))) {
			c.forgetNode(now, n)
		}
	}
	maps.DeleteFunc(c.unread, func(_ string, at time.Time) bool {
		return liveness.Silent(now, at, liveness.Period(c.cfg.Heartbeat))
	})
	for _, b := range c.bookings.byInstance {
		if _, unread := c.unread[b.node.facts.ID]; now.After(b.until) && !unread {
			c.unbook(b)
			if !b.stop {
				c.want(now, b.slot)
			}
		}
	}
}
