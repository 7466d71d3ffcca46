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

// Record is one tick in the ledger: all that went into the decision and the
// plan, all that came out, what was asked of the provider and what it answered.
// Whoever explains a tick has nothing but this.
type Record struct {
	// Schema is that of the Case and the States, resolve.Schema; 0: it is version 1.
	Schema  int           `json:"schema"`
	At      time.Time     `json:"at"`
	Took    time.Duration `json:"took_ns"`
	Every   time.Duration `json:"every_ns"` // the pool's tick
	Cluster string        `json:"cluster"`
	Pool    string        `json:"pool"`
	Epoch   uint64        `json:"epoch,omitempty"` // of the lease
	DryRun  bool          `json:"dry_run,omitempty"`
	// Paused is who wants the pool to be left alone; Failed says why the tick ended
	// before a decision. Then there is no Case, no Answer and no Detail, but in a preview
	// of a paused pool: that has what the next tick would do without the pause.
	Paused   *pools.Note     `json:"paused,omitempty"`
	Failed   string          `json:"failed,omitempty"`
	Snapshot snapshot.Record `json:"snapshot"`
	Case     *resolve.Case   `json:"case,omitempty"`
	// Answer is exactly what Case.Resolve gives. What came true of it is in State.
	Answer  *resolve.Answer    `json:"answer,omitempty"`
	Detail  *Detail            `json:"detail,omitempty"`
	Drift   []resolve.Drifted  `json:"drift,omitempty"` // groups that another party has changed
	Actions []apply.Action     `json:"actions"`
	Drains  []drain.Record     `json:"drains,omitempty"` // after the actions
	Shadows []ask.ShadowRecord `json:"shadows,omitempty"`
	// UnderWay are the evaluations that the decision did not wait for: a later tick has
	// their answers. No rule reads it.
	UnderWay []ask.UnderWay `json:"under_way,omitempty"`
	Problems []string       `json:"problems,omitempty"`
	// Account says what the groups' targets are made of after the actions.
	Account resolve.Entries `json:"account,omitempty"`
	// State is what is handed on after the actions.
	State resolve.State `json:"state"`
}

func (r *Record) problem(err error) {
	if err != nil {
		r.Problems = append(r.Problems, err.Error())
	}
}

// Detail is what of an Outcome is not in the Answer. Who is let go and why is in the
// Actions; Case.Resolve gives it again.
type Detail struct {
	Request      resource.Request  `json:"request"`
	Apps         []decide.Resolved `json:"apps"`
	Distribution plan.Distribution `json:"distribution"`
	// Committed is the weight on its way out that the groups' targets still hold.
	Committed map[string]float64 `json:"committed,omitempty"`
	TakenBack []string           `json:"taken_back,omitempty"`
	Surge     map[string]int     `json:"surge,omitempty"` // beyond the shares, for a rolling
	Excess    float64            `json:"excess,omitempty"`
	Kept      []plan.Kept        `json:"kept,omitempty"` // why there is an excess
	// Refused says why nobody is let go, but for marked instances whose replacements
	// are there, and, if there is no distribution either, why nothing is asked.
	Refused string `json:"refused,omitempty"`
}

// detail returns what of o is not in its Answer.
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

// entries returns the lines of an account, with what was found without a cause.
func entries(a resolve.Account, f resolve.Found) resolve.Entries {
	out := a.Entries()
	if f.Unknown > 0 {
		out = append(out, resolve.Entry{Kind: resolve.EntryUnknown, Weight: f.Unknown})
	}
	return out
}

// committed returns the weight on its way out that the groups' targets hold, by group.
func committed(a resolve.Account) map[string]float64 {
	out := map[string]float64{}
	for _, g := range a.Groups {
		for _, l := range g.Leaving {
			out[g.ID] += l.Weight
		}
	}
	return out
}
