package resolve

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// known returns a state with that wanted weight and these last targets.
func known(wanted float64, asked map[string]int) api.PoolState {
	s := api.PoolState{Wanted: &wanted, Groups: map[string]api.GroupState{}}
	for group, target := range asked {
		s.Groups[group] = api.GroupState{LastTarget: &target}
	}
	return s
}

func doubtful(s api.PoolState, group string) api.PoolState {
	of := s.Groups[group]
	of.ResultUnknown, of.UnknownSince = true, time.Time{}
	s.Groups[group] = of
	return s
}

func surging(s api.PoolState, group string, surge int) api.PoolState {
	of := s.Groups[group]
	of.Surge = surge
	s.Groups[group] = of
	return s
}

func leavers(weights ...float64) []api.Leaver {
	var out []api.Leaver
	for i, weight := range weights {
		out = append(out, api.Leaver{ID: fmt.Sprint("n", i), Group: "a", Weight: weight})
	}
	return out
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name            string
		state           api.PoolState
		groups          []Group
		correct         bool
		wanted          float64
		found           Found
		pendingIncrease float64
		surplus         float64
	}{
		{name: "the first reading", state: api.PoolState{}, groups: []Group{{ID: "a", Target: 3}, {ID: "b", Target: 2}}, wanted: 5},
		{name: "nothing has changed", state: known(5, map[string]int{"a": 5}), groups: []Group{{ID: "a", Target: 5}}, wanted: 5},
		{name: "lowered by another, obeyed", state: known(5, map[string]int{"a": 5}), groups: []Group{{ID: "a", Target: 3}},
			wanted: 3, found: Found{Drift: []api.Drift{{Group: "a", LastTarget: 5, Found: 3}}}},
		{name: "raised by another, obeyed", state: known(5, map[string]int{"a": 5}), groups: []Group{{ID: "a", Target: 9}},
			wanted: 9, found: Found{Drift: []api.Drift{{Group: "a", LastTarget: 5, Found: 9}}}},
		{name: "lowered by another, corrected", state: known(5, map[string]int{"a": 5}), groups: []Group{{ID: "a", Target: 3}}, correct: true,
			wanted: 5, found: Found{Drift: []api.Drift{{Group: "a", LastTarget: 5, Found: 3}}}, pendingIncrease: 2},
		{name: "raised by another, corrected", state: known(5, map[string]int{"a": 5}), groups: []Group{{ID: "a", Target: 9}}, correct: true,
			wanted: 5, found: Found{Drift: []api.Drift{{Group: "a", LastTarget: 5, Found: 9}}}, surplus: 4},
		{name: "lowered below what leaves", state: known(3, map[string]int{"a": 5}), groups: []Group{{ID: "a", Target: 1, Leaving: leavers(1, 1)}},
			wanted: 0, found: Found{Drift: []api.Drift{{Group: "a", LastTarget: 5, Found: 1}}}},
		{name: "a new group", state: known(5, map[string]int{"a": 5}), groups: []Group{{ID: "a", Target: 5}, {ID: "b", Target: 2}}, wanted: 7},
		{name: "a group is gone", state: known(5, map[string]int{"a": 3, "b": 2}), groups: []Group{{ID: "a", Target: 3}}, wanted: 5, found: Found{Gone: []string{"b"}}, pendingIncrease: 2},
		{name: "an unknown group", state: known(5, map[string]int{"a": 3, "b": 2}), groups: []Group{{ID: "a", Target: 3}, {ID: "b", Target: 2, Unknown: true}}, wanted: 5},
		{name: "a group is stale", state: known(5, map[string]int{"a": 3, "b": 2}), groups: []Group{{ID: "a", Target: 3}, {ID: "b", Target: 2, Stale: true}},
			wanted: 5, pendingIncrease: 2},
		{name: "a new group that is stale", state: known(5, map[string]int{"a": 5}), groups: []Group{{ID: "a", Target: 5}, {ID: "b", Target: 2, Stale: true}}, wanted: 5},
		{name: "a request was not given", state: doubtful(known(7, map[string]int{"a": 7}), "a"), groups: []Group{{ID: "a", Target: 5}}, wanted: 7, pendingIncrease: 2},
		{name: "a request was given", state: doubtful(known(7, map[string]int{"a": 7}), "a"), groups: []Group{{ID: "a", Target: 7}}, wanted: 7},
		{name: "more than was requested", state: doubtful(known(7, map[string]int{"a": 7}), "a"), groups: []Group{{ID: "a", Target: 8}},
			wanted: 8, found: Found{Unknown: 1}},
		{name: "what one group was refused another was given", state: doubtful(doubtful(known(7, map[string]int{"a": 4, "b": 3}), "a"), "b"),
			groups: []Group{{ID: "a", Target: 2}, {ID: "b", Target: 5}}, wanted: 7},
		{name: "a termination without an answer", state: doubtful(known(4, map[string]int{"a": 5}), "a"), groups: []Group{{ID: "a", Target: 4}}, wanted: 4},
		{name: "a surge is part of the target", state: surging(known(5, map[string]int{"a": 7}), "a", 2), groups: []Group{{ID: "a", Target: 7}}, wanted: 5},
		{name: "a replaced node stays after all", state: known(4, map[string]int{"a": 5}), groups: []Group{{ID: "a", Target: 5}}, wanted: 4, surplus: 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, found := Reconcile(test.state, noon, test.groups, !test.correct)
			a := AccountOf(got, test.groups)
			if *got.Wanted != test.wanted || a.PendingIncrease() != test.pendingIncrease || a.Surplus() != test.surplus {
				t.Errorf("wanted %v, owed %v, surplus %v: want %v, %v, %v", *got.Wanted, a.PendingIncrease(), a.Surplus(), test.wanted, test.pendingIncrease, test.surplus)
			}
			if diff := cmp.Diff(test.found, found); diff != "" {
				t.Errorf("found, -want +got:\n%s", diff)
			}
			again, nothing := Reconcile(got, noon, test.groups, !test.correct)
			if diff := cmp.Diff(got, again); diff != "" || len(nothing.Drift) > 0 || nothing.Unknown != 0 {
				t.Errorf("the same reading changes it again, found %+v:\n%s", nothing, diff)
			}
		})
	}
}

