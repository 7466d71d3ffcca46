package decide_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
)

func TestChanged(t *testing.T) {
	at := func(ago time.Duration) time.Time { return noon.Add(-ago) }
	before := api.DecisionState{
		Clock: noon, Raised: at(time.Hour), Lowered: at(2 * time.Hour),
		Changes: []api.TargetChange{{At: at(10 * time.Minute), Up: 1}, {At: at(9 * time.Minute), Down: 2, Tasks: 3}},
	}
	kept := api.TargetChange{At: at(9 * time.Minute), Down: 2, Tasks: 3}
	tests := []struct {
		name            string
		change          api.TargetChange
		raised, lowered time.Time
		want            []api.TargetChange
	}{
		{"nothing", api.TargetChange{}, before.Raised, before.Lowered, []api.TargetChange{kept}},
		{"up", api.TargetChange{Up: 4}, noon, before.Lowered, []api.TargetChange{kept, {At: noon, Up: 4}}},
		{"down", api.TargetChange{Down: 4, Tasks: 2}, before.Raised, noon, []api.TargetChange{kept, {At: noon, Down: 4, Tasks: 2}}},
		{"both", api.TargetChange{Up: 1, Down: 1}, noon, noon, []api.TargetChange{kept, {At: noon, Up: 1, Down: 1}}},
		{"its time does not count", api.TargetChange{At: at(time.Hour), Up: 4}, noon, before.Lowered, []api.TargetChange{kept, {At: noon, Up: 4}}},
		{"no numbers", api.TargetChange{Up: math.NaN(), Down: -4, Tasks: -1}, before.Raised, before.Lowered, []api.TargetChange{kept}},
		{"too large a number", api.TargetChange{Up: math.Inf(1)}, noon, before.Lowered, []api.TargetChange{kept, {At: noon, Up: math.MaxFloat64}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			given := encode(t, before)
			got := decide.AfterChange(before, test.change, 10*time.Minute)
			want := before
			want.Raised, want.Lowered, want.Changes = test.raised, test.lowered, test.want
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			if encode(t, before) != given {
				t.Errorf("the old state became %+v", before)
			}
		})
	}
}

func TestSpent(t *testing.T) {
	s := api.DecisionState{Clock: noon, Changes: []api.TargetChange{
		{At: noon.Add(-time.Hour), Down: 100, Tasks: 100},
		{At: noon.Add(-10 * time.Minute), Down: 10, Tasks: 10},
		{At: noon.Add(-9 * time.Minute), Up: 5, Down: 2, Tasks: 3},
		{At: noon, Down: 1, Tasks: 1},
	}}
	for period, want := range map[time.Duration][2]float64{0: {0, 0}, 10 * time.Minute: {3, 4}, 24 * time.Hour: {113, 114}} {
		if weight, tasks := decide.Spent(s, api.DecisionPolicy{Period: period}); weight != want[0] || float64(tasks) != want[1] {
			t.Errorf("within %v %v and %d tasks are spent, want %v", period, weight, tasks, want)
		}
	}
}

// A pool that changes every twenty seconds stores a day of changes in a thousand entries. It drops
// no weight within the windows, and delays none for long.
func TestChangesAreBounded(t *testing.T) {
	const day, every = 24 * time.Hour, 20 * time.Second
	s := api.DecisionState{Clock: noon}
	for range 2 * day / every {
		s.Clock = s.Clock.Add(every)
		s = decide.AfterChange(s, api.TargetChange{Up: 1, Down: 2, Tasks: 3}, day)
		if len(s.Changes) > 1000 {
			t.Fatalf("remembers %d changes", len(s.Changes))
		}
	}
	if !slices.IsSortedFunc(s.Changes, func(a, b api.TargetChange) int { return a.At.Compare(b.At) }) {
		t.Fatal("the changes are out of order")
	}
	for window, late := range map[time.Duration]time.Duration{time.Minute: 0, 2 * time.Hour: 0, 12 * time.Hour: day / 500, day: day / 500} {
		least, most := math.Ceil(float64(window-window/1000)/float64(every)), math.Ceil(float64(window+late)/float64(every))
		weight, tasks := decide.Spent(s, api.DecisionPolicy{Period: window})
		if n := weight / 2; n < least || n > most || float64(tasks) != 3*n {
			t.Errorf("within %v %v changes count, want %v to %v", window, n, least, most)
		}
	}
}
