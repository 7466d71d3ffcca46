package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
)

// holdsOf returns what held the pool at a tick, in the order in which the tick meets it. A tick without a cause has no
// holds: then the requests are what the pool has.
func holdsOf(r api.TickRecord) []api.Hold {
	h := &holds{r: r}
	if r.Paused != nil {
		h.addBoth(api.HoldOrder, "pause", "paused "+r.Paused.Text())
	}
	if r.Failed != "" {
		h.addBoth(api.HoldIgnorance, "tick", "the tick ended without a decision: "+r.Failed)
	}
	if r.DryRun {
		h.addBoth(api.HoldInRule, "dry run", "a dry run makes no request to the provider")
	}
	if c := r.ConfigurationHold; c != nil {
		h.addHold(api.DirectionDown, api.HoldInRule, graceHold, c.Why)
	}
	if hasDecision(r) {
		h.addUnknownNeeds()
		h.addMissingKinds()
		h.addRules()
		h.addShort()
		h.addLimits()
		h.addRefusals()
		h.addGroups()
		h.addKeptNodes()
	}
	h.addFailedActions()
	return h.list
}

// graceHold is the name of the hold after a part of the configuration left or changed: the key of the pool file.
const graceHold = "configuration_grace"

// holds collects the holds of a record.
type holds struct {
	r    api.TickRecord
	list []api.Hold
}

// addHold adds a hold, unless the list has one of that direction, kind and name.
func (h *holds) addHold(d api.Direction, kind api.HoldKind, name, why string) {
	h.add(api.Hold{Direction: d, Kind: kind, Name: name, Why: why})
}

func (h *holds) add(one api.Hold) {
	same := func(o api.Hold) bool { return o.Direction == one.Direction && o.Kind == one.Kind && o.Name == one.Name }
	if !slices.ContainsFunc(h.list, same) {
		one.Name, one.Why = decide.OneLine(one.Name), decide.OneLine(one.Why)
		h.list = append(h.list, one)
	}
}

func (h *holds) addBoth(kind api.HoldKind, name, why string) {
	h.addHold(api.DirectionUp, kind, name, why)
	h.addHold(api.DirectionDown, kind, name, why)
}

// addUnknownNeeds adds the apps without a request of their own signal: they may need more.
func (h *holds) addUnknownNeeds() {
	in := h.r.Case.Input
	for _, app := range in.Apps {
		v := app.Opinion.Verdict
		if app.Configured && v != api.VerdictValue && v != api.VerdictNoOpinion {
			h.addHold(api.DirectionUp, api.HoldIgnorance, app.Name, fmt.Sprintf("the need of %s is unknown: its signal %s: %s", app.Name, verdictText(v), app.Opinion.Why))
		}
	}
	if len(in.Apps) == 0 && in.Default.Verdict != api.VerdictValue {
		h.addHold(api.DirectionUp, api.HoldIgnorance, "default signal", fmt.Sprintf("the default signal %s: %s", verdictText(in.Default.Verdict), in.Default.Why))
	}
}

// addMissingKinds adds the requested resources that no machine of the pool has, whatever the other resources need.
func (h *holds) addMissingKinds() {
	in := h.r.Case.Input
	if in.Capacity.Joined <= 0 {
		return // nothing is known about its machines
	}
	for _, k := range resource.Kinds() {
		if in.Capacity.Totals[k] > 0 || slices.Contains(in.Policy.Excluded, k) {
			continue
		}
		for _, app := range h.r.Detail.Apps {
			if requested, _ := app.Request.Get(k); requested > 0 {
				h.addHold(api.DirectionUp, api.HoldInGroup, k.String(), fmt.Sprintf("%s requested %s %s, and no machine of the pool has %s: add a group that has them",
					app.App, strconv.FormatFloat(requested, 'g', 6, 64), k, k))
			}
		}
	}
}

// verdictText describes a response that is no value, as the predicate of a sentence.
func verdictText(v api.Verdict) string {
	switch v {
	case api.VerdictStale:
		return "is stale"
	case api.VerdictNoOpinion:
		return "has no opinion"
	case api.VerdictNotRequested:
		return "has not answered yet"
	}
	return "failed"
}

