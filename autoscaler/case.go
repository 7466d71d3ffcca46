package autoscaler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/pools/rotate"
	"github.com/weirkeeper/weirkeeper/signals/calendar"
)

// caseOf returns the case of a reading, the opinions and the orders, with the account of the
// groups. It changes nothing. The prices are multiplied by assumption.
func (l *Loop) caseOf(now time.Time, r apply.Reading, orders api.Orders, prices []api.PriceFactor) (api.Case, resolve.Account) {
	c := api.Case{Busy: r.Busy(), Limits: l.config.Prune, OrphansAfter: l.config.OrphansAfter, FailedBoots: l.config.FailedBoots, Leaving: r.Records.Returnable(r.Snapshot)}
	c.Closed = closed(l.config.Windows, now)
	state := r.State
	state.Groups = maps.Clone(state.Groups)
	turns := rotation(l.config, &c, now, r, orders, &state)
	for group, of := range state.Groups {
		of.Surge = min(of.Surge, c.Stale[group])
		state.Groups[group] = of
	}
	learnBoots(l.config, now, r, &state)
	c.Markets = learnMarkets(l.config, priceAt(l.world.Price, prices, now), now, r, &state)
	c.State = updateBackoffs(now, r.Groups, state, decide.ClockAt(state.DecisionState, now), func(group string) bool {
		return l.writer.Raised(group) && !state.Groups[group].Boots.Stuck(l.config.FailedBoots)
	})
	c.Keeps = keeps(r.Groups, c.State, now)
	account := r.Account(c.State)
	fillGroups(&c, r.Groups, account)
	fillNodes(&c, now, r, turns)
	limitStuck(l.config, &c)
	c.Input = l.input(now, c, r.Snapshot)
	limitTrials(&c)
	c.Input.NoScaleIn = cmp.Or(c.Input.NoScaleIn, orders.LossSuspected, newState(now, orders.StateCreated, r.Snapshot))
	c.Input.Offset, c.Input.Pinned = ordered(orders, l.config.Policy.Limits)
	switch budget := r.Records.Disruption(r.Snapshot); {
	case len(r.Silent) > 0:
		c.Refuse = "some nodes are silent: no node is removed"
	case r.Condition.Unknown != "":
		c.Refuse = r.Condition.Unknown
	case budget.Bounded():
		c.Disruption, c.DisruptionLimit = new(max(0, budget.Limit-len(budget.Out))), budget.Limit
	}
	return c, account
}

// closed returns the work of a tick that waits for a window, and why.
func closed(windows calendar.Windows, now time.Time) map[api.Work]string {
	var out map[api.Work]string
	for _, work := range []api.Work{api.WorkRoll, api.WorkRotate, api.WorkScaleIn} {
		if why, _ := windows.Closed(string(work), now); why != "" {
			if out == nil {
				out = map[api.Work]string{}
			}
			out[work] = why
		}
	}
	return out
}

