package snapshot

import (
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Record is the short form of a Snapshot, for the ledger. The Case has the nodes that stay, and the
// Drains of the Record have the others.
type Record struct {
	Groups []GroupRecord `json:"groups"`
	// Nodes counts the instances by the state of their node. Pending and terminating instances
	// count by their own state.
	Nodes map[string]int `json:"nodes,omitempty"`
	// Silent are the first of the silent nodes.
	Silent []string `json:"silent,omitempty"`
	// Quarantined has the groups of the first nodes that node health quarantines. The Case does not have them.
	Quarantined map[string]string `json:"quarantined,omitempty"`
	Totals      resource.Vector   `json:"totals"`
	Allocated   resource.Vector   `json:"allocated"`
	Target      float64           `json:"target"`    // of groups that are not stale
	Fulfilled   float64           `json:"fulfilled"` // existing weight
	Joined      float64           `json:"joined"`    // weight whose node has joined
}

// GroupRecord is the provider's report of a group, without its instances.
type GroupRecord struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind,omitempty"`
	Target    int       `json:"target"`
	Min       int       `json:"min"`
	Max       int       `json:"max"` // pools.Unlimited if there is no upper bound
	Fulfilled float64   `json:"fulfilled"`
	Instances int       `json:"instances"` // including terminating ones
	Stale     bool      `json:"stale,omitempty"`
	Short     string    `json:"short,omitempty"`
	ShortAt   time.Time `json:"short_at,omitzero"`
	Busy      string    `json:"busy,omitempty"`
}

const (
	shownSilent      = 10 // silent nodes of a record at most
	shownQuarantined = 40 // quarantined nodes of a record at most
)

// Record returns the short form of s.
func (s *Snapshot) Record() Record {
	r := Record{
		Groups: make([]GroupRecord, len(s.Groups)), Nodes: map[string]int{}, Silent: s.Silent[:min(len(s.Silent), shownSilent)],
		Totals: s.Totals, Allocated: s.Allocated, Target: s.Target, Fulfilled: s.Fulfilled, Joined: s.Joined,
	}
	for i, g := range s.Groups {
		r.Groups[i] = GroupRecord{
			ID: g.ID, Kind: g.Kind, Target: g.Target, Min: g.Min, Max: g.Max, Fulfilled: g.Fulfilled(), Instances: len(g.Instances),
			Stale: g.Stale, Short: g.Short, ShortAt: g.ShortAt, Busy: g.Busy,
		}
	}
	for _, n := range s.Nodes {
		if len(r.Quarantined) < shownQuarantined && s.Quarantined(n.Instance.ID) {
			if r.Quarantined == nil {
				r.Quarantined = map[string]string{}
			}
			r.Quarantined[n.Instance.ID] = n.Instance.Group
		}
		switch {
		case n.Instance.State == pools.InstancePending || n.Instance.State == pools.InstanceTerminating:
			r.Nodes[string(n.Instance.State)]++
		case n.State == pools.NodeUnknown:
			r.Nodes["silent"]++
		default:
			r.Nodes[string(n.State)]++
		}
	}
	return r
}
