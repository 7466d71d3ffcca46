package nodehealth

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

// cordonAgain is the time between two tries of a cordon.
const cordonAgain = 15 * time.Second

// cordons keep new tasks off quarantined nodes. The Loop's goroutine owns them.
type cordons struct {
	*shared
	isDurable func(gen uint64) bool // whether the state of that number is durable
	nodes     map[string]*cordon
}

// cordon is the cordon of one node. It is durable before the scheduler receives it, so that the
// next lease holder can remove it.
type cordon struct {
	gen   uint64    // number of the saved state that has it; 0: not saved yet
	may   bool      // the scheduler may have it
	set   bool      // the scheduler has it
	busy  bool      // a call is in progress
	after time.Time // earliest time of the next call
}

// addNode cordons a quarantined node. may is true if the scheduler may have the cordon already.
func (c *cordons) addNode(node string, may bool) {
	if _, there := c.nodes[node]; !there || may {
		c.nodes[node] = &cordon{may: may}
	}
}

// saving sets the number of the first state that has the new cordons.
func (c *cordons) saving(gen uint64) {
	for _, one := range c.nodes {
		if one.gen == 0 {
			one.gen = gen
		}
	}
}

// sync begins to cordon the quarantined nodes and to uncordon all others. listed is true once a
// snapshot of the pool was read.
func (c *cordons) sync(ctx context.Context, now time.Time, j *judge.Judge, listed bool) {
	for node, one := range c.nodes {
		known, there := j.Explain(now, node)
		wanted := known.State == api.StateQuarantined && c.acts() && c.world.Cordon != nil
		switch {
		case one.busy || now.Before(one.after):
		case !there && listed, !wanted && !one.may:
			delete(c.nodes, node)
		case wanted && one.set, !there:
		case wanted && !c.isDurable(one.gen):
		default:
			c.begin(ctx, node, one, wanted)
		}
	}
}

func (c *cordons) begin(ctx context.Context, node string, one *cordon, on bool) {
	one.busy, one.may, one.set = true, true, false
	cordon := func(ctx context.Context) error { return c.world.Cordon.Cordon(ctx, node, on) }
	c.call(ctx, tryTimeout, cordon, func(now time.Time, err error) {
		one.busy, one.set = false, err == nil && on
		switch {
		case err != nil:
			one.after = now.Add(cordonAgain)
			c.log.Warn("cordon of quarantined node failed", "node", node, "on", on, "err", err)
		case !on && c.nodes[node] == one:
			delete(c.nodes, node)
		}
	})
}

// liftTries is the maximum number of tries to end a fence. After them the fence stays, and the
// node's agent reports it.
const liftTries = 8

// lifts end the fences of released nodes. They are not durable: a node that stays fenced reports
// it, and an operator can release it again. The Loop's goroutine owns them.
type lifts struct {
	*shared
	nodes map[string]*lift
}

type lift struct {
	busy  bool // a call is in progress
	tries int
	after time.Time // earliest time of the next call
}

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
			f.log.Warn("lift fence of released node failed", "node", node, "err", err)
		case f.nodes[node] == one:
			delete(f.nodes, node)
		}
	})
}
