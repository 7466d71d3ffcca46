package resolve

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// A refused share goes to the other groups in the same round. A group whose response is lost keeps
// its share. Short groups in backoff are lowered last.
func TestRound(t *testing.T) {
	t.Parallel()
	lost := errors.New("connection reset")
	group := func(id string, target, most int, fulfilled float64) Group {
		return Group{ID: id, Target: target, Max: most, Fulfilled: fulfilled}
	}
	three := []Group{group("a", 1, 10, 1), group("b", 1, 10, 1), group("c", 1, 4, 1)}
	tests := []struct {
		name    string
		groups  []Group
		change  func(c *api.Case, o *Outcome)
		target  float64
		answers map[string]error // of each change: "a 3"
		steps   []string         // the changes of each step
		aside   []string
		surged  map[string]int
	}{
		{"all give", three, nil, 9, nil, []string{"a 3, b 3, c 3"}, nil, nil},
		{"enough is there", three, nil, 3, nil, nil, nil, nil},
		{"one refuses", three, nil, 9, map[string]error{"a 3": pools.ErrRefused}, []string{"a 3, b 3, c 3", "b 4, c 4"}, []string{"a keeps"}, nil},
		{"one after the other refuses", three, nil, 9, map[string]error{"a 3": pools.ErrThrottled, "c 4": pools.ErrRefused},
			[]string{"a 3, b 3, c 3", "b 4, c 4", "b 5"}, []string{"a keeps", "c keeps"}, nil},
		{"all refuse", three, nil, 9, map[string]error{"a 3": pools.ErrRefused, "b 3": pools.ErrRefused, "c 3": pools.ErrRefused},
			[]string{"a 3, b 3, c 3"}, []string{"a keeps", "b keeps", "c keeps"}, nil},
		{"an answer is lost", three, nil, 9, map[string]error{"a 3": lost}, []string{"a 3, b 3, c 3"}, nil, nil},
		{"one is short and has less than its target", []Group{group("a", 3, 10, 1), group("b", 1, 10, 1)}, nil, 8,
			map[string]error{"a 4": pools.ErrShort}, []string{"a 4, b 4", "b 7", "a 1 set aside"}, []string{"a"}, nil},
		{"one that is set aside is throttled", []Group{group("a", 3, 10, 1), group("b", 1, 10, 1)}, nil, 8,
			map[string]error{"a 4": pools.ErrThrottled}, []string{"a 4, b 4", "b 5"}, []string{"a keeps"}, nil},
		{"one was set aside before", []Group{group("a", 3, 10, 1), group("b", 3, 10, 3)}, func(c *api.Case, _ *Outcome) {
			c.State.Backoffs = plan.AddFailure(nil, "a", "no spot", api.BackoffLasting, noon)
		}, 6, nil, []string{"b 5", "a 1 set aside"}, []string{"a"}, nil},
		{"never below the minimum", []Group{{ID: "a", Target: 3, Min: 2, Max: 10, Fulfilled: 1}}, func(c *api.Case, _ *Outcome) {
			c.State.Backoffs = plan.AddFailure(nil, "a", "no spot", api.BackoffLasting, noon)
		}, 3, nil, []string{"a 2 set aside"}, []string{"a"}, nil},
		{"a lowering takes the surge first", []Group{group("a", 5, 10, 2)}, func(c *api.Case, _ *Outcome) {
			c.State.Groups = map[string]api.GroupState{"a": {Surge: 2}}
			c.State.Backoffs = plan.AddFailure(nil, "a", "no spot", api.BackoffLasting, noon)
		}, 3, nil, []string{"a 2 set aside"}, []string{"a"}, map[string]int{"a": -2}},
		{"a surge is ordered once", three[:2], func(_ *api.Case, o *Outcome) { o.Surge = map[string]int{"a": 1} }, 4,
			map[string]error{"b 2": pools.ErrRefused}, []string{"a 3, b 2", "a 4"}, []string{"b keeps"}, map[string]int{"a": 1}},
		{"what leaves is held beside", []Group{{ID: "a", Target: 3, Max: 10, Leaving: []api.Leaver{{ID: "a-1", Group: "a", Weight: 1}}}}, nil, 4, nil, []string{"a 5"}, nil, nil},
		{"an unanswered request may be in effect", []Group{group("a", 1, 10, 1), group("b", 1, 10, 1)}, func(c *api.Case, _ *Outcome) {
			c.State.Groups = map[string]api.GroupState{"a": {Unanswered: &api.UnansweredTarget{Target: 4}}, "b": {Unanswered: &api.UnansweredTarget{Target: 2}}}
		}, 6, nil, []string{"a 4, b 3"}, nil, nil},
		{"no raise, although a request is unanswered", three[:2], func(c *api.Case, _ *Outcome) {
			c.State.Groups = map[string]api.GroupState{"a": {Unanswered: &api.UnansweredTarget{Target: 4}}}
		}, 2, nil, nil, nil, nil},
		{"never above the maximum", []Group{{ID: "a", Target: 3, Max: 4, Leaving: []api.Leaver{{ID: "a-1", Group: "a", Weight: 1}}}}, nil, 4, nil, []string{"a 4"}, nil, nil},
		{"a busy group is left alone", three[:2], func(c *api.Case, _ *Outcome) { c.Busy = map[string]string{"a": "a refresh"} }, 4, nil, []string{"b 3"}, nil, nil},
		{"a stale group is left alone", []Group{{ID: "a", Target: 1, Max: 10, Stale: true}, group("b", 1, 10, 1)}, nil, 4, nil, []string{"b 4"}, nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c, o := api.Case{Has: map[string]int{}}, Outcome{}
			if test.change != nil {
				test.change(&c, &o)
			}
			account := AccountOf(c.State, test.groups)
			for _, g := range account.Groups {
				c.Groups = append(c.Groups, api.GroupTarget{ID: g.ID, Target: g.Share(), Max: g.Max, Stale: g.Stale})
				c.Has[g.ID] = min(g.Share(), Whole(g.Fulfilled))
			}
			o.Decision = decide.Decision{Target: test.target, State: api.DecisionState{Clock: noon}}
			distribution, err := plan.Distribute(boundGroups(c, c.Groups, heldGroups(c, c.State.Backoffs, noon), c.Has), test.target)
			if err != nil {
				t.Fatal(err)
			}
			o.Distribution = distribution
			round := NewRound(c, o, account)
			planned := round.Planned()
			var steps []string
			for changes := round.Next(); len(changes) > 0; changes = round.Next() {
				var step []string
				for _, change := range changes {
					text := fmt.Sprint(change.Group, " ", change.Target)
					if len(steps) == 0 && planned[change.Group] != change.Target {
						t.Errorf("planned %v, want %s", planned, text)
					}
					round.Report(change, test.answers[text])
					if why, _, _ := strings.Cut(change.Why, ":"); why != "" {
						text += " " + why
					}
					step = append(step, text)
				}
				steps = append(steps, strings.Join(step, ", "))
			}
			var aside []string
			for _, q := range round.Backoffs() {
				if !q.Holds(o.Decision.State.Clock) {
					continue // it is tried again at the next tick
				}
				text := q.Group
				if q.KeepsTarget {
					text += " keeps"
				}
				aside = append(aside, text)
			}
			if !slices.Equal(steps, test.steps) || !slices.Equal(aside, test.aside) {
				t.Errorf("steps %q, set aside %q: want %q, %q", steps, aside, test.steps, test.aside)
			}
			if got := round.Surged(); fmt.Sprint(got) != fmt.Sprint(test.surged) || round.Ordered() != max(0, test.surged["a"]) || round.Err() != nil {
				t.Errorf("surged %v, ordered %d, err %v: want %v", got, round.Ordered(), round.Err(), test.surged)
			}
		})
	}
}

