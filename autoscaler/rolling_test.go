package autoscaler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/cloud"
	"github.com/weirkeeper/weirkeeper/signals/calendar"
)

// mark marks the current instances of a group as stale.
func (w *world) mark(group string) {
	w.now = w.now.Add(time.Minute)
	w.book.change(func(o *api.Orders) {
		o.Stale = []api.StaleMark{{Note: api.Note{By: "me", At: w.now}, Group: group}}
	})
}

// Machines that are replaced change no target, so no cooldown begins.
func TestRollingBeginsNoCooldown(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 8)
	w.config.Policy.Limits.MaxAdd, w.config.Policy.Limits.MaxRemove, w.config.Policy.Period = 2, 1, time.Minute
	w.config.Prune.MaxWeight = 1
	w.config.Policy.Cooldown.Up = 3 * time.Minute
	w.reconfigure()
	w.mark("a")
	w.tick()
	web.set(cpus(10*cpusPerNode), nil)
	for i := range 4 {
		if r := w.tick(); r.Result.Target == 10 {
			return
		} else if i == 3 {
			t.Errorf("target %v, want 10: %+v", r.Result.Target, r.Result.Steps)
		}
	}
}

// A replacement that has not joined yet is kept until it has, and then a marked instance ends. The first one is alone.
func TestRollingWaitsForItsReplacements(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 4)
	w.nodes.change(func(n *nodes) { n.mute = map[string]bool{"a-5": true, "a-6": true, "a-7": true, "a-8": true} })
	w.mark("a")
	wantOps(t, w.tick(), "set target a: 5")
	for range 5 {
		wantOps(t, w.tick())
	}
	w.nodes.change(func(n *nodes) { n.mute = nil })
	if r := w.tick(); r.Snapshot.Joined != 5 {
		t.Errorf("%v joined, want the first one alone", r.Snapshot.Joined)
	}
	for range 12 {
		w.tick()
	}
	w.wantInstances("a-5", "a-6", "a-7", "a-8")
	w.wantTarget(4)
	w.wantBalanced()
}

// A rolling uses at most half of what a window allows. A need that arises in the window has the
// rest.
func TestRollingLeavesRoomForTheNeed(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "autoscaler") {
		return
	}
	w, _, web := steady(t, 8)
	w.config.Policy.Period = 5 * time.Minute
	w.config.Policy.Budgets = []api.ChangeBudget{{Direction: api.DirectionUp, Within: time.Hour, Weight: 4}}
	w.reconfigure()
	w.mark("a")
	wantOps(t, w.tick(), "set target a: 9")
	web.set(cpus(12*cpusPerNode), nil)
	if r := w.tick(); r.Result.Target != 11 {
		t.Errorf("target %v, want 11: %+v", r.Result.Target, r.Result.Steps)
	}
	for range 50 {
		if r := w.tick(); r.Detail.Surge != nil {
			t.Errorf("surge %v, want none within the hour", r.Detail.Surge)
		}
	}
	w.wantTarget(11)
	web.set(cpus(10*cpusPerNode), nil)
	for range 300 {
		w.tick()
	}
	w.wantTarget(10)
	if !slices.Equal(w.book.struck, []string{"a"}) {
		t.Errorf("struck %q, want the group to be rolled in the end", w.book.struck)
	}
}

// While the pool shrinks, the marked nodes are removed first, and unneeded ones are not replaced.
func TestRollingInAScaleIn(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 4, 4)
	w.mark("a")
	web.set(cpus(4*cpusPerNode), nil)
	r := w.tick()
	if r.Detail.Surge != nil || len(r.Result.Terminate["a"]) != 2 || len(r.Result.Terminate["b"]) != 2 {
		t.Errorf("surge %v, let go %v: want none, and two of each", r.Detail.Surge, r.Result.Terminate)
	}
	w.wantCalls()
	for range 12 {
		w.tick()
	}
	w.wantTarget(4)
	w.wantInstances("a-5", "a-6", "b-3", "b-4")
}

