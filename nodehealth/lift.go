package nodehealth

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

// liftTries bounds how often a fence is tried to be lifted: then it stays, and the
// node's agent says so.
const liftTries = 8

// lift is the end of the fences of a node that was released.
type lift struct {
	busy  bool
	tries int
	after time.Time // it is not tried before
}

// liftAll has the fences ended of nodes that were released. That is not kept durably: a
// node that stays fenced says so itself, and can be released again.
func (l *Loop) liftAll(ctx context.Context, now time.Time) {
	for node, f := range l.lifts {
		group, known := l.world.group(l.inventory.machines[node].group)
		lifter, can := group.(pools.Lifter)
		switch {
		case f.busy || now.Before(f.after):
		case known && !can, f.tries == liftTries:
			delete(l.lifts, node)
		case known:
			l.liftNow(ctx, node, f, lifter)
		default:
			f.tries, f.after = f.tries+1, now.Add(cordonAgain)
		}
	}
}

func (l *Loop) liftNow(ctx context.Context, node string, f *lift, lifter pools.Lifter) {
	f.busy = true
	l.mail.Go(func() {
		try, cancel := context.WithTimeout(ctx, fenceTimeout)
		defer cancel()
		err := l.world.Writer.Write(try, func(ctx context.Context) error { return lifter.Lift(ctx, node) })
		_ = l.mail.send(ctx, func(now time.Time, _ *judge.Judge) []judge.Event {
			f.busy, f.tries, f.after = false, f.tries+1, now.Add(cordonAgain)
			switch {
			case err != nil:
				l.log.Warn("the fence of a released node could not be lifted", "node", node, "err", err)
			case l.lifts[node] == f:
				delete(l.lifts, node)
			}
			return nil
		})
	})
}