// A group appears with the target of before: a human had lowered it while it was not listed. The next reading takes back
// what the group added, and no more. After ReadLag a lower target is an order.
func TestReconcileAppearance(t *testing.T) {
	t.Parallel()
	group := func(target int) []Group {
		return []Group{{ID: "a", Target: target, Leaving: leavers(4)}, {ID: "b", Target: 20}}
	}
	appeared, _ := Reconcile(known(20, map[string]int{"b": 20}), noon, group(8), true)
	if *appeared.Wanted != 24 {
		t.Fatalf("wanted %v after the appearance, want 24", *appeared.Wanted)
	}
	returned := []Group{{ID: "a", Target: 2}, {ID: "b", Target: 20}} // the drain of a node has ended: the share was 8
	for _, test := range []struct {
		after  time.Duration
		wanted float64
	}{{time.Minute, 20}, {ReadLag, 18}} {
		got, found := Reconcile(appeared, noon.Add(test.after), returned, true)
		if *got.Wanted != test.wanted || len(found.Drift) != 1 {
			t.Errorf("%v after the appearance: wanted %v, found %+v, want %v and one drift", test.after, *got.Wanted, found, test.wanted)
		}
		if again, _ := Reconcile(got, noon.Add(test.after), returned, true); *again.Wanted != test.wanted {
			t.Errorf("the same reading changes wanted to %v", *again.Wanted)
		}
	}
	if *appeared.Wanted != 24 || appeared.Groups["a"].Appeared.Share != 4 {
		t.Errorf("Reconcile changed its receiver: %+v", appeared.Groups["a"])
	}
}

