package autoscaler

import (
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Record is one tick in the ledger: the whole input and output of the decision and the plan, and
// the provider calls with their results. `weir explain` uses only this.
type Record struct {
	// Schema is the version of the Case and the States, resolve.Schema.
	Schema  int           `json:"schema"`
	At      time.Time     `json:"at"`
	Took    time.Duration `json:"took_ns"`
	Every   time.Duration `json:"every_ns"` // the pool's tick
	Cluster string        `json:"cluster"`
	Pool    string        `json:"pool"`
	Epoch   uint64        `json:"epoch,omitempty"` // of the lease
	DryRun  bool          `json:"dry_run,omitempty"`
	// Paused is set if an operator paused the pool. Failed is why the tick ended before a decision.
	// Then Case, Result and Detail are nil. The preview of a paused pool is an exception: it has
	// what the next tick would do without the pause.
	Paused *pools.Note `json:"paused,omitempty"`
	// Orders are the operators' orders that apply to the decision.
	Orders   []pools.Order   `json:"orders,omitempty"`
	Failed   string          `json:"failed,omitempty"`
	Snapshot snapshot.Record `json:"snapshot"`
	Case     *resolve.Case   `json:"case,omitempty"`
	// Result is exactly the result of Case.Resolve. State has the actual outcome.
	Result  *resolve.Result    `json:"result,omitempty"`
	Detail  *Detail            `json:"detail,omitempty"`
	Drift   []resolve.Drifted  `json:"drift,omitempty"` // groups that another party changed
	Actions []apply.Action     `json:"actions"`
	Drains  []drain.Record     `json:"drains,omitempty"` // after the actions
	Shadows []ask.ShadowRecord `json:"shadows,omitempty"`
	// InProgress are the evaluations that the decision did not wait for. A later tick has their
	// responses. No rule reads them.
	InProgress []ask.InProgress `json:"in_progress,omitempty"`
	Problems   []string         `json:"problems,omitempty"`
	// Account states the parts of the groups' targets after the actions.
	Account resolve.Entries `json:"account,omitempty"`
	// State is passed to the next tick, after the actions.
	State resolve.State `json:"state"`
}

func (r *Record) problem(err error) {
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
	}
}

// Detail has the parts of an Outcome that are not in the Result. The Actions have the removed nodes
// with the reasons, and Case.Resolve returns them again.
type Detail struct {
	Request      resource.Request  `json:"request"`
	Apps         []decide.Resolved `json:"apps"`
	Distribution plan.Distribution `json:"distribution"`
	// Committed is the weight of leaving nodes that the groups' targets still include.
	Committed map[string]float64 `json:"committed,omitempty"`
	TakenBack []string           `json:"taken_back,omitempty"`
	Surge     map[string]int     `json:"surge,omitempty"` // beyond the shares, for a rolling
	Excess    float64            `json:"excess,omitempty"`
	Kept      []plan.Kept        `json:"kept,omitempty"` // why there is an excess
	// Refused is why no node is removed, except marked instances whose replacements joined. If the
	// distribution is missing too, it is also why no target changes.
	Refused string `json:"refused,omitempty"`
}

// detail returns the parts of o that are not in its Result.
func detail(o resolve.Outcome, leaving map[string]float64) *Detail {
	d := &Detail{
		Request: o.Decision.Request, Apps: o.Decision.Apps, Distribution: o.Distribution, Committed: leaving,
		Surge: o.Surge, Excess: o.Pruned.Excess, Kept: o.Pruned.Kept, Refused: o.Refused,
	}
	for _, l := range o.TakeBack {
		d.TakenBack = append(d.TakenBack, l.ID)
	}
	return d
}

// entries returns the lines of an account, with the weight that was found without a cause.
func entries(a resolve.Account, f resolve.Found) resolve.Entries {
	out := a.Entries()
	if f.Unknown > 0 {
		out = append(out, resolve.Entry{Kind: resolve.EntryUnknown, Weight: f.Unknown})
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
