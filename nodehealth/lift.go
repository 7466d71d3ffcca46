package nodehealth

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// liftTries bounds the tries to end a fence. After them the fence stays, and the node's
// agent reports it.
const liftTries = 8

// lifts end the fences of released nodes. They are not durable: a node that stays fenced
// reports it, and can be released again. The Loop's goroutine owns them.
type lifts struct {
	*kit
	nodes map[string]*lift
}

// lift is the end of the fences of one node.
type lift struct {
	busy  bool // a call is under way
	tries int
	after time.Time // no call before
}

// run begins the calls that are due.
func (f *lifts) run(ctx context.Context, now time.Time, v *inventory) {
	for node, one := range f.nodes {
		group, known := f.world.group(v.machines[node].group)
		lifter, can := group.(pools.Lifter)
		switch {
		case one.busy || now.Before(one.after):
		case known && !can, one.tries == liftTries:
			delete(f.nodes, node)
		case known:
			f.begin(ctx, node, one, lifter)
		default:
			one.tries, one.after = one.tries+1, now.Add(cordonAgain)
		}
	}
}

func (f *lifts) begin(ctx context.Context, node string, one *lift, lifter pools.Lifter) {
	one.busy = true
	lift := func(ctx context.Context) error { return lifter.Lift(ctx, node) }
	f.call(ctx, fenceTimeout, lift, func(now time.Time, err error) {
		one.busy, one.tries, one.after = false, one.tries+1, now.Add(cordonAgain)
		switch {
		case err != nil:
			f.log.Warn("the fence of a released node could not be lifted", "node", node, "err", err)
		case f.nodes[node] == one:
			delete(f.nodes, node)
		}
	})
}
