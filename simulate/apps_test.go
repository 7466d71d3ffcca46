package simulate_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/price"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// copies returns work of one app, with one number of instances for each step.
func copies(t testing.TB, app simulate.App, step time.Duration, counts ...int) *simulate.Apps {
	t.Helper()
	s := simulate.NewSeries()
	for i, n := range counts {
		if err := s.AddInstances(app.Name, noon.Add(time.Duration(i)*step), n); err != nil {
			t.Fatal(err)
		}
	}
	work, err := simulate.NewApps("default", s, app)
	if err != nil {
		t.Fatal(err)
	}
	return work
}

// Copies of 2.5 cpus fit once on a machine of 4 cpus: by sums five machines are enough for eight copies, by places eight are needed.
func TestFragmentationIsSeen(t *testing.T) {
	t.Parallel()
	var last api.TickRecord
	r := run(t, simulate.Scenario{
		Start: noon, Ticks: 60, Pool: policy(1), Groups: []simulate.Group{machine("a", 1)},
		Work: copies(t, simulate.App{Name: "web", Copy: resource.Vector{2.5, 100}, StartsIn: 5 * time.Second}, time.Hour, 8),
		Sink: func(r api.TickRecord) error { last = r; return explained(r) },
	})
	if last.Snapshot.Joined != 8 || last.Case.Places == nil {
		t.Errorf("%v machines at the end, places %+v, want 8 for 8 copies", last.Snapshot.Joined, last.Case.Places)
	}
	if short := r.Unmet[resource.CPUs]; !(short > 0 && short < 3) || r.Waited < time.Minute || r.Waited > 12*time.Minute {
		t.Errorf("%v cpu-hours were unmet, the longest wait was %v", short, r.Waited)
	}
}

// Two copies take the places of a headroom and wait for no machine. The places are free again within one boot time, and a pool
// with headroom at rest changes nothing.
func TestHeadroomIsRefilledWithinABootTime(t *testing.T) {
	t.Parallel()
	p, short, refilled, changes := policy(1), time.Time{}, time.Time{}, 0
	p.Headroom = []api.Headroom{{Name: "spare", App: "web", Count: 2, Percent: 10}}
	step, prices, rest := noon.Add(time.Hour), &price.Prices{}, map[string]float64{}
	if err := prices.Set(machine("a", 3).Market, noon, 1); err != nil {
		t.Fatal(err)
	}
	r := run(t, simulate.Scenario{
		Start: noon, Ticks: 120, Pool: p, Groups: []simulate.Group{machine("a", 3)},
		Work: copies(t, simulate.App{Name: "web", Copy: resource.Vector{2.5, 100}, StartsIn: 5 * time.Second}, time.Hour, 3, 5), Prices: prices,
		Sink: func(r api.TickRecord) error {
			h := r.Case.Places.Headroom[0]
			switch {
			case r.At.Before(step):
				if r.At.After(noon.Add(20 * time.Minute)) {
					changes += len(r.Actions)
					rest = r.Cost.ByCause()
				}
			case h.Free < 2:
				short = r.At
			case refilled.IsZero() && !short.IsZero():
				refilled = r.At
			}
			return explained(r)
		},
	})
	const boot = 20*time.Second + 240*time.Second // pending, and the slow launch of 1 of 20
	if refilled.IsZero() || refilled.Sub(step) > boot+2*time.Minute || changes > 0 {
		t.Errorf("short until %v, free again at %v; %d changes at rest", short, refilled, changes)
	}
	if r.Waited > 5*time.Second {
		t.Errorf("the longest wait was %v, want that of a start, 5 s", r.Waited)
	}
	// 7.5 requested cpus are two machines of 4, their copies need three, and the free places two more.
	if want := map[string]float64{"serving": 2, "held by places": 1, "headroom": 2}; !maps.Equal(rest, want) {
		t.Errorf("at rest an hour costs %v, want %v", rest, want)
	}
}

