package autoscaler

import (
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/pools"
)

func addProblem(r *api.TickRecord, err error) {
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
	}
}

// detail returns the parts of o that are not in its Result.
func detail(o resolve.Outcome, leaving map[string]float64) *api.TickDetail {
	d := &api.TickDetail{
		Request: o.Decision.Request, Apps: o.Decision.Apps, Distribution: o.Distribution, Committed: leaving,
		Surge: o.Surge, Excess: o.Pruned.Excess, Kept: o.Pruned.Kept, Refused: o.Refused,
	}
	for _, l := range o.TakeBack {
		d.TakenBack = append(d.TakenBack, l.ID)
	}
	return d
}

// others returns the instances that are not among the candidates, in order of id.
func others(nodes []pools.Node, candidates []api.Candidate) (ids []string) {
	stay := make(map[string]bool, len(candidates))
	for i := range candidates {
		stay[candidates[i].ID] = true
	}
	for i := range nodes {
		if id := nodes[i].Instance.ID; !stay[id] {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// entries returns the lines of an account, with the weight that was found without a cause.
func entries(a resolve.Account, f resolve.Found) api.Account {
	out := a.Entries()
	if f.Unknown > 0 {
		out = append(out, api.AccountEntry{Kind: api.EntryUnknown, Weight: f.Unknown})
	}
	return out
}

// committed returns the weight of leaving nodes that the groups' targets include, by group.
func committed(a resolve.Account) map[string]float64 {
	out := map[string]float64{}
	for _, g := range a.Groups {
		for _, l := range g.Leaving {
			out[g.ID] += l.Weight
		}
	}
	return out
}
