package bootstrap

import "time"

// Outcome is where a trial stands.
//
//	            N agreeing in a row            crash loop
//	undecided ───────────────────────► promoted ─────────► rolled_back
//	    │ │
//	    │ └── an answer that differs (if it may be promoted), or none ──► diverged
//	    └──── its process ended ────────────────► crashed
//
// What ended stays ended.
type Outcome string

const (
	Undecided  Outcome = ""            // the shadow runs beside the pinned version
	Promoted   Outcome = "promoted"    // it runs in the pinned version's place
	Diverged   Outcome = "diverged"    // an answer differed by more than the tolerance, failed or did not come
	Crashed    Outcome = "crashed"     // its process ended, or did not come up
	RolledBack Outcome = "rolled_back" // promoted, it fell again and again; the pinned version runs again
)

// Trial is how a shadow compares with the version that a plan pins. It is one
// record of an app: a plan with another pin or another shadow is another trial,
// which takes its place.
type Trial struct {
	App      string  `json:"app"`
	Signal   string  `json:"signal"` // namespace/name
	Pinned   string  `json:"pinned"` // version
	Shadow   string  `json:"shadow"` // version
	Outcome  Outcome `json:"outcome,omitempty"`
	Why      string  `json:"why,omitempty"` // what led to the outcome
	Agreeing int     `json:"agreeing"`      // answers in a row that agreed, since the shadow was started
	Compared int     `json:"compared"`      // answers that were compared
	// Difference is the last one that was found.
	Difference string    `json:"difference,omitempty"`
	Since      time.Time `json:"since"` // when the outcome was reached
}

// newTrial returns the trial of a plan's shadow, undecided.
func newTrial(p SignalPlan, now time.Time) Trial {
	return Trial{App: p.App, Signal: p.Namespace + "/" + p.Name, Pinned: p.Version, Shadow: p.Shadow.Version, Since: now}
}

// of reports whether the trial is that of the plan's pin and shadow.
func (t Trial) of(p SignalPlan) bool {
	return p.Shadow != nil && t.App == p.App && t.Signal == p.Namespace+"/"+p.Name && t.Pinned == p.Version && t.Shadow == p.Shadow.Version
}

// Answered is the trial after an answer of the shadow. One that was compared
// counts for or against it; one that was not, because the pinned version had
// none, says nothing. A shadow that failed or was silent has diverged. After
// promoteAfter answers in a row that agree it is promoted. One with a promoteAfter
// of 0 only runs to be compared: no difference ends it.
func (t Trial) Answered(now time.Time, a Answer, promoteAfter int) Trial {
	if t.Outcome != Undecided {
		return t
	}
	switch {
	case a.Silent:
		return t.end(now, Diverged, "it took the connection and did not answer")
	case a.Verdict == VerdictFailed:
		return t.end(now, Diverged, "it failed: "+a.Why)
	case !a.Compared:
		return t
	}
	t.Compared++
	if a.Difference != "" {
		t.Agreeing, t.Difference = 0, a.Difference
		if promoteAfter == 0 {
			return t // it runs to be watched
		}
		return t.end(now, Diverged, a.Difference)
	}
	t.Agreeing++
	if promoteAfter > 0 && t.Agreeing >= promoteAfter {
		return t.end(now, Promoted, "")
	}
	return t
}

// Crashed is the trial after the end of the shadow's process.
func (t Trial) Crashed(now time.Time, why string) Trial {
	if t.Outcome != Undecided {
		return t
	}
	return t.end(now, Crashed, why)
}

// GivenUp is the trial after the promoted version spent its restart budget.
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

// pick returns the trial of a plan's shadow out of all that were kept: the
// newest one of its app, if that is of the same pin and shadow, else a new one.
func pick(kept []Trial, p SignalPlan, now time.Time) Trial {
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
