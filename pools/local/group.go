package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Operations of an owner: the last token of the subject.
const (
	opSnapshot  = "snapshot"
	opSetTarget = "set_target"
	opTerminate = "terminate"

	opInspect       = "inspect"
	opRepairOwner   = "repair_owner"
	opMarkUnhealthy = "mark_unhealthy"
	opRepair        = "repair"
	opIsolate       = "isolate"
	opLift          = "lift"
	opConsole       = "console"
)

// Codes of the errors that an owner returns. Frozen.
const (
	codeBounds       = "target_bounds"
	codeNotOwned     = "not_owned"
	codeUnknownGroup = "unknown_group"
	codeRepairFailed = "repair_failed"
	codeRefused      = "refused"
)

// fenceTimeout is how long an agent may take to confirm a fence.
const fenceTimeout = time.Second

// Bounds of requests over the bus, in bytes.
const (
	maxRequest = 256 << 10
	maxAttempt = 256
	maxWhy     = 1024
)

var (
	// ErrUnknownGroup: the owner of the pool has no such group.
	ErrUnknownGroup = errors.New("no such group")
	// ErrNoOwner: no process owns the pool's local machines at the moment.
	ErrNoOwner = errors.New("no process owns the pool's local machines: start \"weir up\"")
)

type groupRequest struct {
	Group string `json:"group"`
}

type targetRequest struct {
	Group  string `json:"group"`
	Target int    `json:"target"`
}

type terminateRequest struct {
	Group string   `json:"group"`
	IDs   []string `json:"ids"`
}

type repairRequest struct {
	Group    string         `json:"group"`
	Instance string         `json:"instance"`
	Kind     api.RepairKind `json:"kind"`
	Attempt  string         `json:"attempt"`
	Image    string         `json:"image,omitempty"`
}

type repairReply struct {
	Done bool `json:"done"`
}

type isolateRequest struct {
	Group    string      `json:"group"`
	Instance string      `json:"instance"`
	Way      pools.Fence `json:"way"`
}

type isolateReply struct {
	Confirmed bool `json:"confirmed"`
}

type consoleRequest struct {
	Instance string `json:"instance"`
}

type consoleReply struct {
	Output []byte `json:"output"`
}

type liftRequest struct {
	Group    string `json:"group"`
	Instance string `json:"instance"`
}

// Group is a pools.Group that sends requests to the owner. It can also repair and fence its
// machines.
type Group struct {
	owner
	id string
}

var (
	_ pools.Group    = (*Group)(nil)
	_ pools.Repairer = (*Group)(nil)
	_ pools.Isolator = (*Group)(nil)
	_ pools.Lifter   = (*Group)(nil)
)

// NewGroup returns the group with that id. Its calls end after five seconds if their context has no
// deadline. Without an owner the error is ErrNoOwner, for an unknown group ErrUnknownGroup.
func NewGroup(nc *nats.Conn, cluster, pool, group string) *Group {
	return &Group{owner{nc, cluster, pool}, group}
}

// ID implements pools.Group.
func (g *Group) ID() string { return g.id }

// Snapshot implements pools.Group.
func (g *Group) Snapshot(ctx context.Context) (pools.GroupSnapshot, error) {
	var s pools.GroupSnapshot
	if err := g.request(ctx, opSnapshot, groupRequest{g.id}, &s); err != nil {
		return pools.GroupSnapshot{}, fmt.Errorf("read group %s: %w", g.id, err)
	}
	return s, nil
}

// SetTarget implements pools.Group.
func (g *Group) SetTarget(ctx context.Context, target int) error {
	if err := g.request(ctx, opSetTarget, targetRequest{g.id, target}, nil); err != nil {
		return fmt.Errorf("set target of group %s to %d: %w", g.id, target, err)
	}
	return nil
}

// Terminate implements pools.Group. The target is not lowered below the group's minimum, so
// machines below it are replaced.
func (g *Group) Terminate(ctx context.Context, ids []string) error {
	if err := g.request(ctx, opTerminate, terminateRequest{g.id, ids}, nil); err != nil {
		return fmt.Errorf("terminate instances of group %s: %w", g.id, err)
	}
	return nil
}

// RepairKinds implements pools.Repairer.
func (g *Group) RepairKinds() []api.RepairKind { return repairKinds() }

// RepairInPlace implements pools.Repairer. A reboot sends SIGTERM to the agent, and kills it after its grace.
// A reset kills it at once, and a rebuild also empties its folder. The repair is done when the
// process has been started again. If another attempt is in progress, the error is pools.ErrRefused.
// An image, or a machine that no longer exists, is pools.ErrRepairFailed.
func (g *Group) RepairInPlace(ctx context.Context, m pools.InPlaceRepair) (done bool, err error) {
	var reply repairReply
	if err := g.request(ctx, opRepair, repairRequest{g.id, m.Instance, m.Kind, m.Attempt, m.Image}, &reply); err != nil {
		return false, fmt.Errorf("%s of instance %s of group %s: %w", m.Kind, m.Instance, g.id, err)
	}
	return reply.Done, nil
}

// Fences implements pools.Isolator.
func (g *Group) Fences() []pools.Fence { return fences() }

// Isolate implements pools.Isolator. pools.FenceService is confirmed when the agent reports that no
// copies run. It survives restarts of the machine, until Lift. pools.FenceCompute is confirmed when
// the machine has no process left. The machine stays stopped or is replaced, as any machine that
// dies.
func (g *Group) Isolate(ctx context.Context, instance string, way pools.Fence) (confirmed bool, err error) {
	var reply isolateReply
	err = g.request(ctx, opIsolate, isolateRequest{g.id, instance, way}, &reply)
	confirmed = reply.Confirmed
	if err == nil && !confirmed && way == pools.FenceService {
		confirmed, err = g.fenceService(ctx, instance)
	}
	if err != nil {
		return false, fmt.Errorf("fence instance %s of group %s by %s: %w", instance, g.id, way, err)
	}
	return confirmed, nil
}

// fenceService requests the fence from the agent, and reports whether all copies have ended. If the
// agent does not respond, because it is frozen, starting or ending, the fence is not confirmed.
func (g *Group) fenceService(ctx context.Context, instance string) (confirmed bool, err error) {
	limited, cancel := context.WithTimeout(ctx, fenceTimeout)
	defer cancel()
	left, err := wire.NewClient(g.nc, g.cluster, g.pool).Fence(limited, instance, true)
	if errors.Is(err, wire.ErrNoAgent) || err != nil && limited.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil && left == 0, err
}

// Lift removes the fence of pools.FenceService: the node accepts app instances again. It may be
// repeated. If the agent does not respond, the error is returned, and a restart of the machine
// removes the fence.
func (g *Group) Lift(ctx context.Context, instance string) error {
	err := g.request(ctx, opLift, liftRequest{g.id, instance}, nil)
	if err == nil {
		_, err = wire.NewClient(g.nc, g.cluster, g.pool).Fence(ctx, instance, false)
	}
	if err != nil {
		return fmt.Errorf("lift the fence of instance %s of group %s: %w", instance, g.id, err)
	}
	return nil
}
