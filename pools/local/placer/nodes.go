package placer

import (
	"cmp"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
	"github.com/weirkeeper/weirkeeper/resource"
)

// node is a machine as far as the placer knows it.
type node struct {
	facts    pools.NodeFacts
	heard    time.Time
	copies   map[string]*copyOf  // of its last heartbeat, by instance
	booked   map[string]*booking // given to it since, by instance
	reserved resource.Vector     // the sum of booked
	barred   bool                // it refused: nothing more until it says something new
}

// room returns what is left: a booking counts until a heartbeat lists it,
// and the agent publishes its facts before its heartbeat, so that nothing
// falls between the two.
func (n *node) room() resource.Vector {
	return n.facts.Resources.Sub(n.facts.Allocated).Sub(n.reserved)
}

// copyOf is a copy that a heartbeat lists.
type copyOf struct {
	slot
	instance string
	node     *node
	running  bool      // up, not merely starting
	asked    time.Time // when we last asked its node to stop it
	tries    int       // replacements begun while its node drains
	after    time.Time // no further replacement before
}

// nodeFacts is what a node says of itself. Only nodes of this pool count.
func (c *core) nodeFacts(now time.Time, f pools.NodeFacts) {
	if f.Pool != c.cfg.Pool {
		return
	}
	n := c.nodes[f.ID]
	if n != nil && n.facts.BootID != f.BootID {
		c.forget(now, n)
		n = nil
	}
	if n == nil {
		if len(c.nodes) >= maxNodes {
			return
		}
		n = &node{copies: map[string]*copyOf{}, booked: map[string]*booking{}}
		n.facts.Draining = true // so that a new node counts as room gained
		c.nodes[f.ID] = n
	}
	before, barred := n.facts, n.barred
	n.facts, n.heard, n.barred = f, now, false
	gained := barred || before.Draining && !f.Draining
	was, is := before.Resources.Sub(before.Allocated), f.Resources.Sub(f.Allocated)
	for k := range is {
		gained = gained || is[k] > was[k]
	}
	c.retry = c.retry || gained && !f.Draining
}

// heartbeat replaces what is known to run on a node. One whose facts never
// came is not of this pool, or will say so in a moment.
func (c *core) heartbeat(now time.Time, h message.Heartbeat) {
	n := c.nodes[h.Node]
	if n == nil {
		return
	}
	n.heard = now
	listed := make(map[string]bool, len(h.Beats))
	for _, beat := range h.Beats {
		if beat.State != message.Crashed {
			listed[beat.Instance] = true
			c.beat(now, n, beat)
		}
	}
	for instance, cp := range n.copies {
		if !listed[instance] {
			c.drop(cp)
		}
	}
}

func (c *core) beat(now time.Time, n *node, beat message.Beat) {
	s := slot{beat.App, beat.Version, beat.Index}
	cp := c.copies[beat.Instance]
	if cp != nil && (cp.node != n || cp.slot != s) {
		c.drop(cp) // one instance id on two nodes: the last word counts
		cp = nil
	}
	if cp == nil {
		cp = &copyOf{slot: s, instance: beat.Instance, node: n}
		c.copies[beat.Instance], n.copies[beat.Instance] = cp, cp
		if c.bySlot[s] == nil {
			c.bySlot[s] = map[string]*copyOf{}
		}
		c.bySlot[s][beat.Instance] = cp
		c.rows.remember(s, n.facts.ID)
	}
	cp.running = beat.State == message.Running || cp.running && beat.State == message.Evacuating
	if b := c.bookings.byInstance[beat.Instance]; b != nil {
		c.bookings.remove(b)
		if b.stop {
			c.stopCopy(now, cp)
		}
	}
}

// exited is the end of a copy. Whether it is started again is the
// harmonizer's to say.
func (c *core) exited(e message.Exited) {
	if b := c.bookings.byInstance[e.Instance]; b != nil {
		c.bookings.remove(b)
	}
	if cp := c.copies[e.Instance]; cp != nil {
		c.drop(cp)
	}
}

func (c *core) drop(cp *copyOf) {
	delete(c.copies, cp.instance)
	delete(cp.node.copies, cp.instance)
	if delete(c.bySlot[cp.slot], cp.instance); len(c.bySlot[cp.slot]) == 0 {
		delete(c.bySlot, cp.slot)
	}
}

// forget takes a lost node off the books. What was booked there and never seen
// is wanted again; what ran there is the harmonizer's to miss.
func (c *core) forget(now time.Time, n *node) {
	for _, b := range n.booked {
		c.bookings.remove(b)
		if !b.stop {
			c.want(now, b.slot)
		}
	}
	for _, cp := range n.copies {
		c.drop(cp)
	}
	delete(c.nodes, n.facts.ID)
	c.retry = true // a nudge may have waited for this
}

// expire forgets the nodes that are silent, and the bookings that no heartbeat ever
// listed.
func (c *core) expire(now time.Time) {
	for _, n := range c.nodes {
		if liveness.Silent(now, n.heard, liveness.Period(cmp.Or(n.facts.Heartbeat, c.cfg.Heartbeat))) {
			c.forget(now, n)
		}
	}
	for _, b := range c.bookings.byInstance {
		if now.After(b.until) {
			c.bookings.remove(b)
			if !b.stop {
				c.want(now, b.slot)
			}
		}
	}
}
