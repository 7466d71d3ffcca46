package resolve

import (
	"errors"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// Round raises the targets of the groups in one tick, in one or more steps. The part that a group
// refuses is distributed to the others, until no group refuses. A group that refused is not raised
// again in the same Round. The last step lowers the groups in backoff to the weight that they have,
// as other groups replace them.
//
//	round := NewRound(c, o, account)
//	for changes := round.Next(); len(changes) > 0; changes = round.Next() {
//		for _, change := range changes {
//			round.Report(change, setTarget(change)) // with the error of the provider
//		}
//	}
type Round struct {
	c            api.Case
	o            Outcome
	distribution api.Distribution // the newest
	shares       []api.GroupTarget
	has          map[string]int
	groups       []roundGroup
	backoffs     []api.GroupBackoff
	refused      bool // a raise was refused since the newest distribution
	lowered      bool // the last step was returned
	err          error
}

// roundGroup is one group in a Round. Group.Target is the newest target.
type roundGroup struct {
	Group
	beside       int // the part of Target that is not a share
	prunedWeight int // weight of pruned nodes that Target must include, to lose it with them
	surged       int // surge ordered in this Round, less what a lowering lost
	reached      bool
	failed       error
	// unanswered is an earlier requested target that may be in effect, although Target is smaller.
	// No raise is below it.
	unanswered int
}

// TargetChange is a new target of one group.
type TargetChange struct {
	Group  string
	Target int    // at the provider, absolute
	Why    string // reason of a lowering; empty for a raise

	share int // part of Target that is in the terms of Case.Groups
	surge int // surge that Target adds
}

// Raises reports whether c raises the target of its group.
func (c TargetChange) Raises() bool { return c.Why == "" }

// NewRound returns a Round without changes. a is the account of the groups as they were read.
func NewRound(c api.Case, o Outcome, a Account) *Round {
	r := &Round{c: c, o: o, distribution: o.Distribution, backoffs: c.State.Backoffs}
	r.shares, r.has = takenBack(c, &Outcome{Decision: o.Decision})
	prunedWeight := weightOfPruned(c, o.Pruned.Choices)
	r.groups = make([]roundGroup, len(a.Groups))
	for i, g := range a.Groups {
		g.Leaving = slices.DeleteFunc(slices.Clone(g.Leaving), func(l api.Leaver) bool { return slices.Contains(o.TakeBack, l) })
		r.groups[i] = roundGroup{Group: g.Group, beside: g.Beside(), prunedWeight: prunedWeight[g.ID],
			unanswered: unansweredTarget(c.State.Groups[g.ID].Unanswered)}
	}
	return r
}

// Planned returns the targets after the Round if no group refuses.
func (r *Round) Planned() map[string]int {
	out := map[string]int{}
	for _, change := range append(r.raises(), r.lowerings()...) {
		out[change.Group] = change.Target
	}
	return out
}

// Next returns the changes of the next step, at most one for each group. They may be made
// concurrently. After the last step it returns nothing.
func (r *Round) Next() []TargetChange {
	if r.refused {
		r.refused = false
		r.distribution, r.err = distribute(r.c, r.o, boundGroups(r.c, r.shares, r.groupsInBackoff(), r.has))
	}
	if r.lowered {
		return nil
	}
	if raises := r.raises(); r.err == nil && len(raises) > 0 {
		return raises
	}
	r.lowered = true
	return r.lowerings()
}

// Report applies the result of one change: nil, or the error of the provider.
func (r *Round) Report(change TargetChange, err error) {
	g := r.group(change.Group)
	switch {
	case err == nil && change.Raises():
		r.reach(g, change)
	case err == nil:
		g.surged -= min(g.Target-change.Target, r.c.State.Groups[g.ID].Surge) // the surge is lost first
		g.Target = change.Target
	default:
		g.failed = err
		if change.Raises() {
			r.backOff(g.ID, err)
		}
	}
}

// Refused reports whether the provider has changed nothing and will not soon, so that the group is
// in backoff for a while.
func Refused(err error) bool {
	return errors.Is(err, pools.ErrShort) || errors.Is(err, pools.ErrRefused) || errors.Is(err, pools.ErrThrottled)
}

// Backoffs returns the backoffs of Case.State and of the groups that refused.
func (r *Round) Backoffs() []api.GroupBackoff { return r.backoffs }

// Surged returns by how much the surge of each group changed.
func (r *Round) Surged() map[string]int {
	out := map[string]int{}
	for _, g := range r.groups {
		if g.surged != 0 {
			out[g.ID] = g.surged
		}
	}
	return out
}

// Ordered returns the ordered surge.
func (r *Round) Ordered() int {
	sum := 0
	for _, g := range r.groups {
		sum += max(0, g.surged)
	}
	return sum
}

// Released divides the chosen nodes: those that leave now, and those that stay because the raise that
// would hold the share of their group failed in this Round. The end of a node lowers its group's target.
func (r *Round) Released(choices []plan.Choice) (leave, stay []plan.Choice) {
	shares := r.distribution.Targets()
	for _, one := range choices {
		leave = append(leave, one)
		g := r.group(one.Group)
		if g.failed != nil && weightOfPruned(r.c, leave)[g.ID] > g.Target-g.beside-shares[g.ID] {
			leave, stay = leave[:len(leave)-1], append(stay, one)
		}
	}
	return leave, stay
}

// Err returns why the refused part could not be distributed again, or nil.
func (r *Round) Err() error { return r.err }

// reach records that a group has the target of a raise: the provider answered, and whether it has the capacity shows later.
func (r *Round) reach(g *roundGroup, change TargetChange) {
	r.backoffs = plan.ClearBackoff(r.backoffs, g.ID, api.BackoffPassing, api.BackoffUnclear)
	share := r.share(g.ID)
	if n, known := r.has[g.ID]; known { // it was granted
		r.has[g.ID] = n + change.share - share.Target
	}
	share.Target = change.share
	g.Target, g.reached = change.Target, true
	g.beside += change.surge
	g.surged += change.surge
}

func (r *Round) backOff(group string, err error) {
	scale := ScaleOf(err)
	r.backoffs = plan.AddFailure(r.backoffs, group, decide.OneLine(err.Error()), scale, r.o.Decision.State.Clock)
	if !errors.Is(err, pools.ErrShort) {
		r.backoffs = plan.KeepTarget(r.backoffs, group, scale)
	}
	r.refused = true
}

// ScaleOf returns how long the cause of a failed request lasts.
func ScaleOf(err error) api.BackoffScale {
	switch {
	case errors.Is(err, pools.ErrThrottled):
		return api.BackoffPassing
	case Refused(err):
		return api.BackoffLasting
	}
	return api.BackoffUnclear
}

// groupsInBackoff returns the groups in backoff, including those of this Round.
func (r *Round) groupsInBackoff() map[string]api.GroupBackoff {
	return heldGroups(r.c, r.backoffs, r.o.Decision.State.Clock)
}

// raises returns the targets of the groups that grow, that get a surge, or that keep their share
// while leaving nodes take more of the target with them.
func (r *Round) raises() []TargetChange {
	var out []TargetChange
	for _, s := range r.distribution.Shares {
		g, had := r.group(s.Group), r.share(s.Group).Target
		if g.failed != nil || g.Stale || r.c.Busy[s.Group] != "" {
			continue
		}
		change := TargetChange{Group: s.Group, share: max(s.After, had), surge: r.o.Surge[s.Group]}
		if g.surged > 0 {
			change.surge = 0
		}
		// To keep a share, a target beyond the existing weight would only launch nodes that are
		// drained next.
		keeps := min(s.After+g.prunedWeight+g.beside, Whole(g.Fulfilled))
		most := max(g.Target, g.Max)
		change.Target = min(max(change.share+g.beside, keeps)+change.surge, most)
		if change.Target > g.Target {
			change.Target = max(change.Target, min(g.unanswered, most))
			out = append(out, change)
		}
	}
	return out
}

// lowerings returns the targets of the groups in backoff whose target is larger than the weight
// that they have.
func (r *Round) lowerings() []TargetChange {
	inBackoff := r.groupsInBackoff()
	var out []TargetChange
	for _, g := range r.groups {
		backoff, held := inBackoff[g.ID]
		target := max(g.Min, Whole(g.Fulfilled))
		switch {
		case g.reached: // it was granted more in this Round
		case g.failed != nil && (!Refused(g.failed) || errors.Is(g.failed, pools.ErrThrottled)):
		case held && !backoff.KeepsTarget && !g.Stale && target < g.Target:
			out = append(out, TargetChange{Group: g.ID, Target: target, Why: "set aside: " + backoff.Why})
		}
	}
	return out
}

func (r *Round) group(id string) *roundGroup {
	return &r.groups[slices.IndexFunc(r.groups, func(g roundGroup) bool { return g.ID == id })]
}

func (r *Round) share(id string) *api.GroupTarget {
	return &r.shares[slices.IndexFunc(r.shares, func(g api.GroupTarget) bool { return g.ID == id })]
}
