package autoscaler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// prepared is a Case, and what of the pool it leaves out.
type prepared struct {
	resolve.Case
	account resolve.Account
}

// prepare makes the case of what was seen, heard and ordered, by a state that knows
// these groups. It changes nothing.
func (l *Loop) prepare(now time.Time, v *snapshot.Snapshot, state resolve.State, orders pools.Orders) prepared {
	var p prepared
	leaving := leavingNodes(l.drains.Records())
	marks := markedOf(v, orders.Stale, leaving)
	for group, weight := range marks.weight {
		if p.Stale == nil {
			p.Stale = map[string]int{}
		}
		p.Stale[group] = resolve.Whole(weight)
	}
	state.Groups = maps.Clone(state.Groups)
	for group, of := range state.Groups {
		of.Surge = min(of.Surge, p.Stale[group])
		state.Groups[group] = of
	}
	clock := ownTime(state.State, now)
	state = l.quarantines(now, v, state, clock)
	p.State, p.Busy, p.Limits, p.OrphansAfter = state, v.Busy(), l.config.Prune, l.config.OrphansAfter
	p.Leaving = l.returnable()
	p.account = state.Account(l.groups(v, found))
	p.fillGroups(v)
	p.fillNodes(now, v, leaving, marks.ids)
	p.mark(mendingNodes(l.drains.Records()))
	p.Input = l.input(now, p.Case, v)
	p.Input.Offset, p.Input.Pinned = l.ordered(orders)
	if len(v.Silent) > 0 {
		p.Refuse = "some nodes are silent: nobody is let go"
	}
	return p
}

// ownTime is the rules' own time at now: that of the last tick, and what has gone by
// since, unless the clock was put back.
func ownTime(s decide.State, now time.Time) time.Time {
	if s.Clock.IsZero() || s.Wall.IsZero() {
		return now
	}
	return s.Clock.Add(max(0, now.Sub(s.Wall)))
}

// ordered returns what operators want of the target.
func (l *Loop) ordered(orders pools.Orders) (offset float64, pinned *float64) {
	if o := orders.Offset; o != nil {
		offset = o.Weight
	}
	pin := orders.Pin
	if pin == nil {
		return offset, nil
	}
	switch pin.Bound {
	case "min":
		return offset, new(l.config.Policy.Limits.Min)
	case "max":
		return offset, new(l.config.Policy.Limits.Max)
	}
	return offset, new(pin.Target)
}

// fillGroups sets the shares of the groups: a group cannot hold more than its maximum
// together with what its target holds beside.
func (p *prepared) fillGroups(v *snapshot.Snapshot) {
	p.Groups, p.Has = make([]plan.GroupTarget, len(v.Groups)), make(map[string]int, len(v.Groups))
	for i, g := range v.Groups {
		of := p.account.Groups[i]
		p.Groups[i] = plan.GroupTarget{ID: g.ID, Target: of.Share(), Min: g.Min, Max: g.Max, Stale: g.Stale}
		if g.Max != pools.Unlimited {
			p.Groups[i].Max = max(0, g.Max-of.Beside())
		}
	}
}

// fillNodes sets the nodes that stay, and what of the groups they are.
func (p *prepared) fillNodes(now time.Time, v *snapshot.Snapshot, leaving, marked map[string]bool) {
	p.Nodes, p.Joined = make([]plan.Candidate, 0, len(v.Nodes)), v.Joined
	has := make(map[string]float64, len(v.Groups))
	for _, n := range v.Nodes {
		if leaving[n.Instance.ID] {
			p.Joined -= n.JoinedWeight()
			continue
		}
		n.Instance.Stale = n.Instance.Stale || marked[n.Instance.ID]
		p.Nodes = append(p.Nodes, plan.CandidateOf(now, n))
		if n.Instance.State != pools.InstanceTerminating {
			has[n.Instance.Group] += n.Instance.Weight
		}
	}
	for _, g := range v.Groups {
		p.Has[g.ID] = resolve.Whole(has[g.ID])
	}
}

// mark marks the nodes that are repaired in place.
func (p *prepared) mark(mending map[string]bool) {
	for i := range p.Nodes {
		p.Nodes[i].Mending = mending[p.Nodes[i].ID]
	}
}

// returnable returns who can be taken back, in the order in which a drain.Machine
// does it: those least on their way first, of these the last chosen.
func (l *Loop) returnable() []resolve.Leaver {
	way := []drain.State{drain.Chosen, drain.Cordoned, drain.Draining, drain.Drained}
	records := slices.DeleteFunc(l.drains.Records(), func(r drain.Record) bool {
		return r.Reason != drain.ScaleIn || !r.State.Leaving() || r.Validate() != nil
	})
	slices.SortStableFunc(records, func(a, b drain.Record) int {
		return cmp.Or(cmp.Compare(slices.Index(way, a.State), slices.Index(way, b.State)), b.Deadline.Compare(a.Deadline))
	})
	var out []resolve.Leaver
	for _, r := range records {
		out = append(out, resolve.Leaver{ID: r.Node, Group: r.Group, Weight: r.Weight})
	}
	return out
}

// quarantines returns the state with the quarantines that are to be kept: a group that
// its provider calls short since it was raised last, or found short, is set aside; one
// that has filled up is let off.
func (l *Loop) quarantines(now time.Time, v *snapshot.Snapshot, s resolve.State, clock time.Time) resolve.State {
	out := slices.Clone(s.Quarantines)
	for group, of := range s.Groups {
		if of.At.After(now) { // the clock was put back
			of.At = now
			s.Groups[group] = of
		}
	}
	held := plan.Held(out, clock)
	there := make(map[string]bool, len(v.Groups))
	for _, g := range v.Groups {
		there[g.ID] = true
		q, aside := held[g.ID]
		aside = aside && !q.Keeps
		filled := g.Fulfilled() >= float64(g.Target)
		switch {
		case aside:
		case g.Short != "" && g.ShortAt.After(s.Groups[g.ID].At) && !filled:
			out = plan.Failed(out, g.ID, decide.OneLine(g.Short), clock)
			of := s.Groups[g.ID]
			of.At = now
			s.Groups[g.ID] = of
		case filled && l.raised[g.ID]:
			out = plan.Recovered(out, g.ID)
		}
	}
	s.Quarantines = slices.DeleteFunc(out, func(q plan.Quarantine) bool { return !there[q.Group] })
	return s
}

func (l *Loop) input(now time.Time, c resolve.Case, v *snapshot.Snapshot) decide.Input {
	opinions := l.signals.Opinions()
	return decide.Input{
		Now: now, Policy: l.config.Policy, Default: opinions.Default, Apps: opinions.Apps, Lost: v.Lost, Barred: v.Condition.Barred,
		Capacity: decide.Capacity{
			Target: *c.State.Wanted, Joined: v.Joined, Totals: v.Totals,
		},
		NoScaleIn: l.noScaleIn(v, opinions.Short),
	}
}

// noScaleIn says what is not known that has to be known before machines may go;
// empty if nothing is. short is that of the opinions.
func (l *Loop) noScaleIn(v *snapshot.Snapshot, short string) string {
	if n := len(v.Silent); n > 0 {
		return fmt.Sprintf("%d nodes are there but silent, %s first: what they run is unknown", n, v.Silent[0])
	}
	if l.lost != nil {
		return fmt.Sprintf("the last tick could not be recorded: %v", l.lost)
	}
	return short
}
