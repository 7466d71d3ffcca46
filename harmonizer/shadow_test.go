package harmonizer

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/report"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/shadow"
)

// TestShadowModePublishesNothing: in shadow mode nothing is written. A nudge of both
// harmonizers is no mismatch; a nudge of only one is.
func TestShadowModePublishesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.rows["web"] = web(2)
		cfg := settings()
		cfg.Shadow, cfg.CloudFoundry.Shadow = true, &shadow.Config{}
		m := w.join("shadow")
		m.silent = t
		s := m.start(t, cfg, true)
		leader := w.join("a").start(t, settings(), true)
		pass(t, 15*time.Second)
		w.crash()
		pass(t, 50*time.Second)
		st, err := s.Status(t.Context(), api.HarmonizerQuery{})
		if err != nil || st.Shadow == nil || st.Leading || st.Shadow.Matched == 0 || st.Shadow.Own != 0 || st.Shadow.Other != 0 {
			t.Fatalf("Status = %+v, shadow %+v, %v, want matches only", st, st.Shadow, err)
		}
		if st.Counters["nudges_received"] == 0 {
			t.Errorf("counters %v, want nudges_received above 0", st.Counters)
		}
		leader.stop(t)
		w.mu.Lock()
		w.runs = map[string]api.Beat{} // the node runs nothing; only the shadow harmonizer reacts
		w.mu.Unlock()
		if err := s.Enqueue(t.Context(), apps.Nudged{Nudge: apps.Nudge{Start: &api.Start{App: "api", Version: "v9", Indices: []int{4}}}}); err != nil {
			t.Fatal(err)
		}
		pass(t, 90*time.Second)
		st, err = s.Status(t.Context(), api.HarmonizerQuery{})
		if err != nil || st.Shadow.Own == 0 || st.Shadow.Other != 1 || len(st.Shadow.Last) < 2 {
			t.Errorf("shadow %+v, %v, want mismatches of both", st.Shadow, err)
		}
		if len(s.store.values("instances_expected", "")) != 0 {
			t.Error("metrics were written")
		}
		if _, err := s.Counts(t.Context(), "default"); !errors.Is(err, ErrShadow) {
			t.Errorf("Counts = %v, want %v", err, ErrShadow)
		}
		if err := s.Release(t.Context()); !errors.Is(err, ErrShadow) {
			t.Errorf("Release = %v, want %v", err, ErrShadow)
		}
		if answers, err := s.Report(t.Context(), report.SubjectHealth, []byte(`{"droplets":[{"droplet":"web"}]}`)); err != nil || answers != nil {
			t.Errorf("Report = %s, %v, want none", answers, err)
		}
		s.stop(t)
	})
}

// TestShadowOfAFasterOne: the other harmonizer is faster. The shadow does not count the
// other's nudge as its own, so it still decides, and both match.
func TestShadowOfAFasterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.rows["web"] = web(2)
		w.mu.Lock()
		w.runs = map[string]api.Beat{}
		w.mu.Unlock()
		cfg := settings()
		cfg.Shadow, cfg.CloudFoundry.Shadow = true, &shadow.Config{}
		s := w.join("shadow").start(t, cfg, true)
		pass(t, 5*time.Second)
		if err := s.Enqueue(t.Context(), apps.Nudged{Nudge: apps.Nudge{Start: &api.Start{App: "web", Version: web(2).Version, Indices: []int{0, 1}}}}); err != nil {
			t.Fatal(err)
		}
		pass(t, 25*time.Second)
		st, err := s.Status(t.Context(), api.HarmonizerQuery{})
		if err != nil || st.Shadow.Matched != 4 || st.Shadow.Own != 0 || st.Shadow.Other != 0 {
			t.Errorf("shadow %+v, %v, want two acts of each that match", st.Shadow, err)
		}
		s.stop(t)
	})
}