// The response of a termination was lost, and the provider shows the lower target late: no other
// party set it. After ReadLag another party did.
func TestReconcileLateReading(t *testing.T) {
	t.Parallel()
	before, lowered := []Group{{ID: "a", Target: 5, Leaving: leavers(1)}}, []Group{{ID: "a", Target: 4}}
	late, found := Reconcile(doubtful(known(4, map[string]int{"a": 5}), "a"), noon, before, true)
	if *late.Wanted != 4 || !late.Groups["a"].ResultUnknown || found.Unknown != 0 {
		t.Fatalf("wanted %v, group %+v, found %+v after the late reading", *late.Wanted, late.Groups["a"], found)
	}
	for _, test := range []struct {
		name   string
		after  time.Duration
		groups []Group
		wanted float64
		drift  int
	}{
		{"within ReadLag", ReadLag - time.Second, lowered, 4, 0},
		{"after ReadLag", ReadLag, lowered, 4, 0},
		{"raised within ReadLag", time.Second, []Group{{ID: "a", Target: 6, Leaving: leavers(1)}}, 5, 1},
	} {
		got, found := Reconcile(late, noon.Add(test.after), test.groups, true)
		if *got.Wanted != test.wanted || len(found.Drift) != test.drift {
			t.Errorf("%s: wanted %v, found %+v: want %v, %d drifts", test.name, *got.Wanted, found, test.wanted, test.drift)
		}
	}
	// A raise to 6 was lost before the termination. The provider shows each result late.
	both, _ := Reconcile(doubtful(known(5, map[string]int{"a": 6}), "a"), noon, before, true)
	if got, found := Reconcile(both, noon.Add(time.Minute), lowered, true); *got.Wanted != 5 || len(found.Drift) != 0 {
		t.Errorf("wanted %v, found %+v after two unknown results: want 5, no drift", *got.Wanted, found)
	}
	// A reading after ReadLag that still shows the old target ends the exemption.
	ended, _ := Reconcile(late, noon.Add(ReadLag), before, true)
	if got, found := Reconcile(ended, noon.Add(ReadLag), lowered, true); *got.Wanted != 3 || len(found.Drift) != 1 {
		t.Errorf("wanted %v, found %+v after the end of ReadLag: want 3, a drift", *got.Wanted, found)
	}
}

// A provider may show a raise late whose response was lost. Until it shows the requested target, or
// ReadLag has passed, no raise is below that target.
func TestReconcileUnansweredRaise(t *testing.T) {
	t.Parallel()
	reading := func(target int) []Group { return []Group{{ID: "a", Target: target}} }
	late, _ := Reconcile(doubtful(known(2, map[string]int{"a": 3}), "a"), noon, reading(1), true)
	if got := late.Groups["a"].Unanswered; got == nil || got.Target != 3 || !got.Since.Equal(noon) {
		t.Fatalf("unanswered %+v after the late reading: want target 3 since noon", got)
	}
	for _, test := range []struct {
		name   string
		after  time.Duration
		target int
		want   int
	}{
		{"still late", ReadLag - time.Second, 1, 3},
		{"a part", time.Second, 2, 3},
		{"in effect", time.Second, 3, 0},
		{"raised by another party", time.Second, 4, 0},
		{"after ReadLag", ReadLag, 1, 0},
	} {
		got, _ := Reconcile(late, noon.Add(test.after), reading(test.target), true)
		if got := unansweredTarget(got.Groups["a"].Unanswered); got != test.want {
			t.Errorf("%s: unanswered target %d, want %d", test.name, got, test.want)
		}
	}
	// A second unanswered request keeps the larger target.
	second, _ := Reconcile(doubtful(late, "a"), noon.Add(time.Minute), reading(1), true)
	if got := second.Groups["a"].Unanswered; got == nil || got.Target != 3 {
		t.Errorf("unanswered %+v after a second request: want target 3", got)
	}
}

// What terminations have lowered since the request is no part of an unanswered target. Without a request it hides no raise.
func TestReconcileUnansweredRaiseAndTerminations(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		last, read, least int
		ended             float64
		want              int
	}{
		{last: 5, read: 3, ended: 2}, {last: 5, read: 3, ended: 1, want: 4}, {last: 5, read: 3, ended: 1.5, want: 4}, {last: 5, read: 3, ended: 3},
		{last: 5, read: 3, least: 5, ended: 2, want: 5}, {last: 5, read: 6, ended: 2},
	} {
		got, _ := Reconcile(doubtful(known(5, map[string]int{"a": test.last}), "a"), noon, []Group{{ID: "a", Target: test.read, Min: test.least, Ended: test.ended}}, true)
		if got := unansweredTarget(got.Groups["a"].Unanswered); got != test.want {
			t.Errorf("%+v: unanswered target %d", test, got)
		}
	}
}

