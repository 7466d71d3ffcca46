package web

import (
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// A bar begins when its machine began, also if its first event is a repair. So does the weight of the other machines.
func TestBarsBeginWhenTheMachineBegan(t *testing.T) {
	start := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	ring := series.NewRing(100)
	for i := range 60 {
		s := api.Summary{At: start.Add(time.Duration(i) * time.Minute), Every: time.Minute, Before: new(2.0), Target: new(2.0), Joined: 2, Groups: []api.GroupSummary{{ID: "a", Target: 2, Exists: 1}}}
		if i >= 20 {
			s.Groups[0].Exists = 2 // i-2 began
		}
		if i >= 40 {
			s.Nodes = []api.UnsteadyNode{{ID: "i-2", Group: "a", State: api.UnsteadyRepair, Launched: start.Add(20 * time.Minute)}}
		}
		ring.Add(series.Reduce(s, condition.Facts{}))
	}
	d := drawer{ring: ring, w: series.Window{From: start, To: start.Add(time.Hour), Columns: 60}, at: ring.Last()}
	n := d.node("i-2", ring.Spans(series.NodeRepair, start, ring.Last()))
	if len(n.Parts) == 0 || n.Parts[0].From != 20 {
		t.Errorf("the bar is %+v, want it from column 20", n.Parts)
	}
}
