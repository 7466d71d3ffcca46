package nodehealth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// Operations of an Order.
const (
	OpPause   = "pause"   // block repairs of the nodes; without nodes, of the pool
	OpResume  = "resume"  // end the pause of the same operator
	OpRecover = "recover" // request the repair of the nodes, or of all, healthy or not, through all gates
	OpRelease = "release" // end the quarantine of nodes, or withdraw their repair requests; without nodes, close all breakers or withdraw all requests
	OpCheck   = "check"   // observe the nodes now in each mode; without nodes, all
)

// Limits of requests and responses, so that each fits in a message.
const (
	MaxOrderNodes    = 256 // nodes of an Order or a StatusQuery
	MaxNodeID        = 256 // bytes of a node's id
	MaxBy            = 128 // bytes of an operator's name
	MaxWhy           = 512 // bytes of a reported reason
	MaxPause         = 365 * 24 * time.Hour
	MaxPauses        = 300 // pauses of operators at a time, of nodes and of the pool
	MaxRows          = 100 // nodes in a Status, or in the Answer to a check of all
	MaxNotifications = 256 // in one Publish
)

// ErrOrder wraps the reason why an order or query is invalid.
var ErrOrder = errors.New("invalid order")

// ValidateOrder returns an ErrOrder with the reason, or nil.
func ValidateOrder(o api.RepairOrder) error {
	ops := []string{OpPause, OpResume, OpRecover, OpRelease, OpCheck}
	switch {
	case !slices.Contains(ops, o.Op):
		return fmt.Errorf("%w: op is %.40q: want %s", ErrOrder, o.Op, strings.Join(ops, ", "))
	case len(o.By) > MaxBy || len(o.Why) > MaxWhy:
		return fmt.Errorf("%w: by or why is longer than %d or %d bytes", ErrOrder, MaxBy, MaxWhy)
	case o.All && o.Op != OpRecover && o.Op != OpRelease:
		return fmt.Errorf("%w: %s does not accept \"all\"", ErrOrder, o.Op)
	case o.All && len(o.Nodes) > 0:
		return fmt.Errorf("%w: %s has both nodes and \"all\": want one of them", ErrOrder, o.Op)
	case o.Op == OpRecover && len(o.Nodes) == 0 && !o.All:
		return fmt.Errorf("%w: %s has no node", ErrOrder, o.Op)
	case o.Op == OpRecover && o.All && o.For == 0:
		return fmt.Errorf("%w: %s of the whole pool needs a duration: set how long its requests may wait", ErrOrder, o.Op)
	case o.For != 0 && o.Op != OpPause && o.Op != OpRecover:
		return fmt.Errorf("%w: %s does not accept a duration", ErrOrder, o.Op)
	case o.For < 0 || o.For > MaxPause:
		return fmt.Errorf("%w: %s for %v: want at most %v", ErrOrder, o.Op, o.For, MaxPause)
	}
	return checkNodes(o.Nodes)
}

func checkNodes(nodes []string) error {
	if len(nodes) > MaxOrderNodes {
		return fmt.Errorf("%w: %d nodes: want at most %d", ErrOrder, len(nodes), MaxOrderNodes)
	}
	for i, id := range nodes {
		if id == "" || len(id) > MaxNodeID {
			return fmt.Errorf("%w: node %.40q: want 1 to %d bytes", ErrOrder, id, MaxNodeID)
		}
		if slices.Contains(nodes[:i], id) {
			return fmt.Errorf("%w: node %s is named twice: name it once", ErrOrder, id)
		}
	}
	return nil
}

// WhyNoNode is the reason in the response for a node that the pool does not have.
const WhyNoNode = "the pool has no such node"

// ValidateQuery returns an ErrOrder with the reason, or nil.
func ValidateQuery(q api.HealthQuery) error {
	if len(q.After) > MaxNodeID {
		return fmt.Errorf("%w: after is longer than %d bytes", ErrOrder, MaxNodeID)
	}
	return checkNodes(q.Nodes)
}
