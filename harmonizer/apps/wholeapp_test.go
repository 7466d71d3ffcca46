package apps

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

// TestConfirmOfTooManyCopies scales an app down while a stop of two of its copies waits. The
// stop would now stop the whole app. So it is not confirmed, and becomes stops of one copy
// each.
func TestConfirmOfTooManyCopies(t *testing.T) {
	s := newScenario()
	s.cfg.StopsWholeApps = true
	s.run(t, `bus up
app web 3 v1
complete
node n1 web/0=i0 web/1=i1 web/2=i2
pass 11s
`)
	row := s.rows["web"]
	beats := append(s.nodes["n1"].beats, api.Beat{App: "web", Index: 3, Instance: "i3", Version: "v1", State: api.CopyRunning},
		api.Beat{App: "web", Index: 4, Instance: "i4", Version: "v1", State: api.CopyRunning})
	nudges, _ := s.m.Step(s.now, beat("n1", beats...))
	if len(nudges) != 1 || nudges[0].Stop == nil || len(nudges[0].Stop.Instances) != 2 {
		t.Fatalf("nudges %+v, want one stop of two copies", nudges)
	}
	if row.Instances = 2; !s.m.Confirm(s.now, nudges[0]) {
		t.Fatal("a stop of 2 copies of an app of 3 is not confirmed")
	}
	again, _ := s.m.Step(s.now, ExpectedRows{[]api.App{row}}) // i2
	if s.m.Confirm(s.now, nudges[0]) {
		t.Fatal("a stop of 2 copies of an app of 2 is confirmed")
	}
	rest, _ := s.m.Step(s.now, NotSent{Nudges: nudges, Confirmed: true}) // i3 and i4
	if again = append(again, rest...); len(again) != 3 {
		t.Fatalf("nudges %+v, want three stops", again)
	}
	for _, n := range again {
		if n.Stop == nil || len(n.Stop.Instances) != 1 || !s.m.Confirm(s.now, n) {
			t.Errorf("nudge %+v, want a stop of one copy that is confirmed", n)
		}
	}
}
