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

// SetTarget implements pools.Group. It uses NoTermination, so a lower target only stops
// replacements. For a cancelled request the error is pools.ErrRefused.
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

// Interval and limit of the retries while an earlier change of a request is in progress.
const (
	retryEvery = 500 * time.Millisecond
	retryFor   = 20 * time.Second
)

// modify sets the target. It waits for an own earlier change, because several nodes of a fleet may
// be terminated in sequence.
func (f fleet) modify(ctx context.Context, target int) error {
	patience, again := time.NewTimer(retryFor), time.NewTicker(retryEvery)
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

// Terminate implements pools.Group with one difference: it first terminates weight beyond the
// target, and lowers the target only by the rest.
func (f fleet) Terminate(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	return f.inTurn(ctx, "terminate instances of group "+f.id, func() error { return f.terminate(ctx, ids) })
}

// terminate lowers the target before it terminates the instances. In the reverse order AWS could
// replace the instances in between. After a crash there, a retry would find them terminated and
// lower nothing.
//
// After a crash between the two steps, the target is lower than the existing weight. With
// NoTermination no instance ends. A retry must not lower the target again: the weight beyond the
// target is what ends now. So no instance is replaced, because the target is never above the
// remaining weight.
//
// A fleet below its target shows no such trace. There a process remembers its own change. If it
// crashes, the target stays too low by the weight of the terminated instances, and is raised again
// as any low target.
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
	if !r.Stale { // AWS replaces nothing for a cancelled request
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
	f.updateOwn(func(o *own) {
		for _, id := range chosen {
			o.lowered[id] = now
		}
	})
	return f.end(ctx, chosen)
}

// lower returns the target with which the victims can end without replacement.
func (f fleet) lower(r *reading, victims []instance) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var fresh float64 // weight by which the target is not lowered yet
	for _, v := range victims {
		if _, already := f.own.lowered[v.ID]; !already {
			fresh += v.Weight
		}
	}
	target := float64(r.Target)
	left := max(target, r.living()) - weightOf(victims)
	return max(0, int(math.Floor(max(target-fresh, min(target, left)))))
}

// batch is the maximum number of instances in one request.
const batch = 500

// end terminates instances. It may be repeated.
func (f fleet) end(ctx context.Context, ids []string) error {
	for len(ids) > 0 {
		some := ids[:min(batch, len(ids))]
		ids = ids[len(some):]
		resource := fmt.Sprintf("%s of %s", strings.Join(some[:min(maxNames, len(some))], ", "), f.id)
		if more := len(some) - maxNames; more > 0 {
			resource = fmt.Sprintf("%s and %d more of %s", strings.Join(some[:maxNames], ", "), more, f.id)
		}
		err := f.p.aws.write(ctx, "ec2:TerminateInstances", resource, func() error {
			_, err := f.p.aws.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: some})
			return err
		})
		if err != nil {
			return err
		}
		now := f.p.cfg.Now()
		f.updateOwn(func(o *own) {
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

// look reads one fleet, for a write.
func (f fleet) look(ctx context.Context) (*reading, error) {
	config, err := f.config(ctx)
	if err != nil {
		return nil, err
	}
	members, unread := f.p.aws.members(ctx, []string{f.id})
	if err := unread[f.id]; err != nil {
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