// The parts of a target sum up to it, in whole numbers, whatever leaves.
func TestTargetIsTheSumOfItsEntries(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := surging(known(rapid.Float64Range(-5, 50).Draw(t, "wanted"), nil), "a", rapid.IntRange(0, 9).Draw(t, "surge"))
		s.Offset = rapid.Float64Range(-5, 5).Draw(t, "offset")
		g := Group{ID: "a", Target: rapid.IntRange(0, 30).Draw(t, "target"), Min: rapid.IntRange(-1, 9).Draw(t, "min")}
		g.Leaving = leavers(rapid.SliceOfN(rapid.SampledFrom([]float64{0.5, 1, 2, 2.5, 0}), 0, 20).Draw(t, "leaving")...)
		a := AccountOf(s, []Group{g})
		sum := 0.0
		for _, e := range a.Entries() {
			if e.Group == "a" {
				sum += e.Weight
			}
			if e.Group == "a" && (e.Weight < 0 || e.Weight != math.Trunc(e.Weight)) {
				t.Fatalf("entry %+v: want a whole number of at least 0", e)
			}
		}
		if sum != float64(g.Target) {
			t.Fatalf("the entries sum up to %v, the target is %d: %v", sum, g.Target, a.Entries())
		}
		if left := a.Wanted + a.Offset - float64(a.Shares()) - a.PendingIncrease() + a.Surplus(); math.Abs(left) > resource.Slack || a.PendingIncrease()*a.Surplus() != 0 {
			t.Fatalf("the account misses %v: %+v", left, a)
		}
		if share := a.Groups[0].Share(); g.Target >= max(0, g.Min) && share+a.Groups[0].Surge < max(0, g.Min) {
			t.Fatalf("share %d and surge %d of a group with the minimum %d", share, a.Groups[0].Surge, g.Min)
		}
	})
}

// The pool's target moves towards the wanted weight as far as the groups hold it.
func TestConclude(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		before float64
		want   int
		shares int
		after  float64
	}{
		{"raised, given", 4, 7, 7, 7},
		{"raised, given in part", 4, 7, 5, 5},
		{"raised, and less is there than before: that is owed, the new need is not", 4, 7, 2, 4},
		{"kept, and less is there", 4, 4, 2, 4},
		{"kept, and more is there", 4, 4, 6, 4},
		{"lowered, and all of it goes", 7, 4, 4, 4},
		{"lowered, and not all may go", 7, 4, 6, 6},
		{"lowered, and more has gone", 7, 4, 3, 4},
		{"lowered, with a surplus", 7, 4, 8, 7},
		{"lowered, and the need is met by what is there", 7, 4, 5, 5},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := api.Case{Input: api.DecisionInput{Capacity: api.PoolCapacity{Target: test.before}}}
			o := Outcome{Distribution: api.Distribution{Want: test.want, Shares: []api.GroupShare{{Group: "a"}}}}
			if got := *Conclude(c, o, Done{Shares: test.shares}).Wanted; got != test.after {
				t.Errorf("wanted %v, want %v", got, test.after)
			}
		})
	}
}

// The state before a request is the larger of before and after, in each part that the targets may
// already hold.
func TestLarger(t *testing.T) {
	t.Parallel()
	small, large := surging(known(4, map[string]int{"a": 6}), "a", 2), surging(known(6, map[string]int{"a": 6}), "a", 1)
	large.Offset = 1
	for _, got := range []api.PoolState{LargerState(small, large), LargerState(large, small)} {
		if *got.Wanted != 6 || got.Offset != 1 || got.Groups["a"].Surge != 2 {
			t.Errorf("wanted %v, offset %v, surge %d: want 6, 1, 2", *got.Wanted, got.Offset, got.Groups["a"].Surge)
		}
	}
	if small.Groups["a"].Surge != 2 || large.Groups["a"].Surge != 1 {
		t.Error("an argument was changed")
	}
}

func TestStateValidate(t *testing.T) {
	t.Parallel()
	huge, negative := math.MaxInt, -1
	bad := []api.PoolState{
		known(math.NaN(), nil), known(-math.MaxFloat64, nil), {DecisionState: api.DecisionState{Offset: math.Inf(1)}},
		{Groups: map[string]api.GroupState{"a": {LastTarget: &huge}}}, {Groups: map[string]api.GroupState{"a": {LastTarget: &negative}}},
		{Groups: map[string]api.GroupState{"a": {Surge: -1}}},
	}
	for _, s := range append(slices.Clone(bad), api.PoolState{}, known(4, map[string]int{"a": 4})) {
		isBad := slices.ContainsFunc(bad, func(b api.PoolState) bool { return fmt.Sprint(b) == fmt.Sprint(s) })
		if err := ValidateState(s); (err != nil) != isBad {
			t.Errorf("Validate(%+v) = %v", s, err)
		}
	}
}
