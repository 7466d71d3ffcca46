package api

import (
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// NodeCondition is the result of one check of a machine by its own agent or by a problem detector
// beside the agent: disk, file system, kernel.
type NodeCondition struct {
	Type   string `json:"type"`
	Failed bool   `json:"failed"`
	// Unknown is set if the check has no current result. Failed is then the last known result.
	Unknown bool   `json:"unknown,omitempty"`
	Why     string `json:"why,omitempty"` // for people
}

// InstanceState is the state of a machine as the provider reports it.
//
//	pending ──► running ──► terminating ──► (gone)
//	   └───────────────────────▲
type InstanceState string

const (
	InstanceUnknown     InstanceState = ""            // the provider reports no state
	InstancePending     InstanceState = "pending"     // requested, not running yet
	InstanceRunning     InstanceState = "running"     // running
	InstanceTerminating InstanceState = "terminating" // shutting down
)

// NodeFacts is the report of a node. Its agent publishes it on "weir.<cluster>.node.<pool>.<id>".
type NodeFacts struct {
	ID         string          `json:"id"` // the instance's id
	Pool       string          `json:"pool"`
	Group      string          `json:"group"`
	BootID     string          `json:"boot_id"`
	Zone       string          `json:"zone,omitempty"` // at the provider; empty: not published
	Resources  resource.Vector `json:"resources"`
	Allocated  resource.Vector `json:"allocated"`
	Tasks      int             `json:"tasks"`
	BatchTasks int             `json:"batch_tasks,omitempty"`
	Unready    int             `json:"unready,omitempty"`  // the part of Tasks that is not ready to serve
	Draining   bool            `json:"draining,omitempty"` // cordoned: accepts no new tasks
	// CordonedBy is CordonedByOther if not Weirkeeper cordoned the node; empty: Weirkeeper did, or it is unknown.
	CordonedBy  CordonedBy `json:"cordoned_by,omitempty"`
	SafeToEvict bool       `json:"safe_to_evict"`
	// Blocked are the tasks that a drain cannot move now, at most MaxBlocked, for people.
	Blocked []BlockedTask `json:"blocked,omitempty"`
	// Slots bound the tasks of the node beside its resources; nil: nothing bounds them.
	Slots *Slots `json:"slots,omitempty"`
	// Overhead is what the node uses for itself, such as daemons on each node. Resources do not include it.
	Overhead resource.Vector `json:"overhead,omitzero"`
	// Priority is that of a Node: the maximum over its tasks of 2 x cpus + mem / 1000 MB, as in
	// Clusterman.
	Priority float64 `json:"priority,omitempty"`
	// Outdated is set if the latest facts of the node were not readable: these are the last known ones.
	Outdated bool `json:"-"`
	// Conditions are what the agent found on its own machine. Each type occurs once, and there are
	// at most MaxConditions. A condition that is neither Failed nor Unknown was checked and is good.
	Conditions []NodeCondition `json:"conditions,omitempty"`
	// Heartbeat is the period of the node's heartbeats. Package liveness uses it to detect a silent
	// node. 0: not published.
	Heartbeat time.Duration `json:"heartbeat,omitempty"`
	// Rival is another agent that has claimed this node in the last minutes, for people.
	Rival string    `json:"rival,omitempty"`
	At    time.Time `json:"at"` // by the node's clock: silence is measured from the receipt
	// ClockAhead is how far the node's clock was ahead of the receiver's, negative: behind. The receiver sets it if the
	// difference is at least ClockTolerance.
	ClockAhead time.Duration `json:"clock_ahead,omitempty"`
}

// NodeState is the state of a machine as the scheduler reports it.
type NodeState string

// Joined reports whether the node has joined the pool and reports facts.
func (s NodeState) Joined() bool { return s == NodeIdle || s == NodeRunning }

const (
	NodeUnknown  NodeState = ""         // unknown: never changed
	NodeOrphaned NodeState = "orphaned" // the instance runs, its node has not joined
	NodeIdle     NodeState = "idle"     // joined, no tasks
	NodeRunning  NodeState = "running"  // joined, has tasks
)

// RepairKind is the kind of a repair in place. The instance keeps its id.
type RepairKind string

const (
	RepairStart   RepairKind = "start"   // start a stopped machine.
	RepairReboot  RepairKind = "reboot"  // request a restart of the operating system.
	RepairReset   RepairKind = "reset"   // stop the machine by force, and start it.
	RepairRebuild RepairKind = "rebuild" // replace the root volume, and restart the machine.
	// RepairWorkflow is a workflow of the operator. Node health runs it, not a Repairer.
	RepairWorkflow RepairKind = "workflow"
)

// NodeReceipt is what the receipt of a node's latest facts shows.
type NodeReceipt struct {
	Node string        `json:"node"`
	Age  time.Duration `json:"age"` // since the receipt
	// Ahead is the node's clock minus that of the receiver; the time in transit makes it smaller.
	Ahead  time.Duration `json:"ahead"`
	Silent bool          `json:"silent,omitempty"`
	Twins  time.Time     `json:"twins,omitzero"` // when two machines last used this id; zero: never
}

// NodesReport is what the autoscaler has received from the pool's nodes.
type NodesReport struct {
	Nodes []NodeFacts `json:"nodes"`
	// Receipts are about each node, in order of id.
	Receipts []NodeReceipt `json:"receipts,omitempty"`
}

// Node is a node in a listing.
type Node struct {
	Node   string  `json:"node"`             // id of the machine at its provider
	Group  string  `json:"group"`            // of the machine
	State  string  `json:"state"`            // of the machine, or "leaving" and the state of its drain; after NodeWas it is one of the past
	Tasks  int     `json:"tasks"`            // app instances that run on it
	Uptime float64 `json:"uptime,omitempty"` // in seconds; 0 of a node that leaves
	// Health is the state of the node in the pool's node health; empty without a policy.
	Health string `json:"health,omitempty"`
	// Facts are those of the latest heartbeat, if the node answers now.
	Facts *NodeFacts `json:"facts,omitempty"`
}

// NodeWas begins the state of a node that is known only from a tick which is too long ago.
const NodeWas = "was "

// SilentNode is a node that missed two heartbeats, by the rule of package liveness.
type SilentNode struct {
	Pool   string    `json:"pool,omitempty"` // empty for a legacy DEA
	Node   string    `json:"node"`
	Copies int       `json:"copies"`  // that it listed
	Since  time.Time `json:"since"`   // time of its latest heartbeat
	LostAt time.Time `json:"lost_at"` // then its copies are lost, and are started elsewhere
}

// NodesAnswer is an autoscaler's response to the request for the facts of its nodes, compressed by gzip.
type NodesAnswer struct {
	NodesReport
	Error string `json:"error,omitempty"`
}
