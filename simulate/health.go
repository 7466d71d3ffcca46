package simulate

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// failure returns when a machine fails that runs from a time on; zero: not before end.
func failure(seed uint64, perHour float64, machine string, from, end time.Time) time.Time {
	if perHour <= 0 {
		return time.Time{}
	}
	hours := -math.Log(draw(seed, "failure", machine)) / perHour
	if hours >= end.Sub(from).Hours() {
		return time.Time{}
	}
	return from.Add(time.Duration(hours * float64(time.Hour)).Round(time.Millisecond))
}

// health is the node health of a run: the judge decides, and the world is what it observes and what carries its orders out. A machine
// that has failed is silent, and fails in each other mode. A fence succeeds at once. A repair replaces the machine.
type health struct {
	world  *world
	policy judge.Policy // with its defaults
	judge  *judge.Judge
	every  time.Duration                   // between two steps at rest
	due    map[api.DetectionType]time.Time // when a mode observes next; "": when the list of machines is read
	last   time.Time                       // of the latest step
	orders map[string]bool                 // repairs that the loop has accepted, by attempt
	out    judge.Drains                    // as the judge has them
	window judge.Window                    // the same

	mu        sync.Mutex
	drained   []drain.Event
	condition snapshot.Condition
}

func newHealth(w *world, p judge.Policy) *health {
	h := &health{world: w, policy: p.WithDefaults(), due: map[api.DetectionType]time.Time{}, orders: map[string]bool{}}
	h.judge = judge.New(h.policy)
	h.every = time.Duration(*h.policy.Detection.Interval)
	if beat, is := h.policy.Detection.Mode(api.DetectAgentHeartbeat); is {
		expected := time.Duration(*beat.Options.ExpectedInterval)
		h.every = min(h.every, expected*time.Duration(min(2, *beat.Options.Miss)))
	}
	h.publish()
	return h
}

// next returns when the judge is asked next: often while anything is repaired.
func (h *health) next() time.Time {
	if len(h.orders) > 0 || len(h.condition.Unhealthy) > 0 || len(h.drained) > 0 {
		return h.last.Add(min(h.every, apply.TendEvery))
	}
	return h.last.Add(h.every)
}

// step passes what happened until now to the judge, and carries its orders out.
func (h *health) step(ctx context.Context, now time.Time) error {
	h.last = now
	h.mu.Lock()
	drained := h.drained
	h.drained = nil
	h.mu.Unlock()
	events := h.ended(drained)
	closed, opens := h.world.scenario.Pool.Windows.Closed(string(api.WorkRepair), now)
	if w := (judge.Window{Closed: closed, Opens: opens}); w != h.window {
		h.window, events = w, append(events, w)
	}
	if records, known := h.world.loop.Writer().Records(); known {
		if d := nodehealth.DrainsOf(records); !maps.Equal(d.Out, h.out.Out) {
			h.out, events = d, append(events, d)
		}
	}
	if h.isDue("", now, time.Duration(*h.policy.Detection.Interval)) {
		list, err := h.list(ctx)
		if err != nil {
			return err
		}
		events = append(events, list)
	}
	for _, m := range h.policy.Detection.Modes {
		every := h.every
		if m.Type != api.DetectAgentHeartbeat {
			every = time.Duration(*h.policy.Detection.Interval)
			if m.Options.Interval != nil {
				every = time.Duration(*m.Options.Interval)
			}
		}
		if h.isDue(m.Type, now, every) {
			events = append(events, h.observe(m.Type, "")...)
		}
	}
	if err := h.pass(ctx, now, append(events, judge.Tick{})); err != nil {
		return err
	}
	maps.DeleteFunc(h.orders, func(attempt string, _ bool) bool {
		return !slices.ContainsFunc(h.judge.Status(), func(s api.NodeHealthState) bool { return s.Attempt == attempt })
	})
	h.publish()
	return nil
}

// isDue reports whether something is due that happens each so often, and adopts its next time.
func (h *health) isDue(what api.DetectionType, now time.Time, every time.Duration) bool {
	if now.Before(h.due[what]) {
		return false
	}
	h.due[what] = now.Add(every)
	return true
}

// list returns the machines as the provider lists them.
func (h *health) list(ctx context.Context) (out judge.Nodes, err error) {
	for _, g := range h.world.machines.groups {
		s, err := g.cloud.Snapshot(ctx)
		if err != nil {
			return out, err
		}
		for k := range s.Instances {
			i := &s.Instances[k]
			n := judge.Node{ID: i.ID, Zone: i.Market.Zone, Since: i.Launched}
			if i.State == api.InstanceTerminating {
				n.State = judge.Leaving
			}
			out.List = append(out.List, n)
		}
	}
	return out, nil
}

