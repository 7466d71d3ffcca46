package snapshot

import (
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
)

const (
	shownSilent      = 10 // silent nodes of a record at most
	shownQuarantined = 40 // quarantined nodes of a record at most
)

// Record returns the short form of s.
func (s *Snapshot) Record() api.Snapshot {
	r := api.Snapshot{
		Groups: make([]api.GroupSnapshot, len(s.Groups)), Nodes: map[string]int{}, Silent: s.Silent[:min(len(s.Silent), shownSilent)],
		Totals: s.Totals, Allocated: s.Allocated, Target: s.Target, Fulfilled: s.Fulfilled, Joined: s.Joined,
	}
	if why := s.Missing.Err(); why != nil {
		r.Missing = decide.OneLine(why.Error())
	}
	for i, g := range s.Groups {
		r.Groups[i] = api.GroupSnapshot{
			ID: g.ID, Kind: g.Kind, Target: g.Target, Min: g.Min, Max: g.Max, Fulfilled: g.Fulfilled(), Instances: len(g.Instances),
			Stale: g.Stale, Short: g.Short, ShortAt: g.ShortAt, Busy: g.Busy, Unknown: g.Unknown,
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
		case n.Instance.State == api.InstancePending || n.Instance.State == api.InstanceTerminating:
			r.Nodes[string(n.Instance.State)]++
		case n.State == api.NodeUnknown:
			r.Nodes["silent"]++
		default:
			r.Nodes[string(n.State)]++
		}
	}
	return r
}