// A copy starts in its time, and one that is not desired ends: the unmet demand is the time of the starts.
func TestCopiesTakeTheirTimeToStart(t *testing.T) {
	t.Parallel()
	g := machine("a", 3)
	g.Min, g.Max = 3, 3
	r := run(t, simulate.Scenario{
		Start: noon, Ticks: 180, Pool: policy(1), Groups: []simulate.Group{g},
		Work: copies(t, simulate.App{Name: "web", Copy: resource.Vector{1, 100}, StartsIn: 90 * time.Second}, time.Hour, 4, 10, 2),
	})
	// 4 copies at the start and 6 an hour later wait for 90 s each.
	if want := 10 * 90.0 / 3600; !near(r.Unmet[resource.CPUs], want) || !near(r.Wanted[resource.CPUs], 16) || r.Waited != 90*time.Second {
		t.Errorf("unmet %v, wanted %v, waited %v; want %v, 16, 90 s", r.Unmet[resource.CPUs], r.Wanted[resource.CPUs], r.Waited, want)
	}
}

// A machine that leaves keeps its copies until they are up elsewhere: a pool that shrinks has no unmet demand.
func TestDrainedCopiesMoveFirst(t *testing.T) {
	t.Parallel()
	g := machine("a", 6)
	g.Min = 1
	r := run(t, simulate.Scenario{
		Start: noon, Ticks: 120, Pool: policy(0.8), Groups: []simulate.Group{g},
		Work: copies(t, simulate.App{Name: "web", Copy: resource.Vector{1, 100}}, 30*time.Minute, 18, 6, 5, 2),
	})
	if r.Unmet[resource.CPUs] > 1e-9 || r.Removed < 4 {
		t.Errorf("unmet %v, %d machines were removed, want at least 4", r.Unmet[resource.CPUs], r.Removed)
	}
}

// The copies of a machine that disappears wait until the placer has detected the loss.
func TestLostCopiesAreReplaced(t *testing.T) {
	t.Parallel()
	g := machine("a", 4)
	g.Min, g.Max, g.Launch = 4, 4, simulate.Delay{P50: 30 * time.Second}
	r := run(t, simulate.Scenario{
		Start: noon, Ticks: 60, Pool: policy(0.5), Groups: []simulate.Group{g},
		Work:   copies(t, simulate.App{Name: "web", Copy: resource.Vector{2, 100}}, time.Hour, 4),
		Events: []simulate.Event{{At: 10*time.Minute + 3*time.Second, For: time.Second, Lost: true}},
	})
	if r.Waited < 25*time.Second || r.Waited > 3*time.Minute || r.Interrupted != 4 {
		t.Errorf("copies waited for %v after %d machines were lost", r.Waited, r.Interrupted)
	}
}

func TestBadApps(t *testing.T) {
	t.Parallel()
	counts := simulate.NewSeries()
	if err := counts.AddInstances("web", noon, 1); err != nil {
		t.Fatal(err)
	}
	if err := counts.AddInstances("web", noon.Add(time.Hour), -1); err == nil {
		t.Error("a negative number of instances is accepted")
	}
	one := resource.Vector{1}
	for want, apps := range map[string][]simulate.App{
		`app "web": a copy takes`:                           {{Name: "web"}},
		`app "": a copy takes`:                              {{Copy: one}},
		"want a name of its own":                            {{Name: "web", Copy: one}, {Name: "web", Copy: one}},
		`app "mail": its number of instances is missing`:    {{Name: "mail", Copy: one}},
		`app "web": a copy takes cpus=1 and starts in -1ns`: {{Name: "web", Copy: one, StartsIn: -1}},
	} {
		if _, err := simulate.NewApps("default", counts, apps...); err == nil || !strings.Contains(err.Error(), strings.Split(want, "cpus=")[0]) {
			t.Errorf("NewApps(%+v) = %v, want %q", apps, err, want)
		}
	}
}
