package past

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// Kind is the kind of a Hold.
type Kind string

const (
	Order     Kind = "order"     // an operator's pause, offset or pin
	Limit     Kind = "limit"     // min_capacity, max_capacity, max_weight_to_add, max_weight_to_remove, max_tasks_to_kill
	Budget    Kind = "budget"    // a budget of the policy, or the disruption budget
	Cooldown  Kind = "cooldown"  // after the last change
	Breaker   Kind = "breaker"   // of node health
	Ignorance Kind = "ignorance" // something that the decision needs is unknown
	InGroup   Kind = "group"     // a group is in backoff, busy, or at its bound
	InNodes   Kind = "nodes"     // single nodes stay
	Provider  Kind = "provider"  // a request failed
	InRule    Kind = "rule"      // any other rule
)

// Hold is one cause that kept a pool from growing or shrinking as far as it would without it.
type Hold struct {
	Direction decide.Direction `json:"direction"`
	Kind      Kind             `json:"kind"`
	Name      string           `json:"name"` // of the order, limit, group, app or rule
	Why       string           `json:"why"`
}

// Holds returns what held the pool at a tick, in the order in which the tick meets it. A tick without a cause has no
// holds: then the requests are what the pool has.
func Holds(r autoscaler.Record) []Hold {
	h := &holds{r: r}
	if r.Paused != nil {
		h.both(Order, "pause", "paused "+r.Paused.Text())
	}
	if r.Failed != "" {
		h.both(Ignorance, "tick", "the tick ended without a decision: "+r.Failed)
	}
	if r.DryRun {
		h.both(InRule, "dry run", "a dry run makes no request to the provider")
	}
	if decided(r) {
		h.opinions()
		h.steps()
		h.bars()
		h.blocked()
		h.groups()
		h.kept()
	}
	h.failed()
	return h.list
}

// holds collects the holds of a record.
type holds struct {
	r    autoscaler.Record
	list []Hold
}

// add adds a hold, unless the list has one of that direction, kind and name.
func (h *holds) add(d decide.Direction, kind Kind, name, why string) {
	same := func(o Hold) bool { return o.Direction == d && o.Kind == kind && o.Name == name }
	if !slices.ContainsFunc(h.list, same) {
		h.list = append(h.list, Hold{d, kind, decide.OneLine(name), decide.OneLine(why)})
	}
}

func (h *holds) both(kind Kind, name, why string) {
	h.add(decide.Up, kind, name, why)
	h.add(decide.Down, kind, name, why)
}

// opinions adds the apps without a request of their own signal: they may need more.
func (h *holds) opinions() {
	in := h.r.Case.Input
	for _, app := range in.Apps {
		v := app.Opinion.Verdict
		if app.Configured && v != decide.Value && v != decide.NoOpinion {
			h.add(decide.Up, Ignorance, app.Name, fmt.Sprintf("the need of %s is unknown: its signal %s: %s", app.Name, verdict(v), app.Opinion.Why))
		}
	}
	if len(in.Apps) == 0 && in.Default.Verdict != decide.Value {
		h.add(decide.Up, Ignorance, "default signal", fmt.Sprintf("the default signal %s: %s", verdict(in.Default.Verdict), in.Default.Why))
	}
}

// verdict describes a response that is no value, as the predicate of a sentence.
func verdict(v decide.Verdict) string {
	switch v {
	case decide.Stale:
		return "is stale"
	case decide.NoOpinion:
		return "has no opinion"
	case decide.NotRequested:
		return "has not answered yet"
	}
	return "failed"
}

// steps adds the rules between the requests and the limits that moved the target.
func (h *holds) steps() {
	for _, s := range h.r.Result.Steps {
		switch s.Rule {
		case decide.RuleUnknownNeed:
			if s.After > s.Before {
				h.add(decide.Down, Ignorance, string(s.Rule), s.Why)
			}
		case decide.RuleHealth:
			if s.After > s.Before {
				h.add(decide.Down, Breaker, string(s.Rule), s.Why)
			}
		case decide.RulePinned:
			if h.r.Case.Input.Pinned != nil {
				h.both(Order, "pin", s.Why)
			}
		case decide.RuleOffset:
			if s.After != s.Before {
				h.add(against(s.After-s.Before), Order, "offset", s.Why)
			}
		case decide.RuleInput:
			h.both(InRule, string(s.Rule), s.Why)
		}
	}
}

// against returns the direction that a change hinders.
func against(change float64) decide.Direction {
	if change > 0 {
		return decide.Down
	}
	return decide.Up
}

