package placer

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
	"github.com/weirkeeper/weirkeeper/resource"
)

// view is what package fit needs of a node. It is kept until the node or a row changes.
type view struct {
	fit.Node
	node, rows uint64 // revisions of the node and of the rows that it was made from
}

// touch marks a change of a node that its view has.
func (n *node) touch() { n.revision++ }

// packer answers where the copies of a core fit.
type packer struct{ *core }

// answered is the latest answer of a packer.
type answered struct {
	question string // as it was received
	revision uint64
	places   api.Places
}

// places answers a question, which was received as text.
func (c packer) places(now time.Time, q api.PlacesQuestion, text string) api.Places {
	c.noteMissed(now)
	revision := c.total()
	if last := &c.last; last.revision == revision && last.question == text {
		return last.places
	}
	c.kinds = q.Kinds
	w := fit.World{Question: q, Nodes: make([]*fit.Node, 0, len(c.nodes)), Waiting: c.waiting(now, q.Gone)}
	for _, n := range c.nodes {
		if !n.restored {
			w.Nodes = append(w.Nodes, c.view(n))
		}
	}
	held := c.heldSum()
	w.Headroom = c.headroom(q.Headroom, held)
	answer := fit.Solve(w)
	answer.Held = held
	c.last = answered{text, revision, answer}
	return answer
}

// total returns the revision of all that an answer depends on. It grows with each change.
func (c packer) total() uint64 {
	sum := c.revision + c.rows.revision
	for _, n := range c.nodes {
		sum += n.revision
	}
	return sum
}

// noteMissed notes the missing heartbeats of each node.
func (c packer) noteMissed(now time.Time) {
	for _, n := range c.nodes {
		missed, age, period := 0, now.Sub(n.receivedAt), liveness.Period(cmp.Or(n.facts.Heartbeat, c.cfg.Heartbeat))
		switch {
		case age > liveness.SilentAfter(period):
			missed = 2
		case age > liveness.ConfirmedFor(period):
			missed = 1
		}
		if missed != n.missed {
			n.missed = missed
			n.touch()
		}
	}
}

// view returns the view of a node, and makes it anew after a change.
func (c packer) view(n *node) *fit.Node {
	if n.view.node != n.revision || n.view.rows != c.rows.revision {
		n.view.node, n.view.rows = n.revision, c.rows.revision
		c.fill(&n.view.Node, n)
	}
	return &n.view.Node
}

// fill makes the view of a node. Each wanted copy needs another place when the node leaves, also one of an earlier version or
// a second one in a slot: both end soon. The placer puts copies on a node whose heartbeat is late, so this one is open too. But
// what runs on it is not certain, so it stays.
func (c packer) fill(v *fit.Node, n *node) {
	*v = fit.Node{
		ID: n.facts.ID, Group: n.facts.Group, Size: n.facts.Resources, Room: n.room(), Copies: v.Copies[:0],
		Has:    limiter(c).has(n),
		Closed: n.facts.Draining || n.blocked || n.restored || n.missed > 1,
	}
	for s := range n.slots() {
		if _, expect := c.rows.current(s); expect == wanted {
			v.Copies = append(v.Copies, c.copyFor(s))
		}
	}
	slices.SortFunc(v.Copies, func(a, b fit.Copy) int {
		return cmp.Or(cmp.Compare(fit.Share(b.Footprint, v.Size), fit.Share(a.Footprint, v.Size)), strings.Compare(a.App, b.App), cmp.Compare(a.Index, b.Index))
	})
	v.Stays = c.whyStays(n, v.Copies)
}

// copyFor returns a copy of the row's version on that index.
func (c packer) copyFor(s slot) fit.Copy {
	row := c.rows.apps[s.app]
	return fit.Copy{App: s.app, Index: s.index, Footprint: row.Footprint(), Limits: c.rows.limits(slot{s.app, row.Version, s.index})}
}

// whyStays returns why a node with these copies cannot be emptied now, whatever room there is. It is empty if it may be.
func (c packer) whyStays(n *node, copies []fit.Copy) string {
	if n.missed > 0 {
		return "its latest heartbeat is late"
	}
	if n.facts.Tasks-n.facts.BatchTasks > len(n.copies)+len(n.booked) {
		return "it runs tasks that the scheduler has not received or not placed"
	}
	if why := limiter(c).whyTaken(n); why != "" {
		return why
	}
	first := "" // of the unknown apps, in order of name
	for s := range n.slots() {
		if _, expect := c.rows.current(s); expect == unknown && (first == "" || s.app < first) {
			first = s.app
		}
	}
	if first != "" {
		return c.rows.whyUnknown(first)
	}
	for _, one := range copies {
		if !c.rows.startable(slot{one.App, c.rows.apps[one.App].Version, one.Index}) {
			return "the expected state of " + one.App + "/" + strconv.Itoa(one.Index) + " does not allow to start it elsewhere"
		}
	}
	return ""
}

// slots yields the slots of the copies that the node runs, and is to run.
func (n *node) slots() func(yield func(slot) bool) {
	return func(yield func(slot) bool) {
		for _, cp := range n.copies {
			if !yield(cp.slot) {
				return
			}
		}
		for _, b := range n.booked {
			if !b.stop && !yield(b.slot) {
				return
			}
		}
	}
}