// An accepted raise ends the counts of failed calls. Whether the group has the capacity shows later.
func TestAcceptedRaiseEndsCountsOfCalls(t *testing.T) {
	t.Parallel()
	c := api.Case{Has: map[string]int{"a": 1}, Groups: []api.GroupTarget{{ID: "a", Target: 1, Max: 9}}}
	for _, scale := range []api.BackoffScale{api.BackoffLasting, api.BackoffPassing, api.BackoffUnclear} {
		c.State.Backoffs = plan.AddFailure(c.State.Backoffs, "a", "why", scale, noon.Add(-6*time.Minute))
	}
	o := Outcome{Decision: decide.Decision{Target: 3, State: api.DecisionState{Clock: noon}}, Distribution: api.Distribution{Shares: []api.GroupShare{{Group: "a", Before: 1, After: 3}}}}
	round := NewRound(c, o, AccountOf(c.State, []Group{{ID: "a", Target: 1, Max: 9, Fulfilled: 1}}))
	changes := round.Next()
	if len(changes) != 1 {
		t.Fatalf("%+v, want one raise", changes)
	}
	round.Report(changes[0], nil)
	if got := round.Backoffs(); len(got) != 1 || got[0].Scale != api.BackoffLasting {
		t.Errorf("backoffs %+v, want the lasting one", got)
	}
}

