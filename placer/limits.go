package placer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

const (
	// avoidFor is the time between two starts of copies with a fixed port on a node that refused this port.
	avoidFor = time.Minute
	// refusedFor is how long a refusal counts: copies with the port go to this node only if no other one is left. It counts against
	// further machines too, also after the end of its node.
	refusedFor = time.Hour
	// maxRefused is after how many nodes that refused a port no machine is ordered for it: a further one may refuse it too.
	maxRefused = 3
)

// need is what a copy needs of its node.
type need struct {
	footprint resource.Vector
	limits    []fit.Limit
}

// needKey is equal for equal needs.
type needKey struct {
	footprint resource.Vector
	limits    string
}

func (n need) key() needKey { return needKey{n.footprint, fit.ClassKey(n.limits)} }

// need returns what a copy in that slot needs.
func (r *rows) need(s slot) need { return need{r.footprint(s), r.limits(s)} }

// limits returns the limits of a copy in that slot: no other copy on its node has one of its fixed ports, and its node has few
// copies of its app.
func (r *rows) limits(s slot) (all []fit.Limit) {
	v, _ := r.apps[s.app].Find(s.version)
	for _, port := range v.FixedPorts() {
		all = append(all, fit.Limit{Held: fit.Held{Port: port}, Most: 1})
	}
	if most := r.apps[s.app].MostPerNode(); most > 0 {
		all = append(all, fit.Limit{Held: fit.Held{App: s.app}, Most: most})
	}
	return all
}

// taken is a fixed port that a node refused, because another process has it.
type taken struct {
	app   string
	until time.Time
	again time.Time // no start before; zero: it has passed
}

// limiter is the part of a core about the limits of copies.
type limiter struct{ *core }

// held is what a node has of what copies have limits for. It is kept until the node or a row changes.
type held struct {
	has        map[fit.Held]int
	node, rows uint64 // revisions of the node and of the rows that it was made from
}

// has returns how many copies of the node have each fixed port. The ports of a version without a row are unknown: the agent
// refuses a copy that needs one of them.
func (c limiter) has(n *node) map[fit.Held]int {
	h := &n.held
	if h.node == n.revision && h.rows == c.rows.revision {
		return h.has
	}
	h.node, h.rows, h.has = n.revision, c.rows.revision, nil
	add := func(what fit.Held) {
		if h.has == nil {
			h.has = map[fit.Held]int{}
		}
		h.has[what]++
	}
	count := func(s slot) {
		for _, l := range c.rows.limits(s) {
			add(l.Held)
		}
	}
	for _, cp := range n.copies {
		count(cp.slot)
	}
	for _, b := range n.booked { // also one that is to stop: it may run
		count(b.slot)
	}
	for port := range n.taken {
		add(fit.Held{Port: port})
	}
	return h.has
}

// takes reports whether a copy can be put on the node.
func (c limiter) takes(n *node, want need) bool {
	return n.open(want.footprint) && (len(want.limits) == 0 || fit.Allow(want.limits, c.has(n)))
}

// retries reports whether a copy that no node takes can be put on a node that refused one of its ports: its process may have ended.
func (c limiter) retries(n *node, want need) bool {
	if len(n.taken) == 0 || !n.open(want.footprint) {
		return false
	}
	return !slices.ContainsFunc(want.limits, func(l fit.Limit) bool {
		has := c.has(n)[l.Held]
		if t, refused := n.taken[l.Port]; refused && t.again.IsZero() {
			has--
		}
		return has >= l.Most
	})
}

// retry forgets that a node refused the ports of a copy that is put there.
func (c limiter) retry(n *node, want need) {
	for _, l := range want.limits {
		delete(n.taken, l.Port)
		delete(c.refused[l.Port], n.facts.ID)
	}
}

// noteTaken records that a node refused the fixed ports of a copy.
func (c limiter) noteTaken(now time.Time, n *node, s slot) {
	for _, l := range c.rows.limits(s) {
		if l.Port == 0 {
			continue
		}
		if n.taken == nil {
			n.taken = map[int]taken{}
		}
		n.taken[l.Port] = taken{s.app, now.Add(refusedFor), now.Add(avoidFor)}
		if c.refused[l.Port] == nil {
			c.refused[l.Port] = map[string]time.Time{}
		}
		c.refused[l.Port][n.facts.ID] = now.Add(refusedFor)
	}
	c.touchTaken()
	n.touch()
}