// waiting returns the copies without a node, and those of nodes that leave or drain. Each slot counts once. A copy for which no machine
// is ordered is not among them.
func (c packer) waiting(now time.Time, leaving []string) (all []fit.Copy) {
	list, gone := c.leaving(leaving)
	seen := map[slot]bool{}
	for _, n := range list {
		for s := range n.slots() {
			live, expect := c.rows.current(s)
			if expect != wanted || seen[live] || !c.rows.startable(live) || c.elsewhere(live, gone) {
				continue
			}
			seen[live] = true
			one := c.copyFor(s)
			one.Leaves = n.facts.ID
			all = append(all, one)
		}
	}
	for s := range c.wants {
		if live, _ := c.live(now, s); live || seen[s] || !c.rows.startable(s) {
			continue
		}
		if one := c.copyFor(s); limiter(c).useless(one.Limits) == 0 {
			all = append(all, one)
		}
	}
	return all
}

// leaving returns the nodes with these ids, and then those that drain, in order of id; and the set of all of them.
func (c packer) leaving(ids []string) (list []*node, set map[*node]bool) {
	set = make(map[*node]bool, len(ids))
	add := func(n *node) {
		list, set[n] = append(list, n), true
	}
	for _, id := range ids {
		if n := c.nodes[id]; n != nil {
			add(n)
		}
	}
	named := len(list)
	for _, n := range c.nodes {
		if n.facts.Draining && !n.restored && !set[n] {
			add(n)
		}
	}
	slices.SortFunc(list[named:], func(a, b *node) int { return strings.Compare(a.facts.ID, b.facts.ID) })
	return list, set
}

// elsewhere reports whether a copy of the slot runs, or is to run, on a node that stays.
func (c packer) elsewhere(s slot, gone map[*node]bool) bool {
	for _, b := range c.bookings.bySlot[s] {
		if !gone[b.node] && !b.stop {
			return true
		}
	}
	for _, cp := range c.bySlot[s] {
		if !gone[cp.node] {
			return true
		}
	}
	return false
}

// headroom returns the places that are to stay free. held is what all desired copies take.
func (c packer) headroom(all []api.Headroom, held resource.Vector) []fit.Headroom {
	var out []fit.Headroom
	for _, h := range all {
		one := fit.Headroom{Place: fit.Copy{App: h.Name, Footprint: h.Resources, Group: h.Group}}
		row, known := c.rows.apps[h.App]
		switch {
		case h.App == "":
			one.Wanted = h.Wanted(h.Resources, 0, held)
		case known:
			one.Place.Footprint, one.Place.Limits = row.Footprint(), c.rows.limits(slot{h.App, row.Version, 0})
			copies := c.needed(row)
			if row.State == api.AppStopped {
				copies = 0
			}
			one.Wanted = h.Wanted(one.Place.Footprint, copies, held)
		default:
			one.Why = "no row of app " + h.App + " in this pool: the size of a place is unknown"
		}
		out = append(out, one)
	}
	return out
}

// heldSum returns the sum of the footprints of all desired copies that a machine can hold. It adds millionths, which are whole
// numbers: so the order does not matter.
func (c packer) heldSum() (sum resource.Vector) {
	const millionth = 1e6
	all, held := capacityOf(c.nodes, c.kinds), map[resource.Vector]bool{}
	for _, row := range c.rows.apps {
		footprint := row.Footprint()
		can, known := held[footprint]
		if !known {
			can = all.canHold(footprint)
			held[footprint] = can
		}
		if row.State == api.AppStopped || !can {
			continue
		}
		for k, x := range footprint {
			sum[k] += math.Round(x*millionth) * float64(c.needed(row))
		}
	}
	return sum.Scale(1 / millionth)
}

// needed returns how many copies of an app need a place. Of work that ends, only those that run or wait: the others are done.
func (c packer) needed(row api.App) (n int) {
	if !row.OneShot {
		return row.Instances
	}
	for index := range row.Instances {
		s := slot{row.Name, row.Version, index}
		if len(c.bySlot[s])+len(c.bookings.bySlot[s]) > 0 || c.wants[s] != nil {
			n++
		}
	}
	return n
}

// neverPlaced returns the copies without a node that no machine can ever hold, in order of app.
func (c packer) neverPlaced(now time.Time) []api.PlacesApp {
	all, byApp := capacityOf(c.nodes, c.kinds), map[string]api.PlacesApp{}
	for s := range c.wants {
		one, known := byApp[s.app]
		if live, _ := c.live(now, s); live || !c.rows.startable(s) {
			continue
		}
		if !known {
			row := c.rows.apps[s.app]
			if one.App, one.Footprint = s.app, row.Footprint(); all.canHold(one.Footprint) {
				continue
			}
		}
		one.Copies++
		byApp[s.app] = one
	}
	list := slices.Collect(maps.Values(byApp))
	slices.SortFunc(list, func(a, b api.PlacesApp) int { return strings.Compare(a.App, b.App) })
	return list[:min(len(list), api.MaxNeverApps)]
}
