package simulate

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// follow follows the machines of a record.
func (r *Recording) follow(tick *recordedTick, t api.TickRecord) {
	joined, replaced, before := map[string]int{}, map[string][]time.Time{}, r.lastDecided()
	for _, one := range r.alive {
		if n := len(one.unstored); n > 0 && one.unstored[n-1].Equal(before) && one.ended.IsZero() && !stays(t.Case, one.id) {
			one.ended = before // its termination was accepted all the same
		}
	}
	for i := range t.Case.Nodes {
		n := &t.Case.Nodes[i]
		if n.Instance == api.InstanceTerminating {
			continue
		}
		one := r.byID[n.ID]
		if one == nil {
			one = r.appear(n.ID, n.Group, n.Weight, t.At.Add(-max(0, n.Uptime))) // a slow read finds later launches
			if one.launched.After(before) && one.launched.Before(t.At) {
				replaced[n.Group] = append(replaced[n.Group], one.launched)
			}
		}
		if n.Instance == api.InstanceRunning && one.ran.IsZero() {
			one.ran = t.At
		}
		switch one.seen = t.At; {
		case n.Node.Joined() && one.joined.IsZero():
			one.joined = t.At
		case !n.Node.Joined() && !one.joined.IsZero():
			tick.silent[n.ID] = true
		}
		if !n.Draining && one.ended.IsZero() {
			one.undo() // a case has no draining node
		}
	}
	for _, id := range t.Snapshot.Others {
		if one := r.byID[id]; one != nil {
			one.seen = t.At
		}
	}
	for _, id := range t.Snapshot.Silent {
		if one := r.byID[id]; one != nil && !one.joined.IsZero() {
			tick.silent[id] = true
		}
	}
	for _, one := range r.alive {
		if !one.joined.IsZero() && one.joined.Before(t.At) && one.chosen.IsZero() {
			joined[one.group]++
		}
	}
	for group, all := range replaced {
		slices.SortFunc(all, time.Time.Compare)
		replaced[group] = slices.DeleteFunc(all, func(at time.Time) bool { // a warned machine was replaced
			return slices.ContainsFunc(r.alive, func(one *life) bool { return !one.taken.IsZero() && one.taken.Sub(at).Abs() < time.Second })
		})
	}
	taken := r.followDrains(tick, t, before)
	r.followTargets(t)
	place, vanished, drains := map[string]int{}, map[string]bool{}, map[string]bool{}
	for _, d := range t.Drains {
		drains[d.Node] = true
		vanished[d.Node] = d.State == api.DrainGone && d.EndAccepted.IsZero() && !d.ProviderEnds
	}
	lost := func(one *life, place int) {
		at := t.At
		if next := replaced[one.group]; len(next) > 0 {
			at, replaced[one.group] = next[0], next[1:]
		}
		tick.losses = append(tick.losses, loss{one, place, at})
		if place < 0 && !one.taken.IsZero() {
			one.taken = at
		}
	}
	for _, one := range taken {
		lost(one, -1)
	}
	r.alive = slices.DeleteFunc(r.alive, func(one *life) bool {
		exists := one.seen.Equal(t.At)
		if exists && one.drains && !drains[one.id] && one.ended.IsZero() {
			one.undo() // by the actions of this tick
		}
		one.drains = drains[one.id]
		serves := !one.joined.IsZero() && one.chosen.IsZero()
		if exists {
			if serves && one.joined.Before(t.At) {
				place[one.group]++
			}
			return false
		}
		one.gone = t.At
		switch {
		case serves:
			lost(one, place[one.group])
			place[one.group]++
		case one.chosen.IsZero(), vanished[one.id] && one.taken.IsZero():
			lost(one, -1)
		case !one.chosen.IsZero() && one.ended.IsZero() && one.taken.IsZero():
			if one.ended = one.chosen.Add(apply.TendEvery); len(one.refusals) > 0 { // between two ticks
				one.ended = t.At
			}
		}
		return true
	})
	tick.before = joined
	slices.SortStableFunc(tick.losses, func(a, b loss) int { return a.at.Compare(b.at) })
	r.out = 0
	for _, d := range t.Drains {
		if !d.InService() && d.State != api.DrainGone {
			r.out++
		}
	}
	r.out += len(t.Snapshot.Quarantined)
}

