package harmonizer

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
)

// watched runs a harmonizer beside a node that ignores nudges, until the first start of web was sent.
func watched(t *testing.T, cfg Config, scheduler string, body func(t *testing.T, w *world, r *running)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.ignoresNudges, w.scheduler = true, scheduler
		r := w.join("a").start(t, cfg, false)
		r.events <- rows(1)
		r.events <- apps.ExpectedComplete{}
		pass(t, 12*time.Second)
		if w.started() == 0 {
			t.Fatal("no start was sent")
		}
		body(t, w, r)
		r.stop(t)
	})
}

func (w *world) setScheduler(pool string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scheduler = pool
}

func TestNudgeThatNoSchedulerConfirmsIsAProblem(t *testing.T) {
	watched(t, settings(), "", func(t *testing.T, w *world, r *running) {
		if s := r.status(t); len(s.Unanswered) != 0 {
			t.Errorf("within the keep-alive: %+v", s.Unanswered)
		}
		pass(t, 60*time.Second)
		s := r.status(t)
		if len(s.Unanswered) != 1 || s.UnansweredApps != 1 {
			t.Fatalf("unanswered: %+v, want the starts of web", s.Unanswered)
		}
		u := s.Unanswered[0]
		if u.App != "web" || u.Pool != web(1).Pool || u.Stop || u.Nudges < 2 || s.At.Sub(u.Since) < 60*time.Second {
			t.Errorf("unanswered: %+v at %v, want at least 2 starts of web since a minute", u, s.At)
		}
		w.setScheduler(web(1).Pool)
		pass(t, 40*time.Second)
		if s := r.status(t); len(s.Unanswered) != 0 || s.Counters["nudges_confirmed"] == 0 {
			t.Errorf("after a confirmation: %+v", s.Unanswered)
		}
	})
}

// A start that its scheduler reports as waiting is not repeated, and is no problem, even if its confirmation was lost.
func TestStartThatWaitsAtItsSchedulerIsNotRepeated(t *testing.T) {
	watched(t, settings(), "", func(t *testing.T, w *world, r *running) {
		report := apps.Confirmed{Pool: web(1).Pool, Waiting: []api.WaitingStart{{App: "web", Version: web(1).Version, Indices: []int{0}}}}
		before := w.started()
		for range 12 {
			r.events <- report
			pass(t, 10*time.Second)
		}
		if got := w.started(); got != before {
			t.Errorf("%d starts in two minutes with reports, want none", got-before)
		}
		r.events <- report
		pass(t, time.Second)
		if s := r.status(t); len(s.Unanswered) != 0 {
			t.Errorf("unanswered: %+v", s.Unanswered)
		}
		pass(t, 40*time.Second)
		if got := w.started(); got != before+1 {
			t.Errorf("%d starts after the last report, want one", got-before)
		}
	})
}

func TestProblemEndsWithTheNeed(t *testing.T) {
	watched(t, settings(), "", func(t *testing.T, _ *world, r *running) {
		pass(t, 60*time.Second)
		r.events <- apps.ExpectedGone{Name: "web"}
		pass(t, 5*time.Minute)
		if s := r.status(t); len(s.Unanswered) != 0 {
			t.Errorf("of a deleted app: %+v", s.Unanswered)
		}
	})
}

func TestSchedulerConfirmsOnlyForItsPool(t *testing.T) {
	watched(t, settings(), "another", func(t *testing.T, _ *world, r *running) {
		pass(t, 60*time.Second)
		if s := r.status(t); len(s.Unanswered) != 1 || s.Counters["confirmations_refused"] == 0 {
			t.Errorf("unanswered: %+v, counters %v", s.Unanswered, s.Counters)
		}
	})
}

func TestCloudControllersConfirmNothing(t *testing.T) {
	cfg := settings()
	cfg.CloudFoundry.Dialect = cloudfoundry.DialectCloudController
	watched(t, cfg, "", func(t *testing.T, _ *world, r *running) {
		pass(t, 2*time.Minute)
		if s := r.status(t); len(s.Unanswered) != 0 {
			t.Errorf("unanswered: %+v", s.Unanswered)
		}
	})
}

func TestUnconfirmedNudgesAreBounded(t *testing.T) {
	c := newConfirmations(time.Second, &counters{n: map[string]uint64{}})
	now := time.Now()
	for i := range maxUnconfirmed + 10 {
		c.addNudge(now, apps.Nudge{ID: fmt.Sprint(i), Stop: &api.Stop{App: "web"}})
	}
	if len(c.waiting) != maxUnconfirmed {
		t.Errorf("%d nudges are watched, want %d", len(c.waiting), maxUnconfirmed)
	}
	c.expire(now.Add(2 * time.Second))
	all := c.unanswered(func(string) string { return "" })
	if len(all) != 1 || !all[0].Stop || all[0].Nudges != maxUnconfirmed || c.order != nil {
		t.Errorf("unanswered: %+v", all)
	}
}
