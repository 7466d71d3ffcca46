package local

import (
	"context"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/pools"
)

type inspectReply struct {
	Instances   []pools.Inspection `json:"instances"`
	KeepStopped bool               `json:"keep_stopped"` // dead machines are not replaced
}

type repairOwnerRequest struct {
	On bool `json:"on"`
}

type markRequest struct {
	Instance string `json:"instance"`
	Why      string `json:"why"`
}

// Pool is a pools.Provider and Inspector that sends requests to the owner. Its list of groups is
// fixed.
type Pool struct {
	owner
	groups pools.Static
}

var (
	_ pools.Provider    = (*Pool)(nil)
	_ pools.Inspector   = (*Pool)(nil)
	_ pools.RepairOwner = (*Pool)(nil)
	_ pools.Addresser   = (*Pool)(nil)
)

// NewPool returns the pool with the groups of these ids. Each is a [Group]. The calls have the same
// time limits as those of a Group.
func NewPool(nc *nats.Conn, cluster, pool string, groups ...string) *Pool {
	p := &Pool{owner: owner{nc, cluster, pool}}
	for _, id := range slices.Sorted(slices.Values(groups)) {
		p.groups = append(p.groups, NewGroup(nc, cluster, pool, id))
	}
	return p
}

// Groups implements pools.Provider.
func (p *Pool) Groups(ctx context.Context) (pools.Listing, error) { return p.groups.Groups(ctx) }

// Address implements pools.Addresser: every machine is this host.
func (p *Pool) Address(context.Context, string) (pools.Address, error) {
	return pools.Address{IP: "127.0.0.1", Name: "localhost"}, nil
}

// Inspect implements pools.Inspector. It reports whether the process of each machine runs. Load
// balancers do not exist here.
func (p *Pool) Inspect(ctx context.Context, _ pools.Inspecting) ([]pools.Inspection, error) {
	reply, err := p.inspect(ctx)
	return reply.Instances, err
}

// Console returns the last lines of a machine's agent log, at most provider.MaxConsole bytes. If
// the machine is not of this pool, or no longer exists, the error is pools.ErrNotOwned.
func (p *Pool) Console(ctx context.Context, instance string) ([]byte, error) {
	var reply consoleReply
	if err := p.request(ctx, opConsole, consoleRequest{instance}, &reply); err != nil {
		return nil, fmt.Errorf("read the agent's log of instance %s of pool %s: %w", instance, p.pool, err)
	}
	return reply.Output, nil
}

func (p *Pool) inspect(ctx context.Context) (inspectReply, error) {
	var reply inspectReply
	if err := p.request(ctx, opInspect, struct{}{}, &reply); err != nil {
		return inspectReply{}, fmt.Errorf("inspect the machines of pool %s: %w", p.pool, err)
	}
	return reply, nil
}

// OwnsRepair implements pools.RepairOwner.
func (p *Pool) OwnsRepair(ctx context.Context) (why string, err error) {
	reply, err := p.inspect(ctx)
	if err != nil || reply.KeepStopped {
		return "", err
	}
	return "the owner of the local machines replaces those that die", nil
}

// ReleaseRepair implements pools.RepairOwner. It survives restarts of the owner, until ResumeRepair. A machine
// that dies is stopped then: it keeps its id and its folder. Snapshots list it as running,
// inspections as stopped. A new owner starts the machines that ran before, under their ids.
func (p *Pool) ReleaseRepair(ctx context.Context) error { return p.setRepairOwner(ctx, false) }

// ResumeRepair implements pools.RepairOwner. The owner again replaces machines that die, and also those that are
// stopped. It may be repeated.
func (p *Pool) ResumeRepair(ctx context.Context) error { return p.setRepairOwner(ctx, true) }

func (p *Pool) setRepairOwner(ctx context.Context, on bool) error {
	if err := p.request(ctx, opRepairOwner, repairOwnerRequest{on}, nil); err != nil {
		return fmt.Errorf("set the repair owner of pool %s: %w", p.pool, err)
	}
	return nil
}

// MarkUnhealthy implements pools.RepairOwner. After ReleaseRepair the machine is not replaced, and
// inspections report it as unfit until it is repaired. If it never was of this pool, the error is
// pools.ErrNotOwned.
func (p *Pool) MarkUnhealthy(ctx context.Context, instance, why string) error {
	if err := p.request(ctx, opMarkUnhealthy, markRequest{instance, why}, nil); err != nil {
		return fmt.Errorf("mark instance %s of pool %s as unhealthy: %w", instance, p.pool, err)
	}
	return nil
}
