package api_test

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

// An ordered target is whole: a need that has another fraction than the target before changes nothing.
func TestOrderedIsWhatTheGroupsHave(t *testing.T) {
	for name, test := range map[string]struct {
		s             api.Summary
		before, after float64
		acted         bool
	}{
		"a fraction is no change":    {api.Summary{Before: new(4.0), Target: new(3.38), Groups: []api.GroupSummary{{ID: "a", Target: 2}, {ID: "b", Target: 2}}}, 4, 4, false},
		"one machine more":           {api.Summary{Before: new(4.0), Target: new(4.38), Groups: []api.GroupSummary{{ID: "a", Before: 2, Target: 3}, {ID: "b", Target: 2}}}, 4, 5, true},
		"groups at their bound":      {api.Summary{Before: new(9.0), Target: new(9.12), Groups: []api.GroupSummary{{ID: "a", Target: 6}}}, 6, 6, false},
		"a group raised from zero":   {api.Summary{Before: new(2.0), Target: new(3.0), Groups: []api.GroupSummary{{ID: "a", FromZero: true, Target: 1}, {ID: "b", Target: 2}}}, 2, 3, true},
		"a summary without groups":   {api.Summary{Before: new(4.0), Target: new(3.38)}, 4, 4, false},
		"more groups than it lists":  {api.Summary{Before: new(90.0), Target: new(90.2), Omitted: 2, Groups: []api.GroupSummary{{ID: "a", Target: 2}}}, 90, 91, true},
		"a tick without a decision ": {api.Summary{}, 0, 0, false},
	} {
		before, after, ok := test.s.Ordered()
		if before != test.before || after != test.after || ok != (test.s.Target != nil) || test.s.Acted() != test.acted {
			t.Errorf("%s: Ordered() = %v, %v, %v, acted %v; want %v, %v, acted %v", name, before, after, ok, test.s.Acted(), test.before, test.after, test.acted)
		}
	}
}
