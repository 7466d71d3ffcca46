package harmonizer

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
)

// The scheduler of a pool that runs no rows receives no nudges, and its applications are refused at once, not after a keep-alive without an
// answer. A later scheduler that runs rows receives them.
func TestSchedulerWithoutRowsReceivesNoNudges(t *testing.T) {
	state := func(rows bool) apps.Scheduler {
		return apps.Scheduler{SchedulerState: api.SchedulerState{Pool: web(1).Pool, Kind: "kubernetes", Rows: rows, Fresh: true, Period: 10 * time.Second}}
	}
	watched(t, settings(), "", func(t *testing.T, w *world, r *running) {
		pass(t, 2*time.Minute)
		if s := r.status(t); len(s.Unanswered) != 1 || s.Unanswered[0].Kind != "" {
			t.Errorf("before a state: %+v, want a request without an answer", s.Unanswered)
		}
		other := state(false)
		other.Pool = "other"
		r.events <- other
		r.events <- state(false)
		pass(t, time.Second)
		before := w.started()
		for range 3 {
			pass(t, time.Minute)
			want := api.UnansweredNudge{App: "web", Pool: web(1).Pool, Kind: "kubernetes"}
			if s := r.status(t); len(s.Unanswered) != 1 || s.Unanswered[0] != want || s.UnansweredApps != 1 {
				t.Errorf("unanswered %+v, want %+v", s.Unanswered, want)
			}
		}
		if got := w.started(); got != before {
			t.Errorf("%d starts were requested of a scheduler without rows", got-before)
		}
		r.events <- state(true)
		pass(t, 2*time.Minute)
		if s := r.status(t); w.started() == before || len(s.Unanswered) != 1 || s.Unanswered[0].Kind != "" {
			t.Errorf("%d starts of a scheduler with rows, unanswered %+v", w.started()-before, s.Unanswered)
		}
	})
}
