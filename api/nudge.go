package api

import (
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// Start requests one copy at each of the indices.
type Start struct {
	App         string         `json:"droplet"`
	LastUpdated int64          `json:"last_updated"` // unix seconds
	Version     string         `json:"version"`
	Indices     []int          `json:"indices"`
	Running     map[string]int `json:"running"` // version -> copies
	Flapping    bool           `json:"flapping"`
}

// Request returns the start in the classic dialect.
func (s Start) Request() Nudge {
	return Nudge{App: s.App, Op: NudgeStart, LastUpdated: orNull(s.LastUpdated),
		Version: s.Version, Indices: s.Indices, Flapping: s.Flapping}
}

// Stop requests the end of these copies.
type Stop struct {
	App         string            `json:"droplet"`
	LastUpdated int64             `json:"last_updated"`
	Instances   map[string]string `json:"instances"` // instance -> version
	Running     map[string]int    `json:"running"`
	Version     string            `json:"version"`
}

// Request returns the stop in the classic dialect, which has no versions.
func (s Stop) Request() Nudge {
	return Nudge{App: s.App, Op: NudgeStop, LastUpdated: orNull(s.LastUpdated),
		Instances: slices.Sorted(maps.Keys(s.Instances))}
}

// Nudge is a start or stop request in the classic health manager's form, for
// RequestsSubject.
type Nudge struct {
	App         string   `json:"droplet"`
	Op          NudgeOp  `json:"op"`
	LastUpdated *int64   `json:"last_updated"` // unix seconds, null if unknown
	Version     string   `json:"version,omitempty"`
	Indices     []int    `json:"indices,omitempty"`
	Instances   []string `json:"instances,omitempty"`
	Flapping    bool     `json:"flapping,omitempty"`
}

// NudgeOp is the operation of a Request.
type NudgeOp string

// Operations of a Request.
const (
	NudgeStart NudgeOp = "START"
	NudgeStop  NudgeOp = "STOP"
)

// Confirmation reports that the scheduler of a pool has nudges: it carries them out, or has refused them for good.
type Confirmation struct {
	Pool   string   `json:"pool"`
	Epoch  uint64   `json:"epoch,omitempty"` // of the scheduler's lease
	Nudges []string `json:"nudges"`          // ids, at most MaxConfirmed
	// Waiting are starts that the scheduler has now and tries again by itself. Without them, it is unknown what it has.
	Waiting []WaitingStart `json:"waiting,omitempty"`
}

// WaitingStart has the indices of an app that a scheduler is to start: no node has room for them, or a node rejected them.
type WaitingStart struct {
	App     string `json:"app"`
	Version string `json:"version"`
	Indices []int  `json:"indices"` // rising
}

// Pending has the copies for which no node has room.
type Pending struct {
	Total     int             `json:"total"`
	Resources resource.Vector `json:"resources"` // the sum of their footprints
	Copies    []PendingCopy   `json:"copies"`    // oldest first, at most 1000
	// Never is the part of Resources that no node and no machine of any kind can ever hold.
	Never resource.Vector `json:"never,omitzero"`
	// NoMachine is the part of Resources that only nodes can hold that are full: no machine that may be added can.
	NoMachine resource.Vector `json:"no_machine,omitzero"`
	// Rejected are copies whose last start was rejected as invalid by a node, oldest first, at most 1000. They are tried
	// again after a heartbeat period, and are not part of Total.
	Rejected []PendingCopy `json:"rejected,omitempty"`
	// Taken are fixed ports that a node refused because another process had them. The placer prefers other nodes
	// for copies with such a port for a while. In order of node and port, at most 1000.
	Taken []TakenPort `json:"taken_ports,omitempty"`
	// Sizes are those of the machines that the pool has or can get, each once, at most 1000. Without them, the sizes are unknown.
	Sizes []MachineSize `json:"sizes,omitempty"`
	// State is that of the scheduler; nil: it reports none.
	State *SchedulerState `json:"state,omitempty"`
}

// TakenPort is a fixed port of a node that another process has.
type TakenPort struct {
	Node  string    `json:"node"`
	Port  int       `json:"port"`
	App   string    `json:"app"`   // whose start the node refused
	Until time.Time `json:"until"` // a copy with the port goes there before only if no other node is left
}

// MachineSize is what a machine offers to copies.
type MachineSize struct {
	Where     string          `json:"where"` // for people: "group b", or "node i-1"
	Resources resource.Vector `json:"resources"`
}

// PendingCopy is one copy that waits for room.
type PendingCopy struct {
	App       string          `json:"app"`
	Version   string          `json:"version"`
	Index     int             `json:"index"`
	Footprint resource.Vector `json:"footprint"`
	Since     time.Time       `json:"since"`
	Why       string          `json:"why,omitempty"`   // what it waits for, for people
	Never     bool            `json:"never,omitempty"` // no machine of Pending.Sizes can hold it; Why is that of a PlacesApp
	// Labels and Zone are those that its node must have; empty: any node.
	Labels map[string]string `json:"labels,omitempty"`
	Zone   string            `json:"zone,omitempty"`
}

func orNull(seconds int64) *int64 {
	if seconds == 0 {
		return nil
	}
	return &seconds
}
