package apps

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
)

// roomless is a crowd whose nodes have no room. A scheduler has the starts of its nudges, and reports them every 10 s.
type roomless struct {
	*crowd
	has     map[string]map[int]bool // app -> indices of the starts that it has
	silent  bool                    // its reports are lost
	deaf    bool                    // nudges to it are lost
	nudges  int
	without map[string]time.Time // app/index -> since when it has no start, or does not report it
}

func newRoomless(cfg Config, apps map[string]int) *roomless {
	w := &roomless{crowd: newCrowd(cfg), has: map[string]map[int]bool{}, without: map[string]time.Time{}}
	w.nudged = func(app string, index int) {
		w.nudges++
		if w.without[key(app, index)] = w.now; !w.deaf {
			w.has[app][index] = true
		}
	}
	for app, n := range apps {
		w.homeless[app], w.has[app] = true, map[int]bool{}
		w.add(app, n)
	}
	w.step(ExpectedComplete{})
	return w
}

// passReports advances the world by 10 s, with a report at the end.
func (w *roomless) passReports() {
	w.pass(10 * time.Second)
	if w.silent {
		return
	}
	report := Confirmed{Pool: "p"}
	for _, app := range slices.Sorted(maps.Keys(w.has)) {
		one := api.WaitingStart{App: app, Version: "v1", Indices: slices.Sorted(maps.Keys(w.has[app]))}
		for _, index := range one.Indices {
			w.without[key(app, index)] = w.now
		}
		report.Waiting = append(report.Waiting, one)
	}
	w.step(report)
}

// lose makes the scheduler lose each start for which lost returns true.
func (w *roomless) lose(lost func() bool) {
	for _, app := range slices.Sorted(maps.Keys(w.has)) {
		for _, index := range slices.Sorted(maps.Keys(w.has[app])) {
			if lost() {
				delete(w.has[app], index)
			}
		}
	}
}

// TestLostStartsAreRepeated: whatever is lost, nudges, reports, or starts at the scheduler, a start is repeated within a keep-alive
// of its last nudge or report, and its turn.
func TestLostStartsAreRepeated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		apps, all := map[string]int{}, 0
		for i, n := range rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 30, 300}), 1, 5).Draw(t, "sizes") {
			apps[fmt.Sprintf("app%d", i)] = n
			all += n
		}
		cfg := steady()
		w := newRoomless(cfg, apps)
		turn := time.Duration(all)*cfg.RequestQueue/time.Duration(cfg.QueueBatchSize) + 2*time.Second
		w.pass(12*time.Second + turn)
		for range rapid.IntRange(1, 60).Draw(t, "periods") {
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0:
				w.lose(func() bool { return true })
			case 1:
				i, each := 0, rapid.IntRange(2, 5).Draw(t, "each")
				w.lose(func() bool { i++; return i%each == 0 })
			case 2:
				w.silent = !w.silent
			case 3:
				w.deaf = !w.deaf
			}
			w.passReports()
			for app, n := range apps {
				for index := range n {
					if since := w.now.Sub(w.without[key(app, index)]); since > cfg.NudgeKeepAlive+turn {
						t.Fatalf("%s has no nudge and no report for %v", key(app, index), since)
					}
				}
			}
		}
	})
}

// A start that its scheduler reports is repeated after ten keep-alives only, for any number of instances.
func TestWaitingStartsAreNotRepeated(t *testing.T) {
	w := newRoomless(steady(), map[string]int{"big": 2000})
	for range 12 {
		w.passReports()
	}
	if w.nudges != 2000 {
		t.Errorf("%d starts in the first two minutes, want each once", w.nudges)
	}
	before := w.nudges
	for range 18 {
		w.passReports()
	}
	if got := w.nudges - before; got != 0 {
		t.Errorf("%d starts in the next three minutes, want none", got)
	}
	for range 30 {
		w.passReports()
	}
	if got := w.nudges - before; got != 2000 {
		t.Errorf("%d starts in eight minutes, want each once", got)
	}
}
