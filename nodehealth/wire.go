package nodehealth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
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

// Order is an operator's order.
type Order struct {
	Op    string   `json:"op"`
	Nodes []string `json:"nodes,omitempty"`
	By    string   `json:"by,omitempty"` // the operator
	Why   string   `json:"why,omitempty"`
	// All selects, for OpRecover, each node of the pool, and for OpRelease, all waiting requests.
	// Such an order has no Nodes.
	All bool `json:"all,omitempty"`
	// For is in nanoseconds. For OpPause it is the length; 0 is judge.DefaultPause. For OpRecover
	// it is how long the request may wait for the gates; 0: a refusal ends it.
	For time.Duration `json:"for,omitempty"`
}

// Validate returns an ErrOrder with the reason, or nil.
func (o Order) Validate() error {
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

// OrderResponse is the response to an Order.
type OrderResponse struct {
	OK    bool   `json:"ok"`              // everything was done, or has begun
	Error string `json:"error,omitempty"` // error of the whole order
	// Nodes are the requested nodes, in their order. For a recovery of the whole pool they are the
	// nodes that it skips, at most MaxRows.
	Nodes []NodeResponse `json:"nodes,omitempty"`
	Pool  *PoolResponse  `json:"pool,omitempty"` // for a recovery of the whole pool
}

// PoolResponse is the result of a request to repair the whole pool.
type PoolResponse struct {
	Nodes   int       `json:"nodes"`   // in the pool
	Begun   int       `json:"begun"`   // nodes whose repair has begun
	Waiting int       `json:"waiting"` // nodes that wait for the gates
	Until   time.Time `json:"until"`   // nodes that still wait then are not repaired
}

// WhyNoNode is the reason in the response for a node that the pool does not have.
const WhyNoNode = "the pool has no such node"

// NodeResponse is the result of an Order for one node.
type NodeResponse struct {
	Node   string      `json:"node"`
	OK     bool        `json:"ok"`
	Why    string      `json:"why,omitempty"` // what was done, or which gate refuses and why
	Status *NodeStatus `json:"status,omitempty"`
}

// StatusQuery requests a Status. An empty query selects the unhealthy nodes.
type StatusQuery struct {
	Nodes []string `json:"nodes,omitempty"` // only these nodes
	All   bool     `json:"all,omitempty"`   // healthy nodes too
	After string   `json:"after,omitempty"` // the page after this node
	// History requests the history of the nodes, or of all without Nodes, instead of their state.
	History bool `json:"history,omitempty"`
}

// Validate returns an ErrOrder with the reason, or nil.
func (q StatusQuery) Validate() error {
	if len(q.After) > MaxNodeID {
		return fmt.Errorf("%w: after is longer than %d bytes", ErrOrder, MaxNodeID)
	}
	return checkNodes(q.Nodes)
}

// Status is the state of a pool.
type Status struct {
	Pool    string      `json:"pool"`
	At      time.Time   `json:"at"`
	Enabled bool        `json:"enabled"`
	Mode    judge.Mode  `json:"mode"`
	Owner   judge.Owner `json:"owner"`
	// RepairOwner is the actual repair owner if it differs from the policy; empty: as in the policy.
	RepairOwner string       `json:"repair_owner,omitempty"`
	Census      judge.Census `json:"census"`
	Nodes       []NodeStatus `json:"nodes,omitempty"` // sorted by id, at most MaxRows
	Next        string       `json:"next,omitempty"`  // if there are more nodes: After of the next page
	// History holds the actions on the nodes, oldest first, at most HistoryPool.
	History []HistoryEntry  `json:"history,omitempty"`
	Open    []judge.Breaker `json:"open,omitempty"` // open breakers
	// Pauses, at most MaxRows, those of the pool first.
	Pauses []judge.PauseRecord `json:"pauses,omitempty"`
	// Requests are the pool requests with waiting nodes, at most MaxRows.
	Requests []judge.PoolRequest `json:"requests,omitempty"`
	Alarms   []Alarm             `json:"alarms,omitempty"` // active alarms
	Rounds   []RoundStatus       `json:"rounds,omitempty"`
	Memory   MemoryStatus        `json:"memory"`
	Lost     map[string]uint64   `json:"lost,omitempty"` // number of dropped items, by kind
}

// NodeStatus is the state of a node.
type NodeStatus struct {
	judge.Explanation
	Group string `json:"group,omitempty"`
	Stage string `json:"stage,omitempty"` // progress of its repair
	// Evidence is the name of the evidence that was saved before the repair.
	Evidence string `json:"evidence,omitempty"`
}

// Alarm is a problem that an operator must check.
type Alarm struct {
	Key   string    `json:"key"` // the subject, a stable key
	Node  string    `json:"node,omitempty"`
	Since time.Time `json:"since"`
	Why   string    `json:"why"`
}

// RoundStatus is the status of a periodic observation.
type RoundStatus struct {
	Round    string           `json:"round"` // name of the round
	Modes    []judge.ModeType `json:"modes,omitempty"`
	Interval time.Duration    `json:"interval"`
	At       time.Time        `json:"at,omitzero"`    // end of the last round
	Took     time.Duration    `json:"took,omitempty"` // duration of the last round
	Lag      time.Duration    `json:"lag,omitempty"`  // delay of the start of the last round
	Missed   uint64           `json:"missed"`         // rounds skipped because one took too long
	Err      string           `json:"err,omitempty"`  // error of the last round
}

// MemoryStatus is the status of saving.
type MemoryStatus struct {
	Saved time.Time `json:"saved,omitzero"` // time of the last save
	Err   string    `json:"err,omitempty"`  // why saving fails now; meanwhile no order is carried out
	Held  int       `json:"held"`           // orders that wait for a save, or for the first snapshot
}

// EventAlarm is the event of a Notification that is an alarm.
const EventAlarm judge.FindingEvent = "alarm"

// Notification is one published finding or alarm.
type Notification struct {
	Pool string    `json:"pool"`
	At   time.Time `json:"at"`
	judge.Finding
	Alarm string `json:"alarm,omitempty"` // of EventAlarm: the subject, a stable key
}
