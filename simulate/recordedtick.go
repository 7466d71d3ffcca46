package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// recordedTick is one tick, without its nodes.
type recordedTick struct {
	at      time.Time
	every   time.Duration
	epoch   uint64
	orders  api.Orders
	of      *api.Case // nil: the pool was paused
	result  api.CaseResult
	need    map[string]resource.Vector // what the apps need whose own signals reported; nil: no decision
	request resource.Vector            // of all apps
	groups  []api.GroupSnapshot
	limit   int // of the disruption budget; 0: no budget
	losses  []loss
	before  map[string]int // machines that had joined before the losses, by group
	warned  []warned
	late    []*life          // machines whose nodes joined between the reading of the tick and its drains
	silent  map[string]bool  // nodes that had joined and did not report, by the machine's id
	refused map[string]error // the provider's refusal of a target, by group
	drift   []api.Drift
	moved   map[string]int      // by how much the own target of a group with a drift changed since the tick before
	tasks   map[string]int      // of the nodes that stay, by id
	oldest  map[string][]string // these nodes by group, the oldest first
	leave   map[string]int      // candidates that the scheduler can empty, by group
	back    map[string]int      // leaving nodes that it wants back, by group
}

// warned is a machine that the provider announced to end, and when that was handled.
type warned struct {
	of *life
	at time.Time
}

// loss is a machine that disappeared without a drain.
type loss struct {
	of    *life
	place int       // among the serving machines of its group, by age; -1: it did not serve
	at    time.Time // when the provider launched another one in its place, or the tick that missed it
}

// targetsAfter returns the targets of the groups after the actions of a tick.
func targetsAfter(t api.TickRecord) map[string]int {
	out := map[string]int{}
	for _, g := range t.Snapshot.Groups {
		out[g.ID] = g.Target
	}
	for _, a := range t.Actions {
		if a.Op == api.OpSetTarget && a.Error == "" {
			out[a.Group] = a.Target
		}
	}
	return out
}

// tickOf returns the parts of a tick that do not need the ticks before.
func (r *Recording) tickOf(t api.TickRecord) recordedTick {
	c := *t.Case
	tick := recordedTick{
		at: t.At, every: t.Every, epoch: t.Epoch, of: &c, result: api.CaseResult{Target: t.Result.Target, Groups: t.Result.Groups},
		groups: t.Snapshot.Groups, drift: t.Drift, refused: refusals(t), silent: map[string]bool{},
		orders: ordersOf(t, func(node string) string { return r.groupOf(node, c.Nodes) }),
	}
	for _, d := range t.Drift {
		if before := r.own[d.Group].LastTarget; before != nil {
			if tick.moved == nil {
				tick.moved = map[string]int{}
			}
			tick.moved[d.Group] = d.LastTarget - *before
		}
	}
	r.own = t.State.Groups
	tick.need, tick.request = needs(t)
	tick.tasks, tick.oldest = tasksByAge(c.Nodes)
	for _, a := range c.Input.Apps {
		r.apps[a.Name] = true
	}
	if c.Disruption != nil {
		tick.limit = max(1, *c.Disruption+r.out)
	}
	if c.Places != nil {
		places := *c.Places
		tick.leave, tick.back = map[string]int{}, map[string]int{}
		for _, id := range places.Leave {
			tick.leave[r.groupOf(id, c.Nodes)]++
		}
		for _, id := range places.Back {
			tick.back[r.groupOf(id, nil)]++
		}
		places.Leave, places.Stay, places.Back, places.Sizes = nil, nil, nil, nil
		c.Places = &places
	}
	r.groupsOf(t)
	c.Nodes = nil
	return tick
}

// tasksByAge returns the tasks of the joined nodes, and the nodes of each group, the oldest first.
func tasksByAge(nodes []api.Candidate) (tasks map[string]int, oldest map[string][]string) {
	sorted := make([]*api.Candidate, 0, len(nodes))
	for i := range nodes {
		if nodes[i].Node.Joined() {
			sorted = append(sorted, &nodes[i])
		}
	}
	slices.SortStableFunc(sorted, func(a, b *api.Candidate) int { return cmp.Compare(b.Uptime, a.Uptime) })
	tasks, oldest = map[string]int{}, map[string][]string{}
	for _, n := range sorted {
		tasks[n.ID], oldest[n.Group] = n.Tasks, append(oldest[n.Group], n.ID)
	}
	return tasks, oldest
}

// refusals returns the errors of the targets that the provider did not set.
func refusals(t api.TickRecord) map[string]error {
	var out map[string]error
	for _, a := range t.Actions {
		if a.Op != api.OpSetTarget || a.Error == "" {
			continue
		}
		if out == nil {
			out = map[string]error{}
		}
		out[a.Group] = refused(t.State.Backoffs, a.Group, a.Error)
	}
	return out
}

// refused returns the error of a refused call. The backoff of the group that has this error shows what kind of error it was; without
// why it is that of the backoff that ends last.
func refused(backoffs []api.GroupBackoff, group, why string) error {
	var of *api.GroupBackoff
	for i := range backoffs {
		b := &backoffs[i]
		has := why != "" && strings.Contains(why, strings.TrimSuffix(b.Why, "..."))
		if b.Group == group && (of == nil || has || why == "" && b.Until.After(of.Until)) {
			of = b
		}
	}
	switch {
	case of == nil:
		return errors.New(why)
	case of.Scale == api.BackoffUnclear:
		return errors.New(cmp.Or(why, of.Why))
	case of.Scale == api.BackoffPassing:
		return fmt.Errorf("%w: %s", pools.ErrThrottled, cmp.Or(why, of.Why))
	case of.KeepsTarget:
		return fmt.Errorf("%w: %s", pools.ErrRefused, cmp.Or(why, of.Why))
	}
	return fmt.Errorf("%w: %s", pools.ErrShort, cmp.Or(why, of.Why))
}

// needs returns what the apps need by their own signals, and the request of all apps.
func needs(t api.TickRecord) (own map[string]resource.Vector, all resource.Vector) {
	if t.Detail == nil {
		return nil, all
	}
	vector := func(r resource.Request) (v resource.Vector) {
		for _, k := range resource.Kinds() {
			v[k], _ = r.Get(k)
		}
		return v
	}
	own = map[string]resource.Vector{}
	for _, a := range t.Detail.Apps {
		if a.Source == api.FromSignal || a.Source == api.FromHeld {
			own[a.App] = vector(a.Request)
		}
	}
	return own, vector(t.Detail.Request)
}

// ordersOf returns the orders of a tick. A removal names the group in place of the node.
func ordersOf(t api.TickRecord, group func(node string) string) (out api.Orders) {
	in := t.Case.Input
	for _, o := range t.Orders {
		note := o.Note
		note.Until = time.Time{} // each record has the orders in force
		switch o.Kind {
		case api.OrderOffset:
			out.Offset = &api.Offset{Note: note, Weight: in.Offset}
		case api.OrderPin:
			if in.Pinned != nil {
				out.Pin = &api.Pin{Note: note, Target: *in.Pinned}
			}
		case api.OrderRemoval:
			out.Removals = append(out.Removals, api.Removal{Note: note, Node: group(o.Subject)})
		case api.OrderRoll:
			out.Stale = append(out.Stale, api.StaleMark{Note: o.Note, Group: o.Subject})
		case api.OrderRotation:
			out.Stale = append(out.Stale, api.StaleMark{Note: o.Note, Where: o.Subject})
		case api.OrderResume:
			out.Resume = new(o.Note)
		}
	}
	out.LossSuspected = in.NoScaleIn
	return out
}
