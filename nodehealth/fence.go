package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	fenceEvery   = time.Second
	fenceTimeout = 30 * time.Second // of one call
)

// fence makes a node harmless: level by level, each with its share of the time that is
// left, or none where it cannot be asked for. Those begun are looked at until one is
// confirmed; of an exclusive pool, until the machine is known not to run.
func (l *Loop) fence(ctx context.Context, e *effort) judge.Outcome {
	out := judge.Outcome{Step: judge.StepFence}
	group, known := l.world.group(e.machine.group)
	for !known { // the autoscaler has not read the pool yet
		if !wait(ctx, fenceEvery) {
			out.Reason = fmt.Sprintf("not confirmed: group %q is not known", e.machine.group)
			return out
		}
		group, known = l.world.group(e.machine.group)
	}
	isolator, can := group.(pools.Isolator)
	if !can {
		out.Reason = fmt.Sprintf("group %s cannot fence", e.machine.group)
		return out
	}
	levels := e.order.Fencing
	if len(levels) == 0 {
		out.Reason = "not confirmed: the policy has no fencing any more"
		return out
	}
	deadline, _ := ctx.Deadline()
	share := time.Until(deadline) / time.Duration(max(1, len(levels)))
	began, reached := time.Now(), 1
	last := make([]error, len(levels))
	for {
		for i := 0; i < reached; i++ {
			confirmed, err := l.isolate(ctx, isolator, e.order.Node, levels[i])
			if confirmed && l.policy.Exclusive && levels[i] != judge.FenceCompute {
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
		if !wait(ctx, fenceEvery) {
			out.Reason = unconfirmed(levels, last)
			return out
		}
	}
}

func (l *Loop) isolate(ctx context.Context, isolator pools.Isolator, node string, level judge.Level) (confirmed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, fenceTimeout)
	defer cancel()
	err = l.world.Writer.Write(ctx, func(ctx context.Context) error {
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
