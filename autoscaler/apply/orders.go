package apply

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/rotate"
)

// orders reads the operators' orders, and removes those that are carried out or have no effect.
type orders struct {
	book  pools.OrderStore
	guard *guard
}

// read returns the orders in force. After an error nothing may be done, because unknown orders may
// forbid anything.
func (o orders) read(ctx context.Context, now time.Time) (api.Orders, error) {
	all, err := o.book.Read(ctx, now)
	if err != nil {
		return api.Orders{}, fmt.Errorf("read the operators' orders: %w", err)
	}
	if all.Pause != nil && !all.Pause.InForce(now) {
		all.Pause = nil
	}
	return all, nil
}

// remove begins the drains of the nodes that an operator named. It removes an order after the drain
// is saved, or if the order has no effect.
func (o orders) remove(ctx context.Context, now time.Time, s *snapshot.Snapshot, removals []api.Removal, drains *drains, r *Report) error {
	busy, unknown := s.Busy(), s.Unknown()
	for _, order := range removals {
		node, refused := removable(s, order)
		switch busy := busy[node.Group]; {
		case node.ID == "" && unknown != "":
			r.problem(fmt.Errorf("node %s, whose removal %s requested, waits: it may be in a group that is unknown: %s", order.Node, orderedBy(order), unknown))
			continue // the order stays
		case refused != nil:
			r.problem(refused)
		case busy != "":
			r.problem(fmt.Errorf("node %s waits to be removed: its group is not changed now: %s", order.Node, busy))
			continue // the order stays
		default:
			saved, err := drains.beginDrain(ctx, now, drain.Choice{
				Node: node.ID, Group: node.Group, Weight: node.Weight, Reason: api.DrainRemoval, Why: order.Text(),
			}, r)
			if err != nil {
				return err
			}
			if !saved {
				continue // the order stays
			}
		}
		err := o.guard.call(ctx, func(ctx context.Context) error { return o.book.Removed(ctx, order.Node) })
		if err != nil {
			r.problem(fmt.Errorf("delete the removal order of node %s: %w", order.Node, err))
		}
		if fatal(err) != nil {
			return err
		}
	}
	return nil
}

// removable returns the instance of an order, or why it cannot be removed.
func removable(s *snapshot.Snapshot, order api.Removal) (pools.Instance, error) {
	i, there := s.Instance(order.Node)
	switch {
	case !there:
		return i, fmt.Errorf("node %s, whose removal %s requested, is not of this pool, or is gone", order.Node, orderedBy(order))
	case i.Protected:
		return i, fmt.Errorf("remove node %s for %s: it is protected by the provider", order.Node, orderedBy(order))
	}
	return i, nil
}

// orderedBy returns the author of an order.
func orderedBy(order api.Removal) string { return cmp.Or(order.By, "an operator") }

// unmark removes the marks whose machines are all replaced, and reports those of groups that are gone. The mark of a group
// that is unknown stays.
func (o orders) unmark(ctx context.Context, s *snapshot.Snapshot, marks []api.StaleMark, r *Report) error {
	for _, mark := range marks {
		if marksAny(s, mark) || mark.Group == "" && s.Unknown() != "" || mark.Group != "" && s.UnknownGroup(mark.Group) {
			continue
		}
		if _, there := s.Group(mark.Group); !there && mark.Group != "" {
			r.problem(fmt.Errorf("roll group %s for %s: the pool has no such group", mark.Group, mark.By))
		}
		err := o.guard.call(ctx, func(ctx context.Context) error { return o.book.Rolled(ctx, mark.Group) })
		if err != nil {
			r.problem(fmt.Errorf("delete the order of the %s: %w", mark.Name(), err))
		}
		if fatal(err) != nil {
			return err
		}
	}
	return nil
}

// marksAny reports whether a machine of the mark is left. One whose image or template is unknown is not, as nothing will replace it.
func marksAny(s *snapshot.Snapshot, mark api.StaleMark) bool {
	when, err := rotate.Parse(mark.Where)
	for i := range s.Nodes {
		of := s.Nodes[i].Instance
		if of.State == api.InstanceTerminating || mark.Group != "" && of.Group != mark.Group || !of.Launched.Before(mark.At) {
			continue
		}
		if match, _ := when.Matches(rotate.SubjectOf(mark.At, of)); match || mark.Where == "" || err != nil {
			return true
		}
	}
	return false
}
