package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// repairTag is the tag that records a repair at AWS, so that it survives a crash. A reboot or a
// restart is recorded at the instance, a new root volume at its task.
const repairTag = "weir:repairing"

// begun is a repair in progress.
type begun struct {
	token    string
	launched time.Time // launch time of the instance before the repair; in seconds
	at       time.Time
	refused  bool // AWS rejected the request
	started  bool // the start of the instance was requested
}

// tokenOf converts an attempt to the characters and the length that AWS accepts.
func tokenOf(attempt string) string {
	sum := sha256.Sum256([]byte(attempt))
	return hex.EncodeToString(sum[:20])
}

// String returns the tag's value.
func (b begun) String() string { return b.token + " " + b.launched.UTC().Format(time.RFC3339) }

func parseBegun(value string) (begun, bool) {
	token, at, ok := strings.Cut(value, " ")
	launched, err := time.Parse(time.RFC3339, at)
	return begun{token: token, launched: launched}, ok && err == nil && token != ""
}

// repair repairs an instance. can has the kinds of repair that the group supports.
func (g *group) repair(ctx context.Context, m pools.InPlaceRepair, can []api.RepairKind, restart func(context.Context, ec2types.Instance, pools.InPlaceRepair) (bool, error)) (done bool, err error) {
	err = g.inTurn(ctx, fmt.Sprintf("repair %.40s of group %s by %s", m.Instance, g.id, m.Kind), func() error {
		switch {
		case !slices.Contains(can, m.Kind):
			return fmt.Errorf("%w: no instance of this group can be repaired by %q", pools.ErrRefused, m.Kind)
		case m.Attempt == "":
			return errors.New("the attempt is empty")
		}
		i, exists, err := g.machine(ctx, m.Instance)
		if err != nil {
			return err
		}
		if !exists || leavingState(stateOf(i)) {
			return fmt.Errorf("%w: the instance has ended", pools.ErrRepairFailed)
		}
		switch m.Kind {
		case api.RepairReboot:
			done, err = g.reboot(ctx, i, tokenOf(m.Attempt))
		case api.RepairRebuild:
			done, err = g.rebuild(ctx, i, m)
		default:
			done, err = restart(ctx, i, m)
		}
		return final(err)
	})
	return done, err
}

// final turns errors of AWS that a retry does not change into pools.ErrRepairFailed.
func final(err error) error {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return err
	}
	invalid := strings.HasPrefix(api.ErrorCode(), "Invalid") && !errors.Is(err, pools.ErrRefused) // an invalid credential may change
	if invalid || api.ErrorCode() == "UnsupportedOperation" {
		return fmt.Errorf("%w: %w", pools.ErrRepairFailed, err)
	}
	return err
}

// machine reads an instance of the group. If EC2 has no record of it, exists is false. If the id is
// invalid, or the instance belongs to another group, the error is pools.ErrNotOwned.
func (g *group) machine(ctx context.Context, id string) (i ec2types.Instance, exists bool, err error) {
	if !validID(id) {
		return i, false, fmt.Errorf("%.40q: %w", id, pools.ErrNotOwned)
	}
	err = g.p.aws.instances(ctx, func(one ec2types.Instance) { i, exists = one, true }, filter("instance-id", id))
	if err != nil || !exists {
		return i, false, err
	}
	if tagOf(i, groupTag) != g.id && tagOf(i, fleetTag) != g.id && !leavingState(stateOf(i)) {
		return i, false, fmt.Errorf("%s: %w", id, pools.ErrNotOwned)
	}
	return i, true, nil
}

func tagOf(i ec2types.Instance, key string) string {
	for _, t := range i.Tags {
		if aws.ToString(t.Key) == key {
			return aws.ToString(t.Value)
		}
	}
	return ""
}

func leavingState(s ec2types.InstanceStateName) bool {
	return s == ec2types.InstanceStateNameShuttingDown || s == ec2types.InstanceStateNameTerminated
}

// earlier returns the repair with that token if it was begun. The memory of this process may be
// newer than the instance's tag.
func (g *group) earlier(i ec2types.Instance, token string) (begun, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if b, ok := g.own.begun[aws.ToString(i.InstanceId)]; ok && b.token == token {
		return b, true
	}
	b, ok := parseBegun(tagOf(i, repairTag))
	return b, ok && b.token == token
}

// begin durably records the start of a repair.
func (g *group) begin(ctx context.Context, i ec2types.Instance, token string) (begun, error) {
	b := begun{token: token, launched: launchedAt(i), at: g.p.cfg.Now()}
	id := aws.ToString(i.InstanceId)
	err := g.p.aws.write(ctx, "ec2:CreateTags", id+" of "+g.id, func() error {
		_, err := g.p.aws.ec2.CreateTags(ctx, &ec2.CreateTagsInput{
			Resources: []string{id}, Tags: []ec2types.Tag{{Key: aws.String(repairTag), Value: aws.String(b.String())}},
		})
		return err
	})
	if err == nil {
		g.remember(id, b)
	}
	return b, err
}