// addRules adds the rules between the requests and the limits that moved the target.
func (h *holds) addRules() {
	for _, s := range h.r.Result.Steps {
		switch s.Rule {
		case api.RuleAdvisors:
			if s.After > s.Before && s.Before < h.r.Case.Input.Capacity.Target {
				h.addHold(api.DirectionDown, api.HoldInRule, string(s.Rule), s.Why)
			}
		case api.RuleUnknownNeed:
			if s.After > s.Before {
				h.addHold(api.DirectionDown, api.HoldIgnorance, string(s.Rule), s.Why)
			}
		case api.RulePlaces:
			if s.After > s.Before && s.Before < h.r.Case.Input.Capacity.Target {
				h.addHold(api.DirectionDown, api.HoldInNodes, string(s.Rule), s.Why)
			}
		case api.RuleHealth:
			if s.After > s.Before {
				h.addHold(api.DirectionDown, api.HoldBreaker, string(s.Rule), s.Why)
			}
		case api.RulePinned:
			if h.r.Case.Input.Pinned != nil {
				h.addBoth(api.HoldOrder, "pin", s.Why)
			}
		case api.RuleOffset:
			if s.After != s.Before {
				h.addHold(hindered(s.After-s.Before), api.HoldOrder, "offset", s.Why)
			}
		case api.RuleInput:
			h.addBoth(api.HoldInRule, string(s.Rule), s.Why)
		}
	}
}

// addShort adds the copies and free places for which no group can add a machine now, and those that no machine can ever hold.
func (h *holds) addShort() {
	p := h.r.Case.Places
	if p == nil {
		return
	}
	for _, app := range p.Short {
		h.addHold(api.DirectionUp, api.HoldInGroup, app.App, fmt.Sprintf("waiting copies: %s x%d: %s", app.App, app.Copies, app.Why))
	}
	for _, room := range p.Headroom {
		if room.Why != "" {
			h.addHold(api.DirectionUp, api.HoldHeadroom, room.Name, room.Text())
		}
	}
	for _, app := range p.Never {
		h.addHold(api.DirectionUp, api.HoldInGroup, app.App, app.NeverText())
	}
}

// hindered returns the direction that a change hinders.
func hindered(change float64) api.Direction {
	if change > 0 {
		return api.DirectionDown
	}
	return api.DirectionUp
}

// addLimits adds the limits.
func (h *holds) addLimits() {
	in := h.r.Case.Input
	in.State = h.r.Case.State.DecisionState
	before := in.Capacity.Target + in.State.Offset
	wanted := before
	for _, s := range h.r.Result.Steps {
		if s.Rule == api.RuleLimits {
			wanted = s.Before
		}
	}
	d := api.DirectionUp
	if wanted < before {
		d = api.DirectionDown
	}
	for _, b := range decide.Blockers(in, h.r.Result.Steps) {
		kind, direction, name := api.HoldLimit, d, b.Kind.Name(d)
		var until time.Time
		switch b.Kind {
		case decide.BlockerMax:
			direction = api.DirectionUp
		case decide.BlockerMin:
			direction = api.DirectionDown
		case decide.BlockerCooldown:
			kind, name, until = api.HoldCooldown, string(d), cooldownEnd(in, d)
		case decide.BlockerBudget:
			kind = api.HoldBudget
		case decide.BlockerStep:
		case decide.BlockerHealth:
			kind, direction = api.HoldBreaker, api.DirectionDown
		default:
			kind, direction = api.HoldIgnorance, api.DirectionDown
		}
		h.add(api.Hold{Direction: direction, Kind: kind, Name: name, Why: b.Why, Until: until})
	}
}

// cooldownEnd returns when the target may change again in a direction.
func cooldownEnd(in api.DecisionInput, d api.Direction) time.Time {
	last, wait := in.State.Raised, in.Policy.Cooldown.Down
	if in.State.Lowered.After(last) {
		last = in.State.Lowered
	}
	if d == api.DirectionUp {
		wait = in.Policy.Cooldown.Up
	}
	return in.Now.Add(wait - decide.ClockAt(in.State, in.Now).Sub(last)).Round(time.Second)
}

// addRefusals adds why no node may be removed, whatever the target is.
func (h *holds) addRefusals() {
	c := h.r.Case
	refused := cmp.Or(c.Refuse, h.r.Detail.Refused)
	if barred := c.Input.Barred; barred != "" {
		h.addHold(api.DirectionDown, api.HoldBreaker, string(api.RuleHealth), barred)
	}
	if why := c.Input.NoScaleIn; why != "" && (h.r.ConfigurationHold == nil || why != h.r.ConfigurationHold.Why) {
		h.addHold(api.DirectionDown, api.HoldIgnorance, "pool", why)
	}
	switch {
	case refused == "" || refused == c.Input.NoScaleIn || refused == decide.OneLine(c.Input.Barred) || refused == decide.OneLine(c.Input.NoScaleIn):
	case h.r.Detail.Distribution.Shares == nil:
		h.addBoth(api.HoldInGroup, "groups", refused)
	default:
		h.addHold(api.DirectionDown, api.HoldIgnorance, "nodes", refused)
	}
}