// A group of the target 2 holds three nodes. One leaves when the target is 3, and if that raise fails, it stays: its end would lower the
// target to 1. Nodes that no raise must hold leave.
func TestNodesStayIfTheRaiseThatHoldsTheirGroupFails(t *testing.T) {
	t.Parallel()
	choice := func(group, id string) plan.Choice { return plan.Choice{Group: group, ID: id, Weight: 1} }
	choices := []plan.Choice{choice("a", "a-3"), choice("b", "b-3"), choice("a", "a-2")}
	for _, test := range []struct {
		share       int // of a, after the tick
		err         error
		leave, stay string
	}{
		{2, nil, "a-3 b-3 a-2", ""},
		{2, pools.ErrThrottled, "b-3", "a-3 a-2"},
		{2, errors.New("the response was lost"), "b-3", "a-3 a-2"},
		{1, pools.ErrThrottled, "b-3", "a-3 a-2"}, // a group in backoff keeps its share
		{0, pools.ErrThrottled, "a-3 b-3 a-2", ""},
	} {
		shares := []api.GroupShare{{Group: "a", Before: 2, After: test.share}, {Group: "b", Before: 3, After: 2}}
		groups := []Group{{ID: "a", Target: 2, Max: 9, Fulfilled: 4}, {ID: "b", Target: 3, Max: 9, Fulfilled: 3}}
		c := api.Case{Has: map[string]int{"a": 2, "b": 3}, Groups: []api.GroupTarget{{ID: "a", Target: 2, Max: 9}, {ID: "b", Target: 3, Max: 9}}}
		o := Outcome{Decision: decide.Decision{Target: float64(test.share + 2), State: api.DecisionState{Clock: noon}}, Distribution: api.Distribution{Shares: shares}}
		o.Pruned.Choices = choices
		round := NewRound(c, o, AccountOf(c.State, groups))
		for changes := round.Next(); len(changes) > 0; changes = round.Next() {
			for _, change := range changes {
				round.Report(change, test.err)
			}
		}
		nodes := func(choices []plan.Choice) string {
			var ids []string
			for _, c := range choices {
				ids = append(ids, c.ID)
			}
			return strings.Join(ids, " ")
		}
		if leave, stay := round.Released(choices); nodes(leave) != test.leave || nodes(stay) != test.stay {
			t.Errorf("a keeps %d, its raise: %v: %q leave and %q stay, want %q and %q", test.share, test.err, nodes(leave), nodes(stay), test.leave, test.stay)
		}
	}
}
