package harmonizer

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/resource"
)

// The expected resources are without the copies that no machine can hold, as long as the scheduler lists them.
func TestCopiesThatNothingCanHoldAreLeftOut(t *testing.T) {
	one := web(1).Footprint()
	lists := func(all ...api.PlacesApp) apps.Never {
		return apps.Never{NeverPlaced: api.NeverPlaced{Pool: "default", Apps: all}}
	}
	list := func(copies int, footprint resource.Vector) apps.Never {
		return lists(api.PlacesApp{App: "web", Copies: copies, Footprint: footprint})
	}
	watched(t, settings(), "default", func(t *testing.T, w *world, r *running) {
		r.events <- rows(4)
		for _, tt := range []struct {
			name  string
			event apps.Never
			left  int
		}{
			{"no list", apps.Never{}, 0},
			{"some copies", list(3, one), 3},
			{"more than there are", list(9, one), 4},
			{"of an earlier row", list(3, one.Scale(2)), 0},
			{"of another pool", apps.Never{NeverPlaced: api.NeverPlaced{Pool: "other", Apps: list(3, one).Apps}}, 0},
			{"again", list(1, one), 1},
			{"an app without a row", lists(api.PlacesApp{App: "gone", Copies: 1, Footprint: one}), 0},
			{"an empty list", lists(), 0},
		} {
			r.events <- tt.event
			pass(t, 2*time.Second) // a change is published within a second
			c := w.last("default").Apps["web"]
			if rest := float64(4 - tt.left); c.Expected != 4 || c.Never != tt.left || c.CPUs != rest*one[resource.CPUs] || c.Mem != rest*one[resource.Mem] {
				t.Errorf("%s: %+v, want %d of 4 left out", tt.name, c, tt.left)
			}
		}
	})
}

func TestRunningCopiesAreNotLeftOut(t *testing.T) {
	n := api.AppCount{Expected: 4, Running: 3, CPUs: 8}
	if got := leaveOut(n, api.PlacesApp{App: "web", Copies: 4, Footprint: resource.Vector{2}}); got.Never != 1 || got.CPUs != 6 {
		t.Errorf("%+v, want one copy left out", got)
	}
}
