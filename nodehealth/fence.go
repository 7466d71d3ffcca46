package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

const fenceEvery = time.Second

// fence fences a node, level by level. Each level gets an equal share of the remaining time. If the
// call of the last level fails, the next level begins at once. fence repeats the calls of all begun
// levels until one is confirmed. In an exclusive pool only FenceCompute confirms.
func (a *actor) fence(ctx context.Context, e *execution) judge.Outcome {
	out := judge.Outcome{Step: judge.StepFence}
	group, known := a.world.group(e.machine.group)
	for !known { // the autoscaler has not read the pool yet
		if !retry.Pause(ctx, fenceEvery) {
			out.Reason = fmt.Sprintf("not confirmed: group %q is unknown", e.machine.group)
			return out
		}
		group, known = a.world.group(e.machine.group)
	}
	isolator, can := group.(pools.Isolator)
	if !can {
		out.Reason = fmt.Sprintf("group %s cannot fence", e.machine.group)
		return out
	}
	levels := e.order.Fencing
	if len(levels) == 0 {
		out.Reason = "not confirmed: the policy no longer has fencing"
		return out
	}
	deadline, _ := ctx.Deadline()
	share := time.Until(deadline) / time.Duration(max(1, len(levels)))
	began, reached := time.Now(), 1
	last := make([]error, len(levels))
	for {
		for i := 0; i < reached; i++ {
			confirmed, err := a.isolate(ctx, isolator, e.order.Node, levels[i])
			if confirmed && a.policy.Exclusive && levels[i] != judge.FenceCompute {
				reached = max(reached, min(i+2, len(levels)))
			} else if confirmed {
				out.OK, out.Reason = true, "fenced: "+string(levels[i])
				return out
			}
			if last[i] = err; err != nil && i == reached-1 {
				reached = min(reached+1, len(levels))
			}
		}
		if time.Since(began) >= time.Duration(reached)*share {
			reached = min(reached+1, len(levels))
		}
		if !retry.Pause(ctx, fenceEvery) {
			out.Reason = unconfirmed(levels, last)
			return out
		}
	}
}

func (a *actor) isolate(ctx context.Context, isolator pools.Isolator, node string, level judge.Level) (confirmed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, fenceTimeout)
	defer cancel()
	err = a.world.Writer.Write(ctx, func(ctx context.Context) error {
		var err error
		confirmed, err = isolator.Isolate(ctx, node, pools.Fence(level))
		return err
	})
	return confirmed && err == nil, err
}

func unconfirmed(levels []judge.Level, last []error) string {
	var errs []error
	for i, err := range last {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", levels[i], err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return "not confirmed in time: " + err.Error()
	}
	return "not confirmed in time"
}