// followDrains follows the drains of a record, as they are after its actions. before is the time of the tick before it. It returns the
// draining machines that the provider ended without a warning.
func (r *Recording) followDrains(tick *recordedTick, t api.TickRecord, before time.Time) (taken []*life) {
	for _, d := range t.Drains {
		one := r.byID[d.Node]
		if one == nil {
			one = r.appear(d.Node, d.Group, d.Weight, before.Add(t.At.Sub(before)/2)) // launched since the tick before
			if r.start == nil {
				one.launched, one.joined = t.At, t.At
			}
		}
		if d.State != api.DrainGone {
			one.seen = t.At
		}
		if d.InService() {
			one.undo()
			continue
		}
		announced := d.Reason == api.DrainSpot || d.Reason == api.DrainRebalance
		if announced && (one.chosen.IsZero() || one.reason != d.Reason) { // a warning may be stronger than an earlier drain
			at := t.At
			if sent := d.CordonSent; one.chosen.IsZero() && sent.Before(t.At) && sent.After(before) {
				at = sent
			} else if !one.chosen.IsZero() && one.chosen.Before(t.At) {
				at = before.Add(1) // it came before the end of the drain
			}
			tick.warned = append(tick.warned, warned{one, at})
		}
		if one.chosen.IsZero() {
			one.chosen, one.announced = t.At, announced
			if d.Reason == api.DrainScaleIn && d.Since.Equal(t.At) {
				r.draining.Threshold = max(r.draining.Threshold, d.Deadline.Sub(d.Since))
			}
		}
		one.reason = d.Reason
		if d.ProviderEnds {
			if !announced && one.taken.IsZero() {
				taken = append(taken, one)
			}
			one.taken = cmp.Or(one.taken, d.Deadline)
			if ends := d.State == api.DrainTerminating || d.State == api.DrainGone; ends && d.Since.Before(one.taken) {
				one.taken = d.Since
			}
		}
		if one.joined.IsZero() && !d.CordonSent.IsZero() {
			one.joined = d.CordonSent // a case does not list it
		}
		if one.joined.IsZero() && d.State == api.DrainChosen && !d.Hold && stateOf(t.Case.Nodes, d.Node) == api.NodeOrphaned {
			one.joined = t.At.Add(1) // a drain waits for the next reading if the node of an orphan reports
			tick.late = append(tick.late, one)
		}
		one.cordoned = cmp.Or(one.cordoned, d.CordonSent)
		switch {
		case d.State != api.DrainDrained && d.State != api.DrainTerminating && d.State != api.DrainGone:
			one.idle, one.busy = time.Time{}, t.At // also after a termination that was refused until its node joined
		case !one.idle.IsZero():
		case d.State != api.DrainGone:
			one.idle = d.Since
		}
		if one.ended.IsZero() {
			one.ended = d.EndAccepted
		}
		r.draining.Force = r.draining.Force || d.Why == drain.Forced
		failed := errorOf(t.Actions, d.Node)
		switch {
		case !one.ended.IsZero() || d.ProviderEnds:
		case failed != "" && d.State == api.DrainTerminating && !backsOff(t.State.Removals, d.Group):
			one.unstored = append(one.unstored, t.At)
		case failed != "":
			one.refusals = append(one.refusals, refusal{at: t.At, why: refused(t.State.Removals, d.Group, failed), unsaved: d.State == api.DrainTerminating})
		case d.State == api.DrainTerminating && len(one.unstored) == 0 && (len(one.refusals) == 0 || d.Since.After(one.refusals[len(one.refusals)-1].at)): // between two ticks
			one.refusals = append(one.refusals, refusal{at: d.Since, why: refused(t.State.Removals, d.Group, ""), unsaved: true})
		}
	}
	for _, a := range t.Actions {
		if one := r.byID[a.Node]; one != nil && a.Op == api.OpRemove && a.Error == "" && one.chosen.IsZero() {
			one.chosen, one.reason = t.At, api.DrainScaleIn
		}
	}
	return taken
}

// followTargets finds the terminations that were refused after the target of their group was lowered for them: since the record before
// the target fell, and the weight beyond it grew by theirs.
func (r *Recording) followTargets(t api.TickRecord) {
	targets := targetsAfter(t)
	for _, g := range t.Snapshot.Groups {
		if g.Unknown != nil {
			continue
		}
		more, fell := max(0, g.Fulfilled-float64(g.Target))-r.over[g.ID], r.targets[g.ID]-g.Target
		r.over[g.ID] = max(0, g.Fulfilled-float64(targets[g.ID]))
		for _, one := range r.alive {
			if one.group != g.ID || !one.ended.IsZero() || more < one.weight || float64(fell) < one.weight {
				continue
			}
			if of := one.refusal(t.At.Add(-1)); of != nil && !of.lowered {
				of.lowered = true
				more -= one.weight
			}
		}
	}
	r.targets = targets
}

// backsOff reports whether a group is in a backoff.
func backsOff(backoffs []api.GroupBackoff, group string) bool {
	return slices.ContainsFunc(backoffs, func(b api.GroupBackoff) bool { return b.Group == group })
}

// stays reports whether the instance of a node is not terminating.
func stays(c *api.Case, id string) bool {
	return slices.ContainsFunc(c.Leaving, func(n api.Leaver) bool { return n.ID == id }) || stateOf(c.Nodes, id) != ""
}

// stateOf returns the state of a node; empty: it is not one of these.
func stateOf(nodes []api.Candidate, id string) api.NodeState {
	if i := slices.IndexFunc(nodes, func(n api.Candidate) bool { return n.ID == id }); i >= 0 {
		return nodes[i].Node
	}
	return ""
}

// errorOf returns the error of the action of a node; empty: none failed.
func errorOf(actions []api.Action, node string) string {
	for _, a := range actions {
		if a.Node == node && a.Error != "" {
			return a.Error
		}
	}
	return ""
}

func (r *Recording) appear(id, group string, weight float64, launched time.Time) *life {
	one := &life{id: id, group: group, weight: weight, launched: launched}
	r.byID[id], r.lives, r.alive = one, append(r.lives, one), append(r.alive, one)
	return one
}
