package autoscaler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// removals has the nodes drained that an operator has named, and strikes the orders
// that the drain records keep from then on, or that are of no use.
func (l *Loop) removals(ctx context.Context, now time.Time, m move) error {
	for _, order := range m.orders.Removals {
		node, refused := removable(m.view, order)
		switch busy := m.Busy[node.Group]; {
		case refused != nil:
			m.record.problem(refused)
		case busy != "":
			m.record.problem(fmt.Errorf("node %s waits to be removed: its group is being changed: %s", order.Node, busy))
			continue // the order stands
		default:
			kept, err := l.letGo(ctx, now, drain.Choice{
				Node: node.ID, Group: node.Group, Weight: node.Weight, Reason: drain.Removal, Why: order.Text(),
			}, m.record)
			if err != nil {
				return err
			}
			if !kept {
				continue // the order stands
			}
		}
		err := l.write(ctx, func(ctx context.Context) error { return l.world.Orders.Removed(ctx, order.Node) })
		if err != nil {
			m.record.problem(fmt.Errorf("strike the removal of node %s: %w", order.Node, err))
		}
		if fatal(err) != nil {
			return err
		}
	}
	return nil
}

// tellSilent tells of the nodes that an operator has named and that cannot be drained.
func (l *Loop) tellSilent(m move) {
	if l.config.Drain.Force {
		return
	}
	for _, r := range l.drains.Records() {
		if _, silent := slices.BinarySearch(m.view.Silent, r.Node); silent && r.Reason == drain.Removal && r.State.Leaving() {
			m.record.problem(fmt.Errorf("node %s, which is removed by name, is silent: nobody knows what it runs, so it will not be drained, "+
				"and stays after %s: set force_terminate in the pool's draining, or end it at the provider", r.Node, r.Deadline.Format(time.RFC3339)))
		}
	}
}

// removable returns the instance that an order names, or why it cannot go.
func removable(v *snapshot.Snapshot, order pools.Removal) (pools.Instance, error) {
	i, there := v.Instance(order.Node)
	who := cmp.Or(order.By, "somebody")
	switch {
	case !there:
		return i, fmt.Errorf("node %s, which %s wants to be removed, is not of this pool, or is gone", order.Node, who)
	case i.Protected:
		return i, fmt.Errorf("node %s, which %s wants to be removed, is protected by the provider", order.Node, who)
	}
	return i, nil
}
