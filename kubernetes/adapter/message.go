package adapter

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/resource"
)

// kindKubernetes is the kind of this scheduler in its state.
const kindKubernetes = "kubernetes"

// Bounds of lists in messages.
const (
	maxBlocked = 8
	maxPending = 1000
	maxSlots   = 1 << 16
	maxText    = 512
)

// nodeFacts are the facts of a node with the optional keys of a scheduler without rows.
type nodeFacts struct {
	api.NodeFacts
	CordonedBy string          `json:"cordoned_by,omitempty"` // "other"
	Blocked    []blockedTask   `json:"blocked,omitempty"`
	Slots      *slots          `json:"slots,omitempty"`
	Overhead   resource.Vector `json:"overhead,omitzero"`
}

// blockedTask is a pod that a drain cannot evict now.
type blockedTask struct {
	Task  string    `json:"task"`
	Why   string    `json:"why"`
	Since time.Time `json:"since,omitzero"`
}

type slots struct {
	All  int `json:"all"`
	Used int `json:"used"`
}

// schedulerState is what the adapter publishes about itself, for each pool.
type schedulerState struct {
	Pool   string        `json:"pool"`
	Kind   string        `json:"kind"`
	Rows   bool          `json:"rows"` // always false: it runs no applications of Weirkeeper
	Fresh  bool          `json:"fresh"`
	AsOf   time.Time     `json:"as_of,omitzero"`
	Period time.Duration `json:"period"`
	Nodes  int           `json:"nodes,omitempty"`
	Why    string        `json:"why,omitempty"`
	// Accepts has the optional keys of a cordon that are read.
	Accepts []string `json:"accepts,omitempty"`
}

// pendingReply is the response about the pods that wait.
type pendingReply struct {
	api.Pending
	State *schedulerState `json:"state,omitempty"`
}

// cordonRequest is that of package wire with the optional keys.
type cordonRequest struct {
	On       bool      `json:"on"`
	Reason   string    `json:"reason,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
}

// nodeGone reports that the machine of a node has ended, by a complete answer of its provider.
type nodeGone struct {
	Node string    `json:"node"`
	Pool string    `json:"pool"`
	At   time.Time `json:"at"`
}

func stateSubject(cluster, pool string) string {
	return names.Subject(cluster, "placer", pool, "state")
}
func pendingSubject(cluster, pool string) string {
	return names.Subject(cluster, "placer", pool, "pending")
}
func goneSubject(cluster, pool string) string {
	return names.Subject(cluster, "agent", pool, "*", "gone")
}

// factsOf returns the message of a node.
func factsOf(f core.Facts, blocked []blockedTask, period time.Duration, now time.Time) nodeFacts {
	m := nodeFacts{
		NodeFacts: api.NodeFacts{
			ID: f.ID, Pool: f.Pool, Group: f.Group, BootID: f.BootID, Zone: f.Zone, Resources: f.Resources.Resources(), Allocated: f.Allocated.Resources(),
			Tasks: f.Tasks, BatchTasks: f.Batch, Draining: f.Draining || f.CordonedByOther, SafeToEvict: f.SafeToEvict, Priority: f.Priority,
			Conditions: f.Conditions, Heartbeat: period, At: now,
		},
		Blocked: blocked[:min(len(blocked), maxBlocked)], Overhead: f.Overhead.Resources(),
	}
	if f.CordonedByOther {
		m.CordonedBy = "other"
	}
	if f.Slots > 0 {
		m.Slots = &slots{int(min(f.Slots, maxSlots)), int(min(f.UsedSlots, maxSlots))}
	}
	return m
}

// pendingOf returns the response about the pods of a pool that wait.
func pendingOf(p core.Pending, state schedulerState) pendingReply {
	r := pendingReply{Pending: api.Pending{Total: len(p.Pods), Resources: p.Sum, Never: p.Never, Sizes: p.Sizes, Copies: []api.PendingCopy{}}, State: &state}
	if len(r.Sizes) > maxPending {
		r.Sizes = nil
	}
	for _, w := range p.Pods[:min(len(p.Pods), maxPending)] {
		c := api.PendingCopy{App: w.Namespace + "/" + w.Name, Version: w.Owner, Footprint: w.Req.Resources(), Since: w.Since, Why: w.Why, Never: w.Never && r.Sizes != nil}
		if w.Never && r.Sizes == nil {
			c.Why = fmt.Sprintf("no node can hold it: %s", w.Why)
		}
		r.Copies = append(r.Copies, c)
	}
	return r
}
