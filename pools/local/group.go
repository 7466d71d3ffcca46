package local

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/internal/call"
)

// What an owner does on request; the last token of the subject.
const (
	opSnapshot  = "snapshot"
	opSetTarget = "set_target"
	opTerminate = "terminate"
)

// Codes of an owner's refusals. Frozen.
const (
	codeBounds       = "target_bounds"
	codeNotOwned     = "not_owned"
	codeUnknownGroup = "unknown_group"
)

const maxRequest = 256 << 10 // bytes

var (
	// ErrUnknownGroup: the owner of the pool has no such group.
	ErrUnknownGroup = errors.New("no such group")
	// ErrNoOwner: nobody owns the pool's local machines at the moment.
	ErrNoOwner = errors.New("no process owns the pool's local machines")
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

// Group is a pools.Group at an owner elsewhere.
type Group struct {
	nc            *nats.Conn
	cluster, pool string
	id            string
}

var _ pools.Group = (*Group)(nil)

// NewGroup returns the group of that id. Its calls end after five seconds if
// their context has no deadline, with ErrNoOwner if nobody is there to ask and
// with ErrUnknownGroup if there is no such group.
func NewGroup(nc *nats.Conn, cluster, pool, group string) *Group {
	return &Group{nc, cluster, pool, group}
}

// ID implements pools.Group.
func (g *Group) ID() string { return g.id }

// Snapshot implements pools.Group.
func (g *Group) Snapshot(ctx context.Context) (pools.GroupSnapshot, error) {
	var s pools.GroupSnapshot
	if err := g.ask(ctx, opSnapshot, groupRequest{g.id}, &s); err != nil {
		return pools.GroupSnapshot{}, fmt.Errorf("read group %s: %w", g.id, err)
	}
	return s, nil
}

// SetTarget implements pools.Group.
func (g *Group) SetTarget(ctx context.Context, target int) error {
	if err := g.ask(ctx, opSetTarget, targetRequest{g.id, target}, nil); err != nil {
		return fmt.Errorf("set target of group %s to %d: %w", g.id, target, err)
	}
	return nil
}

// Terminate implements pools.Group. The target is not lowered below the
// group's minimum, so what ends there is replaced.
func (g *Group) Terminate(ctx context.Context, ids []string) error {
	if err := g.ask(ctx, opTerminate, terminateRequest{g.id, ids}, nil); err != nil {
		return fmt.Errorf("terminate instances of group %s: %w", g.id, err)
	}
	return nil
}

func (g *Group) ask(ctx context.Context, op string, request, reply any) error {
	err := call.Ask(ctx, g.nc, subject(g.cluster, g.pool, op), request, reply)
	if errors.Is(err, nats.ErrNoResponders) {
		return ErrNoOwner
	}
	refusal, ok := errors.AsType[*call.Error](err)
	if !ok {
		return err
	}
	switch refusal.Code {
	case codeBounds:
		return pools.ErrTargetBounds
	case codeNotOwned:
		return pools.ErrNotOwned
	case codeUnknownGroup:
		return ErrUnknownGroup
	}
	return refusal
}

// refusalOf is the inverse of what ask does.
func refusalOf(err error) error {
	for code, sentinel := range map[string]error{
		codeBounds: pools.ErrTargetBounds, codeNotOwned: pools.ErrNotOwned, codeUnknownGroup: ErrUnknownGroup,
	} {
		if errors.Is(err, sentinel) {
			return &call.Error{Code: code, Message: err.Error()}
		}
	}
	return err
}

func subject(cluster, pool, op string) string {
	return "weir." + cluster + ".local." + pool + "." + op
}
