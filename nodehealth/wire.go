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
	OpPause   = "pause"   // no repairs of the nodes, or of the pool without any
	OpResume  = "resume"  // ends the pause that the same operator took
	OpRecover = "recover" // have the nodes, or all of the pool, repaired, sick or not, through all gates
	OpRelease = "release" // end the quarantine of nodes, or withdraw requests to repair them; without any, close all breakers or withdraw all requests
	OpCheck   = "check"   // observe the nodes now in each mode, or all without any
)

// Bounds of what is asked, and of what is answered, so that each fits a message.
const (
	MaxOrderNodes    = 256 // nodes of an Order or a StatusQuery
	MaxNodeID        = 256 // bytes of a node's id
	MaxBy            = 128 // bytes of an operator's name
	MaxWhy           = 512 // bytes of a reason that is told
	MaxPause         = 365 * 24 * time.Hour
	MaxPauses        = 300 // that operators have at a time, of nodes and of the pool
	MaxRows          = 100 // nodes in a Status, or in the Answer to a check of all
	MaxNotifications = 256 // in one Publish
)

// ErrOrder: an order that makes no sense, with what is wrong.
var ErrOrder = errors.New("not an order")

// Order is what an operator asks for.
type Order struct {
	Op    string   `json:"op"`
	Nodes []string `json:"nodes,omitempty"`
	By    string   `json:"by,omitempty"` // who asks
	Why   string   `json:"why,omitempty"`
	// All: of OpRecover, each node of the pool; of OpRelease, withdraw all requests that
	// wait. Such an order names no node.
	All bool `json:"all,omitempty"`
	// For, in nanoseconds: of OpPause, how long it lasts, judge.DefaultPause if it is 0. Of
	// OpRecover, how long the request may wait for the gates; 0: a refusal ends it.
	For time.Duration `json:"for,omitempty"`
}

