package harmonizer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/report"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/shadow"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

func TestStartsMissingInstances(t *testing.T) {
	alone(t, func(t *testing.T, w *world, r *running) {
		r.events <- rows(2)
		r.events <- apps.ExpectedComplete{}
		pass(t, 10*time.Second)
		if w.started() != 0 || w.last("default").Complete || len(r.store.values("instances_expected", "")) != 0 {
			t.Fatalf("before a heartbeat period: %d starts, counts %+v", w.started(), w.last("default"))
		}
		pass(t, 3*time.Second)
		c, err := r.Counts(t.Context(), "default")
		if got := c.Apps["web"]; err != nil || !c.Complete || got.Expected != 2 || got.Running != 2 || got.CPUs != 1 || got.Mem != 20 {
			t.Fatalf("Counts = %+v, %v, want 2 of 2 running, 1 cpu, 20 MB", c, err)
		}
		r.events <- rows(20)
		pass(t, 2*time.Second)
		if c := w.last("default"); c.Apps["web"].Running != 20 {
			t.Errorf("published %+v, want 20 running", c)
		}
		st, err := r.Status(t.Context(), api.HarmonizerQuery{App: "web"})
		if err != nil || st.App == nil || len(st.App.Indices) != 20 || !st.Leading {
			t.Errorf("Status = %+v, %v", st, err)
		}
		if w.started() != 20 {
			t.Errorf("%d starts, want 20", w.started())
		}
		r.events <- apps.Heartbeat{Node: message.Node{Pool: "web", Name: "n2"}, Data: []byte(`{"dea":"n2","droplets":[]}`)}
		pass(t, time.Second)
		for pool, want := range map[string][]api.HarmonizerNode{"web": {{Node: "n2"}}, "other": nil} {
			if st, err := r.Status(t.Context(), api.HarmonizerQuery{Nodes: pool}); err != nil || st.Apps != nil || !slices.Equal(st.Nodes, want) {
				t.Errorf("nodes of pool %s: %+v, %v, want %+v", pool, st.Nodes, err, want)
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.findings) == 0 || r.m.probes == 0 {
			t.Errorf("%d findings published, %d probes, want some", len(w.findings), r.m.probes)
		}
	})
}

func TestSilentNodeIsLost(t *testing.T) {
	alone(t, func(t *testing.T, w *world, r *running) {
		r.events <- rows(2)
		r.events <- apps.ExpectedComplete{}
		pass(t, 15*time.Second)
		w.mu.Lock()
		w.alive = false
		w.mu.Unlock()
		pass(t, 24*time.Second)
		if n := w.started(); n != 2 {
			t.Errorf("%d starts before droplet_lost, want 2", n)
		}
		pass(t, 5*time.Second)
		if n := w.started(); n != 4 {
			t.Errorf("%d starts after droplet_lost, want 4", n)
		}
	})
}

// TestStalledLoopMarksStateIncomplete: a stalled loop received no heartbeats, but its nodes
// are not silent. Counts are incomplete for a period, and no nudge is sent.
func TestStalledLoopMarksStateIncomplete(t *testing.T) {
	alone(t, func(t *testing.T, w *world, r *running) {
		r.events <- rows(2)
		r.events <- apps.ExpectedComplete{}
		pass(t, 15*time.Second)
		err := r.call(t.Context(), func(time.Time) {
			halt := time.NewTimer(40 * time.Second)
			<-halt.C
		})
		if err != nil {
			t.Fatal(err)
		}
		pass(t, time.Second)
		st, err := r.Status(t.Context(), api.HarmonizerQuery{})
		if err != nil || st.Complete || st.Counters["held_up"] != 1 {
			t.Errorf("after a halt: %+v, %v, want it incomplete and held_up 1", st, err)
		}
		pass(t, 15*time.Second)
		if c := w.last("default"); !c.Complete || c.Apps["web"].Running != 2 || w.started() != 2 {
			t.Errorf("a period later: %+v and %d starts, want it complete and 2", c, w.started())
		}
	})
}

// TestStaleCountsAreMarkedIncomplete: counts are published after each change, and at least
// once in a heartbeat period. Incomplete counts are marked.
func TestStaleCountsAreMarkedIncomplete(t *testing.T) {
	alone(t, func(t *testing.T, w *world, r *running) {
		r.events <- rows(2)
		r.events <- apps.ExpectedComplete{}
		pass(t, 15*time.Second)
		exported := func() (n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, c := range w.counts {
				if c.Pool == "default" {
					n++
				}
			}
			return n
		}
		before := exported()
		pass(t, 60*time.Second)
		if n := exported() - before; n < 5 || n > 7 {
			t.Errorf("%d tellings in a quiet minute, want one each 10 s", n)
		}
		r.events <- apps.ExpectedLost{Why: "test"}
		pass(t, time.Second)
		if c := w.last("default"); c.Complete || c.Why == "" {
			t.Errorf("published %+v, want it incomplete at once", c)
		}
		if n := w.started(); n != 2 || w.stops != 0 {
			t.Errorf("%d starts and %d stops, want 2 and none", n, w.stops)
		}
	})
}

// TestUnreadableRowLeavesMetricsStale: if the row of an app was never readable, its count is
// unknown, so no count is written. Other apps are nudged as usual.
func TestUnreadableRowLeavesMetricsStale(t *testing.T) {
	alone(t, func(t *testing.T, w *world, r *running) {
		r.events <- rows(2)
		r.events <- apps.ExpectedComplete{}
		pass(t, 15*time.Second)
		r.events <- apps.ExpectedUnreadable{Name: "api"}
		pass(t, time.Second)
		before := len(r.store.values("instances_expected", ""))
		r.events <- rows(3)
		pass(t, 60*time.Second)
		if after := len(r.store.values("instances_expected", "")); before == 0 || after != before {
			t.Errorf("%d counts written, then %d more while a row is unreadable, want some and none", before, after-before)
		}
		if n := w.started(); n != 3 {
			t.Errorf("%d starts, want 3", n)
		}
		if c := w.last("default"); c.Complete || !strings.Contains(c.Why, "api") {
			t.Errorf("published %+v, want it incomplete because of api", c)
		}
		r.events <- apps.ExpectedGone{Name: "api"}
		pass(t, 2*time.Second)
		if v := r.store.values("instances_expected", "web"); v[len(v)-1] != 3 || !w.last("default").Complete {
			t.Errorf("instances_expected of web = %v, want 3 in the end", v)
		}
	})
}

// TestServesNodesDuringAPass: heartbeats are processed between the slices of a pass.
func TestServesNodesDuringAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		h, err := New(settings(), Ports{Bus: w.join("a")}, discard)
		if err != nil {
			t.Fatal(err)
		}
		for range sourceBacklog {
			h.rows <- rows(1)
		}
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- h.reportRows(ctx, rows(1)) }()
		synctest.Wait()
		if err := h.Enqueue(ctx, apps.BusUp{}); err != nil { // does not wait for the rows
			t.Fatal(err)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a slice too many = %v, want it to wait", err)
		}
	})
}

