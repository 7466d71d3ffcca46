package aws

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/weirkeeper/weirkeeper/pools"
)

// fleet is a Spot Fleet request of type maintain.
type fleet struct{ *group }

var _ pools.Group = fleet{}

// SetTarget implements pools.Group: with NoTermination, so a lower target only
// stops replacements. pools.ErrRefused for a request that is cancelled.
func (f fleet) SetTarget(ctx context.Context, target int) error {
	return f.inTurn(ctx, fmt.Sprintf("set target of group %s to %d", f.id, target), func() error { return f.setTarget(ctx, target) })
}

func (f fleet) setTarget(ctx context.Context, target int) error {
	config, err := f.config(ctx)
	if err != nil {
		return err
	}
	r, err := readFleet(config, nil)
	if err != nil {
		return err
	}
	if r.Stale {
		return fmt.Errorf("%w: the request is %s", pools.ErrRefused, config.SpotFleetRequestState)
	}
	if err := r.inBounds(target); err != nil || target == f.overlaid(r).Target {
		return err
	}
	return f.modify(ctx, target)
}

// How often Amazon is asked again while an earlier change of a request is under
// way, and for how long.
const (
	askAgain = 500 * time.Millisecond
	askUntil = 20 * time.Second
)

// modify sets the target. Several nodes of a fleet may be ended one after the
// other, so a change of our own that is under way is waited for.
func (f fleet) modify(ctx context.Context, target int) error {
	patience, again := time.NewTimer(askUntil), time.NewTicker(askAgain)
	defer patience.Stop()
	defer again.Stop()
	for {
		err := f.tryModify(ctx, target)
		if api, ok := errors.AsType[smithy.APIError](err); !ok || api.ErrorCode() != unmodifiable {
			return err
		}
		select {
		case <-again.C:
		case <-patience.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

func (f fleet) tryModify(ctx context.Context, target int) error {
	err := f.p.aws.write(ctx, "ec2:ModifySpotFleetRequest", f.id, func() error {
		_, err := f.p.aws.ec2.ModifySpotFleetRequest(ctx, &ec2.ModifySpotFleetRequestInput{
			SpotFleetRequestId: &f.id, TargetCapacity: aws.Int32(int32(target)),
			ExcessCapacityTerminationPolicy: ec2types.ExcessCapacityTerminationPolicyNoTermination,
		})
		return err
	})
	if err == nil {
		f.wrote(target)
	}
	return err
}

// Terminate implements pools.Group, but for one thing: weight beyond the target
// is ended first, and the target is lowered by the rest.
func (f fleet) Terminate(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return f.inTurn(ctx, "terminate instances of group "+f.id, func() error { return f.terminate(ctx, ids) })
}

// terminate lowers the target, then ends the instances: the other way round
// Amazon could replace them in between, and after a crash there it would, and
// who asks again would find them ended and lower nothing.
//
// After a crash between the two, the target is lower than what exists, which
// with NoTermination kills nobody. Who asks again must not lower it once more:
// what exists beyond the target is what ends now, so it is not taken off again.
// Nothing is replaced either way, because the target never is above what is left.
// A fleet that has less than its target shows no such trace; there a process
// remembers its own, and one that crashed leaves the target too low by the
// weight of what it was ending, which is raised again as any low target is.
func (f fleet) terminate(ctx context.Context, ids []string) error {
	r, err := f.look(ctx)
	if err != nil {
		return err
	}
	victims, err := f.victims(ctx, r, ids)
	if err != nil || len(victims) == 0 {
		return err
	}
	target := r.Target
	if !r.Stale { // a cancelled request replaces nothing
		target = f.lower(r, victims)
	}
	if target != r.Target {
		if err := f.modify(ctx, target); err != nil {
			return err
		}
	}
	chosen := make([]string, len(victims))
	for n, v := range victims {
		chosen[n] = v.ID
	}
	now := f.p.cfg.Now()
	f.note(func(o *own) {
		for _, id := range chosen {
			o.lowered[id] = now
		}
	})
	return f.end(ctx, chosen)
}

// lower returns the target with which the victims can end and none is replaced.
func (f fleet) lower(r *reading, victims []instance) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var fresh float64 // weight that the target was not lowered by yet
	for _, v := range victims {
		if _, already := f.own.lowered[v.ID]; !already {
			fresh += v.Weight
		}
	}
	target := float64(r.Target)
	left := max(target, r.living()) - weightOf(victims)
	return max(0, int(math.Floor(max(target-fresh, min(target, left)))))
}

// batch is how many instances one request ends at most.
const batch = 500

// end ends instances; that may be repeated.
func (f fleet) end(ctx context.Context, ids []string) error {
	for len(ids) > 0 {
		some := ids[:min(batch, len(ids))]
		ids = ids[len(some):]
		resource := fmt.Sprintf("%s of %s", strings.Join(some[:min(namesTold, len(some))], ", "), f.id)
		if more := len(some) - namesTold; more > 0 {
			resource = fmt.Sprintf("%s and %d more of %s", strings.Join(some[:namesTold], ", "), more, f.id)
		}
		err := f.p.aws.write(ctx, "ec2:TerminateInstances", resource, func() error {
			_, err := f.p.aws.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: some})
			return err
		})
		if err != nil {
			return err
		}
		now := f.p.cfg.Now()
		f.note(func(o *own) {
			for _, id := range some {
				o.ended[id] = now
				delete(o.lowered, id)
			}
		})
	}
	return nil
}

func (f fleet) config(ctx context.Context) (ec2types.SpotFleetRequestConfig, error) {
	found, err := f.p.aws.describeFleets(ctx, []string{f.id})
	if err != nil {
		return ec2types.SpotFleetRequestConfig{}, err
	}
	config, ok := found[f.id]
	if !ok {
		return config, errors.New("the request does not exist any more")
	}
	return config, nil
}

// look reads the fleet alone, for a write.
func (f fleet) look(ctx context.Context) (*reading, error) {
	config, err := f.config(ctx)
	if err != nil {
		return nil, err
	}
	members, err := f.p.aws.members(ctx, []string{f.id})
	if err != nil {
		return nil, err
	}
	r, err := readFleet(config, members[f.id])
	if err != nil {
		return nil, err
	}
	if err := f.p.describe(ctx, map[string]*reading{f.id: r}); err != nil {
		return nil, err
	}
	if err := weigh(config, r); err != nil {
		return nil, err
	}
	return f.overlaid(r), nil
}