// In a group at its maximum, marked nodes are replaced one after the other, each after the
// replacement of the last one joined.
func TestRollingAtTheMaximum(t *testing.T) {
	t.Parallel()
	w, _, _ := steady(t, 4)
	w.groups[0].Group = cloud.New(cloud.Config{ID: "a", Max: 4, Target: 4, Join: 90 * time.Second}, w.now.Add(-time.Hour))
	w.loop = nil
	w.tick()
	w.mark("a")
	for i := range 30 {
		r := w.tick()
		if r.Snapshot.Joined < 3 || r.Case.Input.Capacity.Target != 4 {
			t.Errorf("tick %d: joined %v, target %v: want one to be missing at most", i, r.Snapshot.Joined, r.Case.Input.Capacity.Target)
		}
		for _, d := range r.Drains {
			if d.Reason != "rolling away" {
				t.Errorf("tick %d: %+v, want it to be rolled away", i, d)
			}
		}
	}
	w.wantInstances("a-5", "a-6", "a-7", "a-8")
	w.wantTarget(4)
	if !slices.Equal(w.book.struck, []string{"a"}) {
		t.Errorf("struck %q, want the mark", w.book.struck)
	}
}

// There the rolling waits while a removal would be dangerous or is not allowed, and reports that.
func TestRollingAtTheMaximumWaits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(w *world, def, web *need)
		why    string
	}{
		{"the need is not known", func(w *world, def, web *need) { silence(w, def, web) }, "the need of app web is not known"},
		{"a node is silent", func(w *world, _, _ *need) { w.nodes.change(func(n *nodes) { n.mute["a-1"] = true }) }, "some nodes are silent"},
		{"nothing may be removed", func(w *world, _, _ *need) { w.config.Prune.MaxWeight = 0; w.reconfigure() }, "within the limits"},
		{"a loss", func(w *world, _, _ *need) {
			w.config.Policy.LossLimit = true
			w.reconfigure()
			w.groups[0].Lose("a-1")
		}, "1 nodes lost"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, def, web := steady(t, 4)
			w.groups[0].tamper = atMost(4)
			test.change(w, def, web)
			w.mark("a")
			r := w.tick()
			wantOps(t, r)
			if len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "group a is at its maximum") || !strings.Contains(r.Problems[0], test.why) {
				t.Errorf("problems %q, want one that has %q", r.Problems, test.why)
			}
		})
	}
}

// An overdue roll begins nothing before its window opens, and then no more than the limits of a period. What the closing window
// leaves waits for the next one. Every marked machine is replaced once, and none is missing.
func TestRollWaitsForItsWindow(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "autoscaler") {
		return
	}
	const machines = 100
	w, _, _ := steady(t, machines)
	w.groups[0].Group = cloud.New(cloud.Config{ID: "a", Max: machines + 10, Target: machines}, w.now.Add(-time.Hour))
	w.mark("a")
	clock := func(d time.Duration) string { return w.now.Add(d).UTC().Format("15:04") }
	windows, problems := calendar.DecodeWindows([]calendar.WindowKeys{
		{Name: "first", Days: "daily", From: clock(20 * time.Minute), To: clock(25 * time.Minute), TimeZone: "UTC", Allow: []string{"roll"}},
		{Name: "second", Days: "daily", From: clock(60 * time.Minute), To: clock(240 * time.Minute), TimeZone: "UTC", Allow: []string{"roll"}},
	}, []string{"roll", "scale_in"}, time.LoadLocation)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	w.config.Windows = windows
	w.config.Policy.Limits.MaxAdd, w.config.Policy.Limits.MaxRemove, w.config.Policy.Period = 4, 2, time.Minute
	w.config.Prune.MaxWeight = 2
	w.reconfigure()
	began, removed := w.now, 0
	for w.now.Sub(began) < 230*time.Minute {
		r := w.tick()
		at, surge, gone := r.At.Sub(began), 0, 0
		for _, more := range r.Detail.Surge {
			surge += more
		}
		for _, a := range r.Actions {
			if a.Op == api.OpRemove {
				gone++
			}
		}
		removed += gone
		open := at >= 20*time.Minute-time.Minute && at < 25*time.Minute || at >= 60*time.Minute-time.Minute
		if surge > 4 || gone > 2 || !open && surge+gone > 0 || r.Snapshot.Joined < machines {
			t.Errorf("after %v: surge %d, %d removed, %v joined, closed: %v", at, surge, gone, r.Snapshot.Joined, r.Case.Closed)
		}
		if why := r.Case.Closed[api.WorkRoll]; open == (why != "") && at != 19*time.Minute && at != 59*time.Minute {
			t.Errorf("after %v: %q", at, why)
		}
	}
	if removed != machines {
		t.Errorf("%d machines were removed, want %d, each once", removed, machines)
	}
	w.wantTarget(machines)
	w.wantBalanced()
}