// observe returns the observations of a mode, of one node or of all. A heartbeat that is missing is no observation.
func (h *health) observe(mode api.DetectionType, node string) (out []judge.Event) {
	if mode == api.DetectAgentHeartbeat && node == "" {
		out = append(out, judge.PathProof{})
	}
	if mode == api.DetectLifecycleEvents {
		return nil
	}
	for _, g := range h.world.machines.groups {
		for _, one := range g.known {
			o := judge.Observation{Node: one.id, Mode: mode, Verdict: api.CheckOK}
			switch {
			case node != "" && node != one.id, one.node == nil && !one.failed:
				continue
			case one.failed && mode == api.DetectAgentHeartbeat:
				continue
			case one.failed:
				o.Verdict, o.Reason = api.CheckFail, "the machine failed"
			}
			out = append(out, o)
		}
	}
	return out
}

// ended returns the outcomes of the repairs that have ended.
func (h *health) ended(drained []drain.Event) (out []judge.Event) {
	for _, e := range drained {
		if !h.orders[e.Attempt] || e.To != api.DrainGone && e.To != api.DrainReturned && e.Failed == "" {
			continue
		}
		delete(h.orders, e.Attempt)
		o := judge.Outcome{Node: e.Node, Attempt: e.Attempt, Action: api.ActionRecreate, Step: judge.StepDone, Reason: e.Failed}
		if e.To == api.DrainGone {
			o.OK = true
			h.world.result.Repaired++
		}
		out = append(out, o)
	}
	return out
}

// pass passes events to the judge, and those that its orders lead to.
func (h *health) pass(ctx context.Context, now time.Time, events []judge.Event) error {
	for len(events) > 0 {
		orders, found := h.judge.Step(now, events[0])
		events = events[1:]
		for _, f := range found {
			if f.Event == api.HealthNodeReleased && !f.Observe {
				_ = h.world.machines.Cordon(ctx, f.Node, false) // it has no error
			}
		}
		for _, o := range orders {
			more, err := h.carryOut(ctx, now, o)
			if err != nil {
				return err
			}
			events = append(events, more...)
		}
	}
	return nil
}

// carryOut carries out an order, and returns what the judge is to know of it now.
func (h *health) carryOut(ctx context.Context, now time.Time, o judge.Order) (out []judge.Event, err error) {
	outcome := judge.Outcome{Node: o.Node, Attempt: o.Attempt, Step: judge.StepFence, OK: true}
	switch {
	case o.Kind == judge.OrderRecheck:
		for _, m := range h.policy.Detection.Modes {
			out = append(out, h.observe(m.Type, o.Node)...)
		}
		return out, nil
	case o.Observe || o.Kind == judge.OrderAlarm:
		return nil, nil
	case o.Kind == judge.OrderQuarantine:
		return nil, h.world.machines.Cordon(ctx, o.Node, true)
	case o.Kind == judge.OrderFence:
		return []judge.Event{outcome}, nil
	}
	outcome.Action, outcome.OK = o.Action.Name, false
	if o.Action.Name != api.ActionRecreate {
		outcome.Step, outcome.Reason = judge.StepEscalate, "a simulation has no repairs in place"
		return []judge.Event{outcome}, nil
	}
	r := nodehealth.RepairOf(h.policy, o, now)
	refused, err := h.world.loop.Repair(ctx, r)
	if errors.Is(refused, pools.ErrNoRoom) && r.Hold && h.judge.MayGoFirst(now, o.Node, o.Attempt) {
		r.Hold = false
		refused, err = h.world.loop.Repair(ctx, r)
	}
	if err != nil || refused == nil {
		h.orders[o.Attempt] = true
		return nil, err
	}
	outcome.Step, outcome.Reason = judge.StepUndone, refused.Error()
	return []judge.Event{outcome}, nil
}

// publish adopts the condition of the pool for the loop.
func (h *health) publish() {
	if h.policy.Mode != api.ModeAct {
		return
	}
	c := snapshot.Condition{Unhealthy: h.judge.Unfit(), Barred: nodehealth.Barred(h.judge), Budget: h.judge.Budget()}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.condition = c
}

// Condition implements autoscaler.Health.
func (h *health) Condition() snapshot.Condition {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.condition
}

// Drained implements autoscaler.Health.
func (h *health) Drained(events []drain.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drained = append(h.drained, events...)
}

// RepairInPlace implements autoscaler.Health.
func (*health) RepairInPlace(pools.InPlaceRepair) (bool, error) {
	return false, errors.New("a simulation has no repairs in place")
}