// Validate returns an ErrOrder that says what is wrong.
func (o Order) Validate() error {
	ops := []string{OpPause, OpResume, OpRecover, OpRelease, OpCheck}
	switch {
	case !slices.Contains(ops, o.Op):
		return fmt.Errorf("%w: op is %.40q: want %s", ErrOrder, o.Op, strings.Join(ops, ", "))
	case len(o.By) > MaxBy || len(o.Why) > MaxWhy:
		return fmt.Errorf("%w: by or why is longer than %d or %d bytes", ErrOrder, MaxBy, MaxWhy)
	case o.All && o.Op != OpRecover && o.Op != OpRelease:
		return fmt.Errorf("%w: %s takes no \"all\"", ErrOrder, o.Op)
	case o.All && len(o.Nodes) > 0:
		return fmt.Errorf("%w: %s names nodes, and all of the pool: want one of these", ErrOrder, o.Op)
	case o.Op == OpRecover && len(o.Nodes) == 0 && !o.All:
		return fmt.Errorf("%w: %s names no node", ErrOrder, o.Op)
	case o.Op == OpRecover && o.All && o.For == 0:
		return fmt.Errorf("%w: %s of the whole pool wants an end: say how long its requests may wait", ErrOrder, o.Op)
	case o.For != 0 && o.Op != OpPause && o.Op != OpRecover:
		return fmt.Errorf("%w: %s takes no duration", ErrOrder, o.Op)
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

// Answer answers an Order.
type Answer struct {
	OK    bool   `json:"ok"`              // all of it was done, or has begun
	Error string `json:"error,omitempty"` // of the order as a whole
	// Nodes are those named, in their order. Of a recovery of the whole pool they are those
	// that it leaves out, at most MaxRows.
	Nodes []NodeAnswer `json:"nodes,omitempty"`
	Pool  *PoolAnswer  `json:"pool,omitempty"` // of a recovery of the whole pool
}

// PoolAnswer is what came of a request to repair the whole pool.
type PoolAnswer struct {
	Nodes   int       `json:"nodes"`   // of the pool
	Begun   int       `json:"begun"`   // nodes whose repair has begun
	Waiting int       `json:"waiting"` // nodes that wait for the gates
	Until   time.Time `json:"until"`   // then those that still wait are not repaired
}

// WhyNoNode is the reason in the answer for a node that the pool does not have.
const WhyNoNode = "the pool has no such node"

// NodeAnswer is what came of an Order for one node.
type NodeAnswer struct {
	Node   string      `json:"node"`
	OK     bool        `json:"ok"`
	Why    string      `json:"why,omitempty"` // what was done, or the gate that refuses and why
	Status *NodeStatus `json:"status,omitempty"`
}

// StatusQuery asks for a Status. An empty one asks for the nodes that are not fit.
type StatusQuery struct {
	Nodes []string `json:"nodes,omitempty"` // these
	All   bool     `json:"all,omitempty"`   // fit ones too
	After string   `json:"after,omitempty"` // the page that begins after this node
	// History asks for what was done to the nodes, or to all without any, instead of how
	// they stand.
	History bool `json:"history,omitempty"`
}

// Validate returns an ErrOrder that says what is wrong.
func (q StatusQuery) Validate() error {
	if len(q.After) > MaxNodeID {
		return fmt.Errorf("%w: after is longer than %d bytes", ErrOrder, MaxNodeID)
	}
	return checkNodes(q.Nodes)
}

// Status is how a pool stands.
type Status struct {
	Pool    string      `json:"pool"`
	At      time.Time   `json:"at"`
	Enabled bool        `json:"enabled"`
	Mode    judge.Mode  `json:"mode"`
	Owner   judge.Owner `json:"owner"`
	// Healer is who heals the pool if it is not who the policy says; empty: as it says.
	Healer string       `json:"healer,omitempty"`
	Census judge.Census `json:"census"`
	Nodes  []NodeStatus `json:"nodes,omitempty"` // in order of id, at most MaxRows
	Next   string       `json:"next,omitempty"`  // if there are more: After of the next page
	// History is what was done to the nodes, oldest first, at most HistoryPool.
	History []HistoryEntry  `json:"history,omitempty"`
	Open    []judge.Breaker `json:"open,omitempty"` // breakers that are open
	// Pauses, at most MaxRows, those of the pool first.
	Pauses []judge.PauseRecord `json:"pauses,omitempty"`
	// Requests are those for the whole pool that have nodes waiting, at most MaxRows.
	Requests []judge.PoolRequest `json:"requests,omitempty"`
	Alarms   []Alarm             `json:"alarms,omitempty"` // that stand
	Rounds   []RoundStatus       `json:"rounds,omitempty"`
	Memory   MemoryStatus        `json:"memory"`
	Lost     map[string]uint64   `json:"lost,omitempty"` // what was told and came to nothing, by what it was
}

// NodeStatus is how a node stands.
type NodeStatus struct {
	judge.Explanation
	Group string `json:"group,omitempty"`
	Stage string `json:"stage,omitempty"` // what is being done for its repair now
	// Evidence names what was saved of the machine before its repair.
	Evidence string `json:"evidence,omitempty"`
}

// Alarm is something that people should look at.
type Alarm struct {
	Key   string    `json:"key"` // what it is about; stable
	Node  string    `json:"node,omitempty"`
	Since time.Time `json:"since"`
	Why   string    `json:"why"`
}

// RoundStatus is how the observing goes.
type RoundStatus struct {
	Round    string           `json:"round"` // what is observed
	Modes    []judge.ModeType `json:"modes,omitempty"`
	Interval time.Duration    `json:"interval"`
	At       time.Time        `json:"at,omitzero"`    // when the last one ended
	Took     time.Duration    `json:"took,omitempty"` // it
	Lag      time.Duration    `json:"lag,omitempty"`  // it began so late
	Missed   uint64           `json:"missed"`         // rounds that were left out, as one took too long
	Err      string           `json:"err,omitempty"`  // of the last one
}

// MemoryStatus is how the saving goes.
type MemoryStatus struct {
	Saved time.Time `json:"saved,omitzero"` // last
	Err   string    `json:"err,omitempty"`  // why it is in vain now: nothing is carried out
	Held  int       `json:"held"`           // orders that wait for it, or for the pool to be read
}

// EventAlarm is the event of a Notification that is an alarm.
const EventAlarm judge.FindingEvent = "alarm"

// Notification is one published finding or alarm.
type Notification struct {
	Pool string    `json:"pool"`
	At   time.Time `json:"at"`
	judge.Finding
	Alarm string `json:"alarm,omitempty"` // of EventAlarm: what it is about; stable
}
