package autoscaler

import (
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Snapshot is the pool at the start of a tick, in short: the nodes that stay are in
// the Case, the others in the Drains of the Record.
type Snapshot struct {
	Groups []GroupRecord `json:"groups"`
	// Nodes counts the instances by the state of their node, and those that come up or
	// end by their own.
	Nodes map[string]int `json:"nodes,omitempty"`
	// Silent are the first of those whose node should be heard and is not.
	Silent    []string        `json:"silent,omitempty"`
	Totals    resource.Vector `json:"totals"`
	Allocated resource.Vector `json:"allocated"`
	Target    float64         `json:"target"`    // of groups that are not stale
	Fulfilled float64         `json:"fulfilled"` // weight of what exists
	Joined    float64         `json:"joined"`    // of that, whose node has joined
}

// GroupRecord is a group as its provider tells it, without its instances.
type GroupRecord struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind,omitempty"`
	Target    int       `json:"target"`
	Min       int       `json:"min"`
	Max       int       `json:"max"` // pools.Unlimited if there is no upper bound
	Fulfilled float64   `json:"fulfilled"`
	Instances int       `json:"instances"` // those included that end
	Stale     bool      `json:"stale,omitempty"`
	Short     string    `json:"short,omitempty"`
	ShortAt   time.Time `json:"short_at,omitzero"`
	Busy      string    `json:"busy,omitempty"`
}

// shownSilent bounds the names of silent nodes in a record.
const shownSilent = 10

// record returns v in short.
func (v *view) record() Snapshot {
	s := Snapshot{
		Groups: make([]GroupRecord, len(v.groups)), Nodes: map[string]int{}, Silent: v.silent[:min(len(v.silent), shownSilent)],
		Totals: v.totals, Allocated: v.allocated, Target: v.target, Fulfilled: v.fulfilled, Joined: v.joined,
	}
	for i, g := range v.groups {
		s.Groups[i] = GroupRecord{
			ID: g.ID, Kind: g.Kind, Target: g.Target, Min: g.Min, Max: g.Max, Fulfilled: g.Fulfilled(), Instances: len(g.Instances),
			Stale: g.Stale, Short: g.Short, ShortAt: g.ShortAt, Busy: g.Busy,
		}
	}
	for _, n := range v.nodes {
		switch {
		case n.Instance.State == pools.InstancePending || n.Instance.State == pools.InstanceTerminating:
			s.Nodes[string(n.Instance.State)]++
		case n.State == pools.NodeUnknown:
			s.Nodes["silent"]++
		default:
			s.Nodes[string(n.State)]++
		}
	}
	return s
}
