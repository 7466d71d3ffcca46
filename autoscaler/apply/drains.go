package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// drains begins and advances the drains and repairs of nodes. Any goroutine may read the records.
type drains struct {
	guard   *guard
	ports   drain.Ports
	config  drain.Config
	drained func([]drain.Event) // nil: no receiver

	machine  atomic.Pointer[drain.Machine] // nil before open
	outdated bool                          // machine has another configuration
}

// adopt sets a configuration. If it changed, the next open reads the records again.
func (d *drains) adopt(c drain.Config) {
	d.outdated = d.outdated || c != d.config
	d.config = c
}

// open reads the records, unless they are read already.
func (d *drains) open(ctx context.Context, again bool) error {
	if d.ready() && !again {
		return nil
	}
	machine, err := drain.Open(ctx, d.config, d.ports)
	if err != nil {
		return err
	}
	d.outdated = false
	d.machine.Store(machine)
	return nil
}

func (d *drains) ready() bool { return d.machine.Load() != nil && !d.outdated }

// records returns the records, sorted by node, or nil before open.
func (d *drains) records() Records {
	if m := d.machine.Load(); m != nil {
		return m.Records()
	}
	return nil
}

// choose begins the drain or the repair of one node. When it returns nil, the record is saved.
func (d *drains) choose(ctx context.Context, now time.Time, c drain.Choice, r *Report) error {
	ctx, cancel := d.guard.limit(ctx)
	defer cancel()
	err := d.guard.check()
	if err == nil {
		err = d.machine.Load().Add(ctx, now, c)
	}
	a := api.Action{Op: api.OpRemove, Group: c.Group, Node: c.Node, What: c.Why}
	if c.RepairInPlace != nil {
		a.Op = api.OpRepairInPlace
	}
	r.Actions = append(r.Actions, endedAction(a, err))
	return err
}

// withdraw withdraws the repair of that attempt, if it has not reached the machine.
func (d *drains) withdraw(ctx context.Context, now time.Time, attempt string) error {
	ctx, cancel := d.guard.limit(ctx)
	defer cancel()
	return d.machine.Load().Withdraw(ctx, now, attempt, "withdrawn by an operator")
}

// beginDrain begins the drain of one node, and reports whether it is saved. It returns an error only if
// the process must end.
func (d *drains) beginDrain(ctx context.Context, now time.Time, c drain.Choice, r *Report) (saved bool, err error) {
	err = d.choose(ctx, now, c, r)
	return err == nil, fatal(err)
}

// release begins the drains of the chosen nodes, and returns those whose drain is saved. A stale
// node is drained for a rolling.
func (d *drains) release(ctx context.Context, now time.Time, choices []plan.Choice, reason api.DrainReason, stale map[string]bool, r *Report) ([]plan.Choice, error) {
	var released []plan.Choice
	for _, c := range choices {
		why := reason
		if reason == api.DrainScaleIn && stale[c.ID] {
			why = api.DrainRolling
		}
		saved, err := d.beginDrain(ctx, now, drain.Choice{Node: c.ID, Group: c.Group, Weight: c.Weight, Reason: why, Why: string(c.Why)}, r)
		if saved {
			released = append(released, c)
		}
		if err != nil {
			return released, err
		}
	}
	return released, nil
}

// takeBack keeps these leaving nodes, because they are needed again.
func (d *drains) takeBack(ctx context.Context, now time.Time, nodes []api.Leaver, timeout time.Duration, r *Report) error {
	if len(nodes) == 0 {
		return nil
	}
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID
	}
	ctx, cancel := d.guard.end(ctx, timeout)
	defer cancel()
	kept, err := d.machine.Load().TakeBack(ctx, now, ids...)
	if kept > 0 || err != nil {
		a := api.Action{Op: api.OpTakeBack, What: fmt.Sprintf("%g that were on their way out are needed again", kept)}
		r.Actions = append(r.Actions, endedAction(a, err))
	}
	return fatal(err)
}

// idle reports whether advance would move no drain.
func (d *drains) idle(now time.Time, views map[string]drain.NodeSnapshot) bool {
	return d.ready() && d.machine.Load().Idle(now, views)
}

// advance advances every drain as far as possible now.
func (d *drains) advance(ctx context.Context, now time.Time, views map[string]drain.NodeSnapshot, r *Report) ([]drain.Event, error) {
	events, err := d.machine.Load().Advance(ctx, now, views)
	if d.drained != nil && len(events) > 0 {
		d.drained(events)
	}
	for _, e := range events {
		what := fmt.Sprintf("%s -> %s", e.From, e.To)
		if e.Why != "" {
			what += ": " + e.Why
		}
		if e.From == api.DrainGone && e.To == api.DrainGone {
			what = "it is gone, drain finished"
		}
		r.Actions = append(r.Actions, api.Action{Op: api.OpDrain, Group: e.Group, Node: e.Node, What: what, Error: e.Err})
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		r.problem(err)
	}
	r.Drains = d.records()
	return events, fatal(err)
}

// reportSilent reports the nodes that an operator removes and that cannot be drained.
func (d *drains) reportSilent(s *snapshot.Snapshot, r *Report) {
	if d.config.Force {
		return
	}
	for _, one := range d.records() {
		if _, silent := slices.BinarySearch(s.Silent, one.Node); silent && one.Reason == api.DrainRemoval && one.State.Leaving() {
			r.problem(fmt.Errorf("node %s, which an operator removes, is silent: its tasks are unknown, so it will not be drained, "+
				"and stays after %s: set force_terminate in the pool's draining, or end it at the provider", one.Node, one.Deadline.Format(time.RFC3339)))
		}
	}
}
