package bootstrap

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// newTrial returns an undecided trial of a plan's shadow.
func newTrial(p SignalPlan, now time.Time) api.Trial {
	return api.Trial{App: p.App, Signal: p.Namespace + "/" + p.Name, Pinned: p.Version, Shadow: p.Shadow.Version, Since: now}
}

// trialOf reports whether the trial belongs to the plan's pinned version and shadow.
func trialOf(t api.Trial, p SignalPlan) bool {
	return p.Shadow != nil && t.App == p.App && t.Signal == p.Namespace+"/"+p.Name && t.Pinned == p.Version && t.Shadow == p.Shadow.Version
}

// Answered returns the trial after an answer of the shadow. A compared answer counts for or against it. An answer that
// could not be compared, because the pinned version gave none, does not count. A failed or silent shadow has diverged.
// After promoteAfter agreeing answers in a row it is promoted. If promoteAfter is 0, the trial only compares and no
// difference ends it.
func Answered(t api.Trial, now time.Time, a Answer, promoteAfter int) api.Trial {
	if t.Outcome != api.TrialUndecided {
		return t
	}
	switch {
	case a.Silent:
		return endTrial(t, now, api.TrialDiverged, "it accepted the connection and sent no response")
	case a.Verdict == VerdictFailed:
		return endTrial(t, now, api.TrialDiverged, "it failed: "+a.Why)
	case !a.Compared:
		return t
	}
	t.Compared++
	if a.Difference != "" {
		t.Agreeing, t.Difference = 0, a.Difference
		if promoteAfter == 0 {
			return t // it only compares
		}
		return endTrial(t, now, api.TrialDiverged, a.Difference)
	}
	t.Agreeing++
	if promoteAfter > 0 && t.Agreeing >= promoteAfter {
		return endTrial(t, now, api.TrialPromoted, "")
	}
	return t
}

// TrialCrashed returns the trial after the end of the shadow's process.
func TrialCrashed(t api.Trial, now time.Time, why string) api.Trial {
	if t.Outcome != api.TrialUndecided {
		return t
	}
	return endTrial(t, now, api.TrialCrashed, why)
}

// TrialGivenUp returns the trial after the promoted version spent its restart budget.
func TrialGivenUp(t api.Trial, now time.Time, why string) api.Trial {
	if t.Outcome != api.TrialPromoted {
		return t
	}
	return endTrial(t, now, api.TrialRolledBack, why)
}

func endTrial(t api.Trial, now time.Time, o api.TrialOutcome, why string) api.Trial {
	t.Outcome, t.Why, t.Since = o, why, now
	return t
}

// selectTrial returns the trial of a plan's shadow: the app's latest saved one if it matches, or else a new one.
func selectTrial(kept []api.Trial, p SignalPlan, now time.Time) api.Trial {
	var last api.Trial
	for _, t := range kept {
		if t.App == p.App && !t.Since.Before(last.Since) {
			last = t
		}
	}
	if !trialOf(last, p) {
		return newTrial(p, now)
	}
	if last.Outcome == api.TrialUndecided {
		last.Agreeing = 0
	}
	return last
}