// keeps returns the groups whose nodes cannot be removed now, with the reason.
func keeps(groups []pools.GroupSnapshot, s api.PoolState, now time.Time) map[string]string {
	var out map[string]string
	clock := decide.ClockAt(s.DecisionState, now)
	removals := plan.InBackoff(s.Removals, clock)
	for _, g := range groups {
		why := g.Keeps
		if q, held := removals[g.ID]; held && why == "" {
			why = fmt.Sprintf("terminations fail, the next one is tried at %s: %s", now.Add(q.Until.Sub(clock)).UTC().Format(time.RFC3339), q.Why)
		}
		if why == "" {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[g.ID] = decide.OneLine(why)
	}
	return out
}

// ordered returns the operators' orders about the target.
func ordered(orders api.Orders, limits api.TargetLimits) (offset float64, pinned *float64) {
	if o := orders.Offset; o != nil {
		offset = o.Weight
	}
	pin := orders.Pin
	if pin == nil {
		return offset, nil
	}
	switch pin.Bound {
	case "min":
		return offset, new(limits.Min)
	case "max":
		return offset, new(limits.Max)
	}
	return offset, new(pin.Target)
}

// fillGroups sets the shares of the groups. The share of a group is at most its maximum less the
// rest of its target.
func fillGroups(c *api.Case, groups []pools.GroupSnapshot, account resolve.Account) {
	c.Groups, c.Has = make([]api.GroupTarget, len(groups)), make(map[string]int, len(groups))
	for i, g := range groups {
		of := account.Groups[i]
		c.Groups[i] = api.GroupTarget{ID: g.ID, Target: of.Share(), Min: g.Min, Max: g.Max, Stale: g.Stale}
		if g.Max != api.Unbounded {
			c.Groups[i].Max = max(0, g.Max-of.Beside())
		}
	}
}

// fillNodes sets the nodes that stay, and their part of each group.
func fillNodes(c *api.Case, now time.Time, r apply.Reading, turns rotate.Output) {
	leaving := r.Records.Leaving()
	c.Nodes, c.Joined = make([]api.Candidate, 0, len(r.Nodes)), r.Joined
	inPlace, has := r.Records.InPlace(), make(map[string]float64, len(r.Groups))
	for _, n := range r.Nodes {
		aside := r.Quarantined(n.Instance.ID) // r.Joined excludes it
		if leaving[n.Instance.ID] && !aside {
			c.Joined -= n.JoinedWeight()
		}
		if leaving[n.Instance.ID] || aside {
			continue
		}
		id := n.Instance.ID
		held, marked := turns.Marked[id]
		n.Instance.Stale = n.Instance.Stale || marked
		candidate := plan.CandidateOf(now, n)
		candidate.Repairing, candidate.Held, candidate.Trial = inPlace[id], held, turns.Trial[id]
		candidate.Unhealthy = candidate.Unhealthy || turns.Failed[id] // it serves nothing that lasts, and goes first
		c.Nodes = append(c.Nodes, candidate)
		if n.Instance.State != api.InstanceTerminating {
			has[n.Instance.Group] += n.Instance.Weight
		}
	}
	for _, g := range r.Groups {
		c.Has[g.ID] = resolve.Whole(has[g.ID])
	}
}

// updateBackoffs returns the state with the backoffs of these groups. If the provider reports a group
// short after its last raise or shortage, the group is in backoff. If a raised group has filled up,
// its backoff ends.
func updateBackoffs(now time.Time, groups []pools.GroupSnapshot, s api.PoolState, clock time.Time, raised func(group string) bool) api.PoolState {
	out := slices.Clone(s.Backoffs)
	for group, of := range s.Groups {
		if of.At.After(now) { // the clock went back
			of.At = now
			s.Groups[group] = of
		}
	}
	inBackoff := plan.InBackoff(out, clock)
	there := make(map[string]bool, len(groups))
	for _, g := range groups {
		there[g.ID] = true
		backoff, held := inBackoff[g.ID]
		held = held && !backoff.KeepsTarget
		filled := g.Fulfilled() >= float64(g.Target)
		switch {
		case held:
		case g.Short != "" && g.ShortAt.After(s.Groups[g.ID].At) && !filled:
			out = plan.AddFailure(out, g.ID, decide.OneLine(g.Short), api.BackoffLasting, clock)
			of := s.Groups[g.ID]
			of.At = now
			s.Groups[g.ID] = of
		case filled && raised(g.ID):
			out = plan.ClearBackoff(out, g.ID)
		}
	}
	s.Backoffs = slices.DeleteFunc(out, func(b api.GroupBackoff) bool { return !there[b.Group] })
	return s
}

// input returns the input of the rules, except history and orders.
func (l *Loop) input(now time.Time, c api.Case, v *snapshot.Snapshot) api.DecisionInput {
	opinions := l.signals.Opinions()
	return api.DecisionInput{
		Now: now, Policy: l.config.Policy, Default: opinions.Default, Apps: opinions.Apps, Lost: v.Lost, Barred: v.Condition.Barred,
		Capacity: api.PoolCapacity{
			Target: *c.State.Wanted, Joined: v.Joined, Totals: v.Totals,
		},
		NoScaleIn: l.noScaleIn(v, opinions.Short),
	}
}

// noScaleIn returns which required knowledge is missing for a scale-in, or an empty string. short
// is Opinions.Short.
func (l *Loop) noScaleIn(v *snapshot.Snapshot, short string) string {
	if why := v.Unknown(); why != "" {
		return why
	}
	if n := len(v.Silent); n > 0 {
		return fmt.Sprintf("%d nodes exist but are silent, %s first: their tasks are unknown", n, v.Silent[0])
	}
	if len(v.Beyond) > 0 {
		return v.Beyond[0].String()
	}
	if l.lost != nil {
		return fmt.Sprintf("the last tick could not be recorded: %v", l.lost)
	}
	if h := l.writer.ConfigurationHold(); short == "" && h != nil {
		return h.Why
	}
	return short
}
