package autoscaler

import (
	"context"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

// maxNotices bounds how many notices are heeded at once.
const maxNotices = 256

// heed has the nodes drained of which the provider warns, with first all notices that
// wait: what one read of the pool tells is enough for all. What cannot be kept now
// comes again. It returns an error only if the loop has to end.
func (l *Loop) heed(ctx context.Context, first pools.Notice) error {
	if err := l.take(ctx); err != nil {
		return nil
	}
	defer l.give()
	waiting := []pools.Notice{first}
	for more := true; more && len(waiting) < maxNotices; {
		select {
		case n := <-l.world.Notices:
			waiting = append(waiting, n)
		default:
			more = false
		}
	}
	now := l.now().UTC().Round(0)
	var r Record // there is no tick: the next one's record tells
	err := l.warned(ctx, now, waiting, &r)
	l.between = append(l.between, r.Actions...)
	for _, a := range r.Actions {
		l.log.Info("notice heeded", "pool", l.pool, "op", a.Op, "group", a.Group, "node", a.Node, "what", a.What, "err", a.Error)
	}
	if err != nil {
		l.log.Error("notices cannot be heeded now", "pool", l.pool, "notices", len(waiting), "err", err)
	}
	return fatal(err)
}

// warned begins the drains and takes them as far as they go now, which does not wait
// for the next tick.
func (l *Loop) warned(ctx context.Context, now time.Time, notices []pools.Notice, r *Record) error {
	if err := l.mayWrite(); err != nil {
		return err
	}
	if err := l.begin(ctx); err != nil {
		return err
	}
	orders, err := l.orders(ctx, now)
	if l.paused = l.paused || orders.Pause != nil; l.paused || err != nil {
		return err
	}
	v, err := l.look(ctx, now)
	if err != nil {
		return err
	}
	l.tally = newTally(v.Groups, l.state.Groups)
	of := map[string]pools.Instance{} // those that are still to go
	for _, n := range v.Nodes {
		if n.Instance.State != pools.InstanceTerminating {
			of[n.Instance.ID] = n.Instance
		}
	}
	busy, mending := v.Busy(), mendingNodes(l.drains.Records())
	notices = slices.DeleteFunc(notices, func(n pools.Notice) bool { // it comes again
		return n.Kind == pools.Rebalance && (busy[of[n.Instance].Group] != "" || mending[n.Instance])
	})
	intent := Intent{At: now}
	for _, n := range notices {
		intent.LetGo = append(intent.LetGo, n.Instance)
	}
	if err := l.save(ctx, l.state, &intent); err != nil {
		return err
	}
	if err := l.warnAll(ctx, now, notices, of, r); err != nil {
		return err
	}
	return l.drainOn(ctx, now, v, r)
}

// warnAll begins the drains, and is done with the notices whose drain is kept, or
// whose instance is not there.
func (l *Loop) warnAll(ctx context.Context, now time.Time, notices []pools.Notice, of map[string]pools.Instance, r *Record) error {
	for _, n := range notices {
		if i, ours := of[n.Instance]; ours {
			kept, err := l.warn(ctx, now, n, i, r)
			if err != nil {
				return err
			}
			if !kept {
				continue
			}
		}
		if n.Done != nil {
			n.Done()
		}
	}
	return nil
}

// warn begins one drain, and reports whether it is kept.
func (l *Loop) warn(ctx context.Context, now time.Time, n pools.Notice, i pools.Instance, r *Record) (bool, error) {
	reason := drain.Spot
	if n.Kind == pools.Rebalance {
		reason = drain.Rebalance
	}
	return l.letGo(ctx, now, drain.Choice{Node: i.ID, Group: i.Group, Weight: i.Weight, Reason: reason, Why: n.Why}, r)
}