// bars adds the limits.
func (h *holds) bars() {
	in := h.r.Case.Input
	in.State = h.r.Case.State.State
	before := in.Capacity.Target + in.State.Offset
	wanted := before
	for _, s := range h.r.Result.Steps {
		if s.Rule == decide.RuleLimits {
			wanted = s.Before
		}
	}
	d := decide.Up
	if wanted < before {
		d = decide.Down
	}
	for _, b := range decide.Bars(in, h.r.Result.Steps) {
		switch b.Kind {
		case decide.BarMax:
			h.add(decide.Up, Limit, string(b.Kind), b.Why)
		case decide.BarMin:
			h.add(decide.Down, Limit, string(b.Kind), b.Why)
		case decide.BarCooldown:
			h.add(d, Cooldown, string(d), b.Why)
		case decide.BarBudget:
			h.add(d, Budget, "budgets", b.Why)
		case decide.BarStep:
			h.add(d, Limit, map[decide.Direction]string{decide.Up: "max_weight_to_add", decide.Down: "max_weight_to_remove"}[d], b.Why)
		case decide.BarLosses:
			h.add(decide.Down, Ignorance, "prevent_scale_down_after_capacity_loss", b.Why)
		case decide.BarHealth:
			h.add(decide.Down, Breaker, string(decide.RuleHealth), b.Why)
		default:
			h.add(decide.Down, Ignorance, "pool", b.Why)
		}
	}
}

// blocked adds why no node may be removed, whatever the target is.
func (h *holds) blocked() {
	c := h.r.Case
	refused := cmp.Or(c.Refuse, h.r.Detail.Refused)
	if barred := c.Input.Barred; barred != "" {
		h.add(decide.Down, Breaker, string(decide.RuleHealth), barred)
	}
	if why := c.Input.NoScaleIn; why != "" {
		h.add(decide.Down, Ignorance, "pool", why)
	}
	switch {
	case refused == "" || refused == decide.OneLine(c.Input.Barred) || refused == decide.OneLine(c.Input.NoScaleIn):
	case h.r.Detail.Distribution.Shares == nil:
		h.both(InGroup, "groups", refused)
	default:
		h.add(decide.Down, Ignorance, "nodes", refused)
	}
}

// groups adds the groups that did not take their part.
func (h *holds) groups() {
	c, d := h.r.Case, h.r.Detail.Distribution
	for _, group := range slices.Sorted(maps.Keys(c.Busy)) {
		h.both(InGroup, group, fmt.Sprintf("group %s is not changed: %s", group, c.Busy[group]))
	}
	for _, q := range h.r.State.Backoffs {
		h.add(decide.Up, InGroup, q.Group, fmt.Sprintf("group %s is in backoff until %s: %s", q.Group, q.Until.UTC().Format(time.RFC3339), q.Why))
	}
	if d.Shortfall == 0 {
		return
	}
	direction, bound := decide.Up, plan.AtMax
	if d.Shortfall < 0 {
		direction, bound = decide.Down, plan.AtMin
	}
	for _, share := range d.Shares {
		if share.Bound == bound {
			h.add(direction, InGroup, share.Group, fmt.Sprintf("group %s is at its %s of %d", share.Group, bound, share.After))
		}
	}
}

// kept adds the nodes that stay above the target.
func (h *holds) kept() {
	for _, k := range h.r.Detail.Kept {
		kind, name := InNodes, string(k.Why)
		switch k.Why {
		case plan.OverBudget:
			kind, name = Budget, "disruption budget"
		case plan.OverWeight:
			kind, name = Limit, "max_weight_to_remove"
		case plan.OverTasks:
			kind, name = Limit, "max_tasks_to_kill"
		case plan.NodeUnknown:
			kind = Ignorance
		case plan.GroupAtTarget, plan.NoScaleIn: // the group and the rule have their own holds
			continue
		}
		h.add(decide.Down, kind, name, fmt.Sprintf("%d nodes stay: %s (%s first)", k.Nodes, k.Why, k.First))
	}
}

// failed adds the requests to the provider that failed.
func (h *holds) failed() {
	for _, a := range h.r.Actions {
		if a.Error != "" {
			what := strings.TrimSpace(strings.Join([]string{string(a.Op), a.Group, a.Node}, " "))
			h.both(Provider, cmp.Or(a.Group, string(a.Op)), what+": "+a.Error)
		}
	}
}

// Against returns the holds in one direction.
func (s Summary) Against(d decide.Direction) (out []Hold) {
	for _, h := range s.Holds {
		if h.Direction == d {
			out = append(out, h)
		}
	}
	return out
}
