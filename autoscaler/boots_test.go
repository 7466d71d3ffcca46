package autoscaler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

// Machines of a broken image never join. The pool does not order them again and again: its growth stops, also for the next process,
// and a problem says so. Once an image works, one machine shows that, and the pool gets what it needs.
func TestBrokenImageStopsGrowth(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "autoscaler") {
		return
	}
	w, _, web := steady(t, 4)
	w.config.OrphansAfter, w.config.FailedBoots = 10*time.Minute, 3
	w.config.Policy.Limits.MaxAdd, w.config.Policy.Period = 2, time.Minute
	w.reconfigure()
	broken := map[string]bool{}
	for i := range 500 {
		broken[fmt.Sprintf("a-%d", i+5)] = true
	}
	w.nodes.change(func(n *nodes) { n.mute = broken })
	web.set(cpus(8*cpusPerNode), nil)
	launched, most, named := map[string]bool{}, 0, 0
	for i := range 300 {
		if i == 100 {
			w.loop = nil // another process
		}
		r := w.tick()
		for _, n := range r.Case.Nodes {
			launched[n.ID] = true
		}
		most = max(most, len(r.Case.Nodes))
		if strings.HasPrefix(r.Case.Stuck["a"], "group a does not grow, except by one machine at a time as a trial, until one joins: ") {
			named++
		}
		if r.Snapshot.Joined != 4 {
			t.Fatalf("%v machines joined, want 4", r.Snapshot.Joined)
		}
	}
	// 4 that serve, 4 that the need orders, and a trial after each backoff of 5 minutes, 10 minutes and so on.
	if len(launched) > 4+4+10 || most > 8 || named < 280 {
		t.Errorf("%d machines were launched, at most %d existed at a time, %d ticks named it", len(launched), most, named)
	}
	w.nodes.change(func(n *nodes) { n.mute = nil })
	for range 150 {
		w.tick()
	}
	w.wantTarget(8)
	b := w.tick().State.Groups["a"].Boots
	if p50, ok := b.Quantile("", 0.5); !ok || b.Failed != 0 || p50 <= 0 || p50 > 3*time.Minute {
		t.Errorf("boots %+v, p50 %v", b, p50)
	}
}

// A roll to a broken image takes no working machine away, except one in a group at its maximum, where the old machine goes first.
func TestRollToABrokenImageHalts(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "autoscaler") {
		return
	}
	for _, c := range []struct {
		name string
		full bool
		lost float64
		most int // machines that are launched
	}{{"with room", false, 0, 1}, {"at the maximum", true, 1, 14}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, _, _ := steady(t, 4)
			w.config.OrphansAfter, w.config.FailedBoots = 10*time.Minute, 3
			w.config.Policy.Period, w.config.Rotation.Gate.Within = time.Minute, 8*time.Minute
			w.reconfigure()
			if c.full {
				w.groups[0].tamper = atMost(4)
			}
			broken := map[string]bool{}
			for i := range 500 {
				broken[fmt.Sprintf("a-%d", i+5)] = true
			}
			w.nodes.change(func(n *nodes) { n.mute = broken })
			w.mark("a")
			launched, halted := map[string]bool{}, 0
			for range 600 {
				r := w.tick()
				for _, n := range r.Case.Nodes {
					launched[n.ID] = true
				}
				if slices.ContainsFunc(r.Case.Rotation.Alarms(), func(line string) bool {
					return strings.Contains(line, "a-5 failed its health gate: its node has not joined within 8m0s")
				}) {
					halted++
				}
				if r.Snapshot.Joined < 4-c.lost {
					t.Fatalf("%v machines joined, want at least %v", r.Snapshot.Joined, 4-c.lost)
				}
			}
			if len(launched) > 4+c.most || halted < 550 {
				t.Errorf("%d machines were launched, %d ticks named the halt", len(launched), halted)
			}
		})
	}
}

// Boot times are known after a takeover.
func TestBootTimesOutlastATakeover(t *testing.T) {
	t.Parallel()
	w, _, web := steady(t, 2)
	web.set(cpus(5*cpusPerNode), nil)
	for range 8 {
		w.tick()
	}
	before := w.tick().State.Groups["a"].Boots
	w.loop = nil
	if after := w.tick().State.Groups["a"].Boots; len(before.Times) != 1 || fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("boots %+v after a takeover, %+v before", after, before)
	}
	if w.tick().Case.State.Groups["a"].Boots.Stuck(3) {
		t.Error("the group is stuck")
	}
}