// A scale-in waits for its window: the target falls, and no node goes. A growth does not wait.
func TestScaleInWaitsForItsWindow(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 4)
	from, to := w.now.Add(30*time.Minute).UTC(), w.now.Add(90*time.Minute).UTC()
	w.config.Windows, _ = calendar.DecodeWindows([]calendar.WindowKeys{
		{Name: "w", Days: "daily", From: from.Format("15:04"), To: to.Format("15:04"), TimeZone: "UTC", Allow: []string{"scale_in"}},
	}, []string{"roll", "scale_in"}, time.LoadLocation)
	w.reconfigure()
	web.set(cpus(6*cpusPerNode), nil)
	for range 8 {
		w.tick()
	}
	w.wantTarget(6)
	web.set(cpus(3*cpusPerNode), nil)
	for range 10 {
		r := w.tick()
		if s := history.SummaryOf(r); r.Snapshot.Joined < 6 || r.Case.Closed[api.WorkScaleIn] == "" || !slices.ContainsFunc(s.Holds, func(h api.Hold) bool { return h.Kind == api.HoldWindow }) {
			t.Fatalf("joined %v, closed %v, holds %+v", r.Snapshot.Joined, r.Case.Closed, s.Holds)
		}
	}
	for w.now.Before(from.Add(20 * time.Minute)) {
		w.tick()
	}
	w.wantTarget(3)
	w.wantBalanced()
}

// A machine that never joined ends although no window is open, and its replacement comes.
func TestEmergenciesWaitForNoWindow(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 4)
	far := w.now.Add(12 * time.Hour).UTC()
	w.config.Windows, _ = calendar.DecodeWindows([]calendar.WindowKeys{
		{Name: "w", Days: "daily", From: far.Format("15:04"), To: far.Add(time.Hour).Format("15:04"), TimeZone: "UTC", Allow: []string{"roll", "scale_in", "repair"}},
	}, []string{"roll", "scale_in", "repair"}, time.LoadLocation)
	w.config.OrphansAfter = 10 * time.Minute
	w.reconfigure()
	w.nodes.change(func(n *nodes) { n.mute["a-5"] = true })
	web.set(cpus(5*cpusPerNode), nil)
	var ended strings.Builder
	for range 60 {
		for _, a := range w.tick().Actions {
			if a.Op == api.OpRemove {
				ended.WriteString(a.String())
			}
		}
	}
	if !strings.Contains(ended.String(), "a-5") {
		t.Errorf("the machine that never joined stays: %q", ended.String())
	}
	w.wantTarget(5)

	// So does one that the provider interrupts, although the work on it is drained.
	if err := w.loop.Notice(t.Context(), pools.Notice{Instance: "a-1", Kind: pools.Interruption, At: w.now.Add(2 * time.Minute), Done: func() {}}); err != nil {
		t.Fatal(err)
	}
	if all, err := w.records.Load(t.Context()); err != nil || len(all) != 1 || all[0].Node != "a-1" || all[0].Reason != api.DrainSpot {
		t.Errorf("drains %+v, %v: want that of the interrupted machine", all, err)
	}
	for range 6 {
		r := w.tick()
		if r.Case.Closed[api.WorkScaleIn] == "" {
			t.Fatalf("the window is open: %+v", r.Case.Closed)
		}
	}
	if all, _ := w.records.Load(t.Context()); len(all) != 0 {
		t.Errorf("drains %+v: want none after its end", all)
	}
	w.wantBalanced()
}