func TestUpdateRefreshesTheSource(t *testing.T) {
	alone(t, func(t *testing.T, w *world, r *running) {
		if err := r.Enqueue(t.Context(), apps.Updated{App: "web"}); err != nil {
			t.Fatal(err)
		}
		pass(t, time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if r.m.refreshed != 1 {
			t.Errorf("refreshed %d times, want once", r.m.refreshed)
		}
	})
}

// failingBus is a bus whose Listen fails.
type failingBus struct{ *member }

func (failingBus) Listen(context.Context, Handler) error { return errAway }

func TestRunEndsWithItsPorts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newWorld().join("a")
		h, err := New(settings(), Ports{Bus: failingBus{m}, Source: &rowSource{m: m}}, discard)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Run(t.Context()); !errors.Is(err, errAway) {
			t.Errorf("Run = %v, want %v", err, errAway)
		}
		if _, err := h.Status(t.Context(), api.HarmonizerQuery{}); !errors.Is(err, errNotRunning) {
			t.Errorf("Status after Run = %v, want %v", err, errNotRunning)
		}
	})
}

// TestCallTimesOutWhenLoopBlocks: a request to a loop that does not answer ends after
// loopTimeout.
func TestCallTimesOutWhenLoopBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := New(settings(), Ports{}, discard)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = h.Counts(t.Context(), "default")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != loopTimeout {
			t.Errorf("Counts = %v after %v", err, time.Since(began))
		}
	})
}

func TestNewRejectsInvalidConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no cluster":    {},
		"bad pool":      {Cluster: "c", Pools: []string{"a.b"}},
		"bad rules":     {Cluster: "c", Apps: apps.Config{DropletLost: -1}},
		"bad label":     {Cluster: "c", Labels: []string{"a b"}},
		"label twice":   {Cluster: "c", Labels: []string{"a", "a"}},
		"shadow window": {Cluster: "c", CloudFoundry: cloudfoundry.Features{Shadow: &shadow.Config{Window: -1}}},
		"shadow checks": {Cluster: "c", CloudFoundry: cloudfoundry.Features{Shadow: &shadow.Config{Every: -1}}},
	} {
		if _, err := New(cfg, Ports{}, discard); err == nil {
			t.Errorf("%s: New took %+v", name, cfg)
		}
	}
}

func TestOrders(t *testing.T) {
	alone(t, func(t *testing.T, w *world, r *running) {
		r.events <- rows(1)
		r.events <- apps.ExpectedComplete{}
		pass(t, 15*time.Second)
		for _, tt := range []struct {
			name  string
			order api.HarmonizerOrder
			want  string // part of the error
		}{
			{"release what is not held", api.HarmonizerOrder{Op: api.OpReleaseLimit}, ErrNothing.Error()},
			{"retry what did not crash", api.HarmonizerOrder{Op: api.OpRetry, App: "web"}, ErrNothing.Error()},
			{"retry an index that did not", api.HarmonizerOrder{Op: api.OpRetry, App: "web", Index: new(0)}, ErrNothing.Error()},
			{"retry a strange index", api.HarmonizerOrder{Op: api.OpRetry, App: "web", Index: new(99)}, "no index 99"},
			{"retry a strange app", api.HarmonizerOrder{Op: api.OpRetry, App: "api"}, "the app is unknown"},
			{"nonsense", api.HarmonizerOrder{Op: "dance"}, "is unknown; use release or retry"},
		} {
			err := r.Order(t.Context(), tt.order)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: Order = %v, want %q", tt.name, err, tt.want)
			}
		}
		w.crash()
		pass(t, time.Second)
		for _, want := range []error{nil, ErrNothing} {
			if err := r.Order(t.Context(), api.HarmonizerOrder{Op: api.OpRetry, App: "web", Index: new(0)}); !errors.Is(err, want) {
				t.Errorf("retry what crashed: Order = %v, want %v", err, want)
			}
		}
	})
}

func TestReports(t *testing.T) {
	alone(t, func(t *testing.T, w *world, r *running) {
		r.events <- rows(2)
		r.events <- apps.ExpectedComplete{}
		pass(t, 15*time.Second)
		answers, err := r.Report(t.Context(), report.SubjectHealth, []byte(`{"droplets":[{"droplet":"web","version":"v1"}]}`))
		if err != nil || len(answers) != 1 || !strings.Contains(string(answers[0]), `"healthy":2`) {
			t.Errorf("Report = %s, %v, want one answer with 2 healthy", answers, err)
		}
		if _, err := r.Report(t.Context(), report.SubjectHealth, []byte(`x`)); err == nil {
			t.Error("Report accepted a malformed message")
		}
	})
}
