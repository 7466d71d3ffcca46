package grpc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/grpc/externalgrpc"
)

// Bounds of an answer.
const (
	maxGroups    = 10_000  // of a server
	maxInstances = 50_000  // of a group
	maxSize      = 1 << 20 // target and bounds of a group
	maxGroupID   = 189     // bytes: a longer name has no key in the state of the pool
)

// reading is the result of one read of a group.
type reading struct {
	target    int
	instances []instance
	short     string // why the server does not fulfill the target; empty: it does
	// unsure: the result of an earlier write of the target is unknown, and this reading does not show it.
	unsure bool
}

// instance is an instance of a group.
type instance struct {
	pools.Instance
	address string // id at the server
}

// living returns the number of instances that are not terminating.
func (r *reading) living() (n int) {
	for i := range r.instances {
		if r.instances[i].State != api.InstanceTerminating {
			n++
		}
	}
	return n
}

// find returns the instance of that node, or nil.
func (r *reading) find(node string) *instance {
	i := slices.IndexFunc(r.instances, func(i instance) bool { return i.ID == node })
	if i < 0 {
		return nil
	}
	return &r.instances[i]
}

// lives reports whether the reading has the instance of that node, and it is not terminating.
func (r *reading) lives(node string) bool {
	i := r.find(node)
	return i != nil && i.State != api.InstanceTerminating
}

// validGroup reports whether id may be the id of a group: people and keys can have it.
func validGroup(id string) bool {
	return id != "" && len(id) <= maxGroupID && strings.IndexFunc(id, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) < 0
}

// nodeID returns the id of an instance's node: the last part of its id at the server. The agent has it as --id.
func nodeID(address string) (string, error) {
	id := address[strings.LastIndexByte(address, '/')+1:]
	if !names.ValidToken(id) {
		return "", fmt.Errorf("instance %.80q: want letters, digits, - and _ after the last slash, at most 128, which is the id of its node", address)
	}
	return id, nil
}

// list reads the groups of the server.
func (s *server) list(ctx context.Context) ([]*externalgrpc.NodeGroup, error) {
	_, err := call(ctx, s, "Refresh", s.Refresh, &externalgrpc.RefreshRequest{})
	if err != nil && !hasCode(err, codes.Unimplemented) {
		return nil, err
	}
	answer, err := call(ctx, s, "NodeGroups", s.NodeGroups, &externalgrpc.NodeGroupsRequest{})
	switch groups := answer.GetNodeGroups(); {
	case err != nil:
		return nil, err
	case len(groups) == 0:
		return nil, fmt.Errorf("%s lists no group at all: it may still be starting", s.address)
	case len(groups) > maxGroups:
		return nil, fmt.Errorf("%s lists %d groups, more than %d", s.address, len(groups), maxGroups)
	}
	return answer.GetNodeGroups(), nil
}

// bounds returns the bounds of a group.
func bounds(g *externalgrpc.NodeGroup) (least, most int, err error) {
	least, most = int(g.GetMinSize()), int(g.GetMaxSize())
	if least < 0 || least > most || most > maxSize {
		return 0, 0, fmt.Errorf("minSize is %d and maxSize %d: want 0 <= minSize <= maxSize <= %d", least, most, maxSize)
	}
	return least, most, nil
}

// group reads one group. The instances have no launch time and no market, unless the server has it.
func (s *server) group(ctx context.Context, id string, now time.Time) (*reading, error) {
	size, err := call(ctx, s, "NodeGroupTargetSize", s.NodeGroupTargetSize, &externalgrpc.NodeGroupTargetSizeRequest{Id: id})
	if err != nil {
		return nil, err
	}
	nodes, err := call(ctx, s, "NodeGroupNodes", s.NodeGroupNodes, &externalgrpc.NodeGroupNodesRequest{Id: id})
	if err != nil {
		return nil, err
	}
	target := int(size.GetTargetSize())
	if target < 0 || target > maxSize {
		return nil, fmt.Errorf("the target of group %s is %d: want 0 to %d", id, target, maxSize)
	}
	r, err := readingOf(id, nodes.GetInstances(), now)
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", id, err)
	}
	r.target = target
	return r, nil
}

func readingOf(group string, listed []*externalgrpc.Instance, now time.Time) (*reading, error) {
	if len(listed) > maxInstances {
		return nil, fmt.Errorf("%d instances, more than %d", len(listed), maxInstances)
	}
	r := &reading{}
	seen := make(map[string]bool, len(listed))
	for _, one := range listed {
		state, failure := one.GetStatus().GetInstanceState(), one.GetStatus().GetErrorInfo()
		if failure.GetErrorCode() != "" && state == externalgrpc.InstanceStatus_instanceCreating {
			r.short = prose.Line(failure.GetErrorCode()+": "+failure.GetErrorMessage(), maxCause)
			continue // there is no machine, and none comes
		}
		id, err := nodeID(one.GetId())
		if err == nil && seen[id] {
			err = fmt.Errorf("two instances have the node %s, the latter is %.80q", id, one.GetId())
		}
		if err != nil {
			return nil, err
		}
		seen[id] = true
		i := instance{pools.Instance{ID: id, Group: group, Weight: 1, State: stateOf(state)}, one.GetId()}
		if at := one.GetLaunched(); at.IsValid() && at.GetSeconds() > 0 && !at.AsTime().After(now.Add(pools.ClockTolerance)) {
			i.Launched = at.AsTime()
		}
		r.instances = append(r.instances, i)
	}
	return r, nil
}

func stateOf(s externalgrpc.InstanceStatus_InstanceState) api.InstanceState {
	switch s {
	case externalgrpc.InstanceStatus_instanceRunning:
		return api.InstanceRunning
	case externalgrpc.InstanceStatus_instanceCreating:
		return api.InstancePending
	case externalgrpc.InstanceStatus_instanceDeleting:
		return api.InstanceTerminating
	}
	return api.InstanceUnknown
}

// template reads the machine that a larger target of a group launches. ok is false if the server does not show it.
func (s *server) template(ctx context.Context, id string) (t template, ok bool, err error) {
	answer, err := call(ctx, s, "NodeGroupTemplateNodeInfo", s.NodeGroupTemplateNodeInfo, &externalgrpc.NodeGroupTemplateNodeInfoRequest{Id: id})
	if hasCode(err, codes.Unimplemented) {
		return template{}, false, nil
	}
	if err == nil {
		t, ok, err = templateOf(answer, id)
	}
	if err != nil {
		return template{}, false, fmt.Errorf("template of group %s: %w", id, err)
	}
	return t, ok, nil
}