func (g *group) remember(id string, b begun) {
	b.at = g.p.cfg.Now()
	g.updateOwn(func(o *own) { o.begun[id] = b })
}

// launchedAt returns when the instance was last started.
func launchedAt(i ec2types.Instance) time.Time { return aws.ToTime(i.LaunchTime).Truncate(time.Second) }

// reboot requests one reboot. EC2 reports no progress. A new boot id shows the end.
func (g *group) reboot(ctx context.Context, i ec2types.Instance, token string) (bool, error) {
	b, again := g.earlier(i, token)
	switch state := stateOf(i); {
	case again && !b.refused:
		return true, nil
	case state == ec2types.InstanceStateNameStopped:
		return false, fmt.Errorf("%w: the instance is stopped", pools.ErrRepairFailed)
	case state != ec2types.InstanceStateNameRunning:
		return false, fmt.Errorf("the instance is %s", state)
	}
	if !again {
		var err error
		if b, err = g.begin(ctx, i, token); err != nil {
			return false, err
		}
	}
	id := aws.ToString(i.InstanceId)
	err := g.p.aws.write(ctx, "ec2:RebootInstances", id+" of "+g.id, func() error {
		_, err := g.p.aws.ec2.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{id}},
			func(o *ec2.Options) { o.Retryer = g.p.aws.once })
		return err
	})
	b.refused = err != nil && !mayHaveSucceeded(err)
	g.remember(id, b)
	return err == nil, err
}

// rebuild begins a replacement of the root volume, or returns its state.
func (g *group) rebuild(ctx context.Context, i ec2types.Instance, m pools.InPlaceRepair) (bool, error) {
	token := tokenOf(m.Attempt)
	task, err := g.volumeTask(ctx, m.Instance, token)
	if err != nil {
		return false, err
	}
	if task == nil {
		switch state := stateOf(i); state {
		case ec2types.InstanceStateNameRunning:
			return false, g.replaceVolume(ctx, m, token)
		case ec2types.InstanceStateNameStopped:
			return false, fmt.Errorf("%w: the instance is stopped", pools.ErrRepairFailed)
		default:
			return false, fmt.Errorf("the instance is %s", state)
		}
	}
	switch task.TaskState {
	case ec2types.ReplaceRootVolumeTaskStateSucceeded:
		return true, nil
	case ec2types.ReplaceRootVolumeTaskStateFailed:
		return false, fmt.Errorf("%w: the old root volume is still attached", pools.ErrRepairFailed)
	case ec2types.ReplaceRootVolumeTaskStateFailedDetached, "failing-detached":
		return false, fmt.Errorf("%w: the instance has no root volume", pools.ErrRepairFailed)
	}
	return false, nil
}

// volumeTask returns the task with that token, or nil if AWS lists none.
func (g *group) volumeTask(ctx context.Context, id, token string) (task *ec2types.ReplaceRootVolumeTask, err error) {
	err = g.p.aws.pages(ctx, "ec2:DescribeReplaceRootVolumeTasks", id+" of "+g.id, func(next *string) (*string, error) {
		out, err := g.p.aws.ec2.DescribeReplaceRootVolumeTasks(ctx, &ec2.DescribeReplaceRootVolumeTasksInput{
			Filters: []ec2types.Filter{filter("instance-id", id)}, NextToken: next,
		})
		if err != nil {
			return nil, err
		}
		for _, t := range out.ReplaceRootVolumeTasks {
			if aws.ToString(t.InstanceId) == id && slices.ContainsFunc(t.Tags, func(tag ec2types.Tag) bool {
				return aws.ToString(tag.Key) == repairTag && aws.ToString(tag.Value) == token
			}) {
				task = &t
			}
		}
		return out.NextToken, nil
	})
	return task, err
}

// replaceVolume begins a task. For a repeated token AWS begins no second task.
func (g *group) replaceVolume(ctx context.Context, m pools.InPlaceRepair, token string) error {
	in := &ec2.CreateReplaceRootVolumeTaskInput{
		InstanceId: &m.Instance, ClientToken: &token, DeleteReplacedRootVolume: aws.Bool(true),
		TagSpecifications: []ec2types.TagSpecification{{
			ResourceType: ec2types.ResourceTypeReplaceRootVolumeTask,
			Tags:         []ec2types.Tag{{Key: aws.String(repairTag), Value: &token}},
		}},
	}
	if m.Image != "" {
		in.ImageId = &m.Image
	}
	return g.p.aws.write(ctx, "ec2:CreateReplaceRootVolumeTask", m.Instance+" of "+g.id, func() error {
		_, err := g.p.aws.ec2.CreateReplaceRootVolumeTask(ctx, in)
		return err
	})
}
