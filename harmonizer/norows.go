package harmonizer

import (
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// noRows has the kind of the scheduler of each pool that runs no rows. It stays until a state of the pool's scheduler differs: a
// nudge would have no answer.
type noRows map[string]string

// note stores the state of a scheduler.
func (n noRows) note(s api.SchedulerState) {
	if s.Rows {
		delete(n, s.Pool)
	} else if len(n) < maxNeverPools {
		n[s.Pool] = s.Kind
	}
}

// serve returns the nudges of pools whose scheduler runs rows.
func (n noRows) serve(nudges []apps.Nudge, pool func(app string) string) (served []apps.Nudge) {
	if len(n) == 0 {
		return nudges
	}
	for _, nudge := range nudges {
		if n[pool(requestOf(nudge).app)] == "" {
			served = append(served, nudge)
		}
	}
	return served
}

// refused returns the requests that no scheduler serves: those without an answer, and after them the applications of pools whose
// scheduler runs no rows.
func (n noRows) refused(all []api.AppSummary, without []api.UnansweredNudge) (list []api.UnansweredNudge) {
	if len(n) == 0 {
		return without
	}
	for _, u := range without {
		if n[u.Pool] == "" {
			list = append(list, u)
		}
	}
	for _, a := range all {
		if kind := n[a.Pool]; kind != "" && a.Count.Expected > 0 {
			list = append(list, api.UnansweredNudge{App: a.Name, Pool: a.Pool, Kind: kind})
		}
	}
	return list
}