// addGroups adds the groups that did not take their part.
func (h *holds) addGroups() {
	c, d := h.r.Case, h.r.Detail.Distribution
	for _, group := range slices.Sorted(maps.Keys(c.Busy)) {
		h.addBoth(api.HoldInGroup, group, fmt.Sprintf("group %s is not changed: %s", group, c.Busy[group]))
	}
	for _, group := range slices.Sorted(maps.Keys(c.Keeps)) {
		h.addHold(api.DirectionDown, api.HoldInGroup, group, fmt.Sprintf("group %s keeps its nodes: %s", group, c.Keeps[group]))
	}
	for _, group := range slices.Sorted(maps.Keys(c.Stuck)) {
		h.addHold(api.DirectionUp, api.HoldBoot, group, c.Stuck[group])
	}
	for _, work := range []api.Work{api.WorkRoll, api.WorkRotate} {
		if why := explain.ClosedWindow(h.r, work); why != "" {
			h.addHold(api.DirectionUp, api.HoldWindow, string(work), why)
		}
	}
	for _, q := range plan.Held(h.r.State.Backoffs, h.r.State.Clock) {
		if explain.SameCause(c.Stuck[q.Group], q) {
			continue // it is a hold already
		}
		h.addHold(api.DirectionUp, api.HoldInGroup, q.Group, fmt.Sprintf("group %s is in backoff until %s: %s", q.Group, q.Until.UTC().Format(time.RFC3339), q.Why))
	}
	if d.Shortfall == 0 {
		return
	}
	direction, bound := api.DirectionUp, api.ShareAtMax
	if d.Shortfall < 0 {
		direction, bound = api.DirectionDown, api.ShareAtMin
	}
	for _, share := range d.Shares {
		if share.Bound == api.ShareAtStay && direction == api.DirectionDown {
			h.addHold(direction, api.HoldInGroup, share.Group, fmt.Sprintf("nodes of group %s stay for their copies: %d", share.Group, share.After))
		}
		if share.Bound == api.ShareAtKept && direction == api.DirectionDown {
			h.addHold(direction, api.HoldInGroup, share.Group, fmt.Sprintf("nodes of group %s cannot be removed: %d", share.Group, share.After))
		}
		if share.Bound == bound && c.Stuck[share.Group] == "" {
			h.addHold(direction, api.HoldInGroup, share.Group, fmt.Sprintf("group %s is at its %s of %d", share.Group, bound, share.After))
		}
	}
}

// addKeptNodes adds the nodes that stay above the target.
func (h *holds) addKeptNodes() {
	for _, k := range h.r.Detail.Kept {
		kind, name := api.HoldInNodes, k.Why.Name()
		switch k.Why {
		case api.KeptOverBudget:
			kind = api.HoldBudget
		case api.KeptOverWeight, api.KeptOverTasks:
			kind = api.HoldLimit
		case api.KeptNodeUnknown:
			kind = api.HoldIgnorance
		case api.KeptNoPlace:
			if p := h.r.Case.Places; p != nil && len(p.Stay) > 0 {
				h.addHold(api.DirectionDown, kind, name, fmt.Sprintf("%s: %s (%d nodes stay for their copies)", p.Stay[0].Node, p.Stay[0].Why, k.Nodes))
				continue
			}
			name = string(k.Why)
		case api.KeptRotation:
			if h.addRotation() {
				continue
			}
		case api.KeptNoScaleIn:
			if why := explain.ClosedWindow(h.r, api.WorkScaleIn); why != "" {
				h.addHold(api.DirectionDown, api.HoldWindow, string(api.WorkScaleIn), why)
			}
			continue
		case api.KeptGroupAtTarget: // the group has its own hold
			continue
		}
		h.addHold(api.DirectionDown, kind, name, fmt.Sprintf("%d nodes stay: %s", k.Nodes, k.Text()))
	}
}

// addRotation adds the windows for which marked nodes wait, and reports whether there are any.
func (h *holds) addRotation() (waits bool) {
	for _, work := range []api.Work{api.WorkRoll, api.WorkRotate} {
		if why := explain.ClosedWindow(h.r, work); why != "" {
			h.addHold(api.DirectionDown, api.HoldWindow, string(work), why)
			waits = true
		}
	}
	return waits
}

// addFailedActions adds the requests to the provider that failed.
func (h *holds) addFailedActions() {
	for _, a := range h.r.Actions {
		if a.Error != "" {
			h.addBoth(api.HoldProvider, cmp.Or(a.Group, string(a.Op)), a.String()+": "+a.Error)
		}
	}
}

// HeldOf returns what held the pool at a tick in one direction.
func HeldOf(s api.Summary, d api.Direction) api.HeldNudge {
	held := api.HeldNudge{
		At: s.At, Pool: s.Pool, Direction: string(d), Before: s.Before, Target: s.Target, Rule: string(s.Rule), Why: s.Why, Holds: []api.Hold{},
	}
	for _, h := range s.Holds {
		if h.Direction == d {
			held.Holds = append(held.Holds, h)
		}
	}
	return held
}
