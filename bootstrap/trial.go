package bootstrap

import "time"

// Outcome is the state of a trial.
//
//	            N agreeing in a row            crash loop
//	undecided ───────────────────────► promoted ─────────► rolled_back
//	    │ │
//	    │ └── a difference (if it may be promoted) or no answer ──► diverged
//	    └──── its process ended ────────────────► crashed
//
// All states other than undecided and promoted are final.
type Outcome string

const (
	Undecided  Outcome = ""            // the shadow runs beside the pinned version
	Promoted   Outcome = "promoted"    // final unless it fails: it replaced the pinned version
	Diverged   Outcome = "diverged"    // a difference above the tolerance, a failure or no response
	Crashed    Outcome = "crashed"     // its process ended or did not start
	RolledBack Outcome = "rolled_back" // it crashed repeatedly after its promotion; the pinned version runs again
)

// Trial compares a shadow with the pinned version of a plan. Each app has one trial. A plan with another pinned version
// or another shadow starts a new trial.
type Trial struct {
	App      string  `json:"app"`
	Signal   string  `json:"signal"` // namespace/name
	Pinned   string  `json:"pinned"` // version
	Shadow   string  `json:"shadow"` // version
	Outcome  Outcome `json:"outcome,omitempty"`
	Why      string  `json:"why,omitempty"` // reason for the outcome
	Agreeing int     `json:"agreeing"`      // agreeing answers in a row since the shadow's start
	Compared int     `json:"compared"`      // number of compared answers
	// Difference is the last difference found.
	Difference string    `json:"difference,omitempty"`
	Since      time.Time `json:"since"` // start of the outcome
}

// newTrial returns an undecided trial of a plan's shadow.
func newTrial(p SignalPlan, now time.Time) Trial {
	return Trial{App: p.App, Signal: p.Namespace + "/" + p.Name, Pinned: p.Version, Shadow: p.Shadow.Version, Since: now}
}

// of reports whether the trial belongs to the plan's pinned version and shadow.
func (t Trial) of(p SignalPlan) bool {
	return p.Shadow != nil && t.App == p.App && t.Signal == p.Namespace+"/"+p.Name && t.Pinned == p.Version && t.Shadow == p.Shadow.Version
}

// Answered returns the trial after an answer of the shadow. A compared answer counts for or against it. An answer that
// could not be compared, because the pinned version gave none, does not count. A failed or silent shadow has diverged.
// After promoteAfter agreeing answers in a row it is promoted. If promoteAfter is 0, the trial only compares and no
// difference ends it.
func (t Trial) Answered(now time.Time, a Answer, promoteAfter int) Trial {
	if t.Outcome != Undecided {
		return t
	}
	switch {
	case a.Silent:
		return t.end(now, Diverged, "it accepted the connection and sent no response")
	case a.Verdict == VerdictFailed:
		return t.end(now, Diverged, "it failed: "+a.Why)
	case !a.Compared:
		return t
	}
	t.Compared++
	if a.Difference != "" {
		t.Agreeing, t.Difference = 0, a.Difference
		if promoteAfter == 0 {
			return t // it only compares
		}
		return t.end(now, Diverged, a.Difference)
	}
	t.Agreeing++
	if promoteAfter > 0 && t.Agreeing >= promoteAfter {
		return t.end(now, Promoted, "")
	}
	return t
}

// Crashed returns the trial after the end of the shadow's process.
func (t Trial) Crashed(now time.Time, why string) Trial {
	if t.Outcome != Undecided {
		return t
	}
	return t.end(now, Crashed, why)
}

// GivenUp returns the trial after the promoted version spent its restart budget.
func (t Trial) GivenUp(now time.Time, why string) Trial {
	if t.Outcome != Promoted {
		return t
	}
	return t.end(now, RolledBack, why)
}

func (t Trial) end(now time.Time, o Outcome, why string) Trial {
	t.Outcome, t.Why, t.Since = o, why, now
	return t
}

// selectTrial returns the trial of a plan's shadow: the app's latest saved one if it matches, or else a new one.
func selectTrial(kept []Trial, p SignalPlan, now time.Time) Trial {
	var last Trial
	for _, t := range kept {
		if t.App == p.App && !t.Since.Before(last.Since) {
			last = t
		}
	}
	if !last.of(p) {
		return newTrial(p, now)
	}
	if last.Outcome == Undecided {
		last.Agreeing = 0
	}
	return last
}