// touchTaken marks the nodes whose view has whether a port is useless.
func (c limiter) touchTaken() {
	c.revision++
	for _, n := range c.nodes {
		if len(n.taken) > 0 {
			n.touch()
		}
	}
}

// useless returns a port for which a further machine is not ordered, because several nodes refused it, and more than have it for
// copies, or 0.
func (c limiter) useless(limits []fit.Limit) int {
	for _, l := range limits {
		refused := len(c.refused[l.Port])
		if l.Port == 0 || refused < maxRefused {
			continue
		}
		for _, n := range c.nodes {
			if _, taken := n.taken[l.Port]; !taken && c.has(n)[l.Held] > 0 {
				refused--
			}
		}
		if refused > 0 {
			return l.Port
		}
	}
	return 0
}

// whyTaken returns why a node that refused a port cannot be emptied now: a copy may need another machine besides it. It is empty if the
// node refused none.
func (c limiter) whyTaken(n *node) string {
	for _, port := range slices.Sorted(maps.Keys(n.taken)) {
		if l := (fit.Limit{Held: fit.Held{Port: port}, Most: 1}); !n.taken[port].again.IsZero() && c.useless([]fit.Limit{l}) == 0 {
			return fmt.Sprintf("it refused a copy of %s a moment ago, which may need another machine: %s is in use here", n.taken[port].app, l)
		}
	}
	return ""
}

// forgetTaken lets copies with any port go to the node again, if the ports of an ended copy are unknown: it may have had the port.
func (c limiter) forgetTaken(ended *copyOf) {
	if _, known := c.rows.apps[ended.app].Find(ended.version); !known {
		ended.node.taken = nil
	}
}

// expireTaken ends the time in which nodes are avoided.
func (c limiter) expireTaken(now time.Time) {
	for _, n := range c.nodes {
		before := len(n.taken)
		maps.DeleteFunc(n.taken, func(_ int, t taken) bool { return !now.Before(t.until) })
		if len(n.taken) < before {
			n.touch()
		}
		for port, t := range n.taken {
			if !t.again.IsZero() && !now.Before(t.again) {
				t.again = time.Time{}
				n.taken[port] = t
				n.touch()
			}
		}
	}
	for port, nodes := range c.refused {
		before := len(nodes)
		maps.DeleteFunc(nodes, func(_ string, until time.Time) bool { return !now.Before(until) })
		if len(nodes) < before {
			c.touchTaken()
		}
		if len(nodes) == 0 {
			delete(c.refused, port)
		}
	}
}

// takenPorts returns the ports that nodes refused.
func (c limiter) takenPorts() (all []api.TakenPort) {
	for _, n := range c.nodes {
		for port, t := range n.taken {
			all = append(all, api.TakenPort{Node: n.facts.ID, Port: port, App: t.app, Until: t.until.Round(0).UTC()})
		}
	}
	slices.SortFunc(all, func(a, b api.TakenPort) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Port, b.Port)) })
	return all[:min(len(all), maxListed)]
}

// whyLimited returns why no node takes a copy that has room on one of them. It is empty if no limit is the cause.
func (c limiter) whyLimited(want need) string {
	for _, l := range want.limits {
		room, free := false, false
		for _, n := range c.nodes {
			if n.open(want.footprint) {
				room = true
				free = free || fit.Allow([]fit.Limit{l}, c.has(n))
			}
		}
		if room && !free {
			return whyLimit(l)
		}
	}
	if len(want.limits) > 1 && slices.ContainsFunc(slices.Collect(maps.Values(c.nodes)), func(n *node) bool { return n.open(want.footprint) }) {
		return "no node with room has all of its ports free, and few enough copies of it"
	}
	return ""
}

// whyLimit returns why no node with room takes a copy with a limit.
func whyLimit(l fit.Limit) string {
	if l.App != "" {
		return fmt.Sprintf("each node with room has %d copies of %s, and its spread allows no more on one node", l.Most, l.App)
	}
	return l.String() + " is in use on each node with room, and an update of such an application needs one node more"
}
