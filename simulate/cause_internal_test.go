package simulate

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Each difference of a tick from its record has its cause, and what comes from outside is named before what follows from it.
func TestCauses(t *testing.T) {
	t.Parallel()
	tick := func() *api.Case {
		return &api.Case{
			Input:  api.DecisionInput{Apps: []api.AppInput{{Name: "web", Opinion: api.Opinion{Verdict: api.VerdictValue}}}},
			Groups: []api.GroupTarget{{ID: "a", Target: 3, Max: 9}, {ID: "b", Target: 2, Max: 9}},
			Has:    map[string]int{"a": 3, "b": 2},
		}
	}
	for _, test := range []struct {
		want   string
		change func(c *api.Case)
	}{
		{"it follows from an earlier tick: the history of changes differs", func(*api.Case) {}},
		{"the response of app web differs", func(c *api.Case) { c.Input.Apps[0].Opinion.Verdict = api.VerdictFailed }},
		{"the response of app web differs", func(c *api.Case) { c.Input.Apps, c.Input.Offset = nil, 2 }},
		{"the response of the default signal differs", func(c *api.Case) { c.Input.Default.Verdict = api.VerdictValue }},
		{"weight by group, with the same sum: machines of another group left: recorded map[a:3 b:2], replayed map[a:2 b:3]", func(c *api.Case) { c.Has = map[string]int{"a": 2, "b": 3} }},
		{"offset: recorded 0, replayed 2", func(c *api.Case) { c.Input.Offset = 2 }},
		{"pinned target: recorded -1, replayed 4", func(c *api.Case) { c.Input.Pinned = new(4.0) }},
		{"machines lost: recorded 0, replayed 1", func(c *api.Case) { c.Input.Lost, c.Input.Capacity.Joined = 1, 4 }},
		{"weight of machines that had joined: recorded 0, replayed 4", func(c *api.Case) { c.Input.Capacity.Joined = 4 }},
		{"cpus of machines that had joined: recorded 0, replayed 8", func(c *api.Case) { c.Input.Capacity.Totals[resource.CPUs] = 8 }},
		{"MB of memory of machines that had joined: recorded 0, replayed 64", func(c *api.Case) { c.Input.Capacity.Totals[resource.Mem] = 64 }},
		{"machines that leave: recorded 0, replayed 1", func(c *api.Case) { c.Leaving = []api.Leaver{{ID: "a-1"}} }},
		{"target before the tick: recorded 0, replayed 5", func(c *api.Case) { c.Input.Capacity.Target = 5 }},
		{"group b is missing in the replay", func(c *api.Case) { c.Groups = c.Groups[:1] }},
		{"group a, target, minimum and maximum: recorded [3 0 9], replayed [4 0 9]", func(c *api.Case) { c.Groups[0].Target = 4 }},
		{"weight of group a: recorded 3, replayed 4", func(c *api.Case) { c.Has["a"] = 4 }},
		{"group b was busy, or only its replay was", func(c *api.Case) { c.Busy = map[string]string{"b": "it is modified"} }},
		{"the pool has a group that the recorded tick does not have", func(c *api.Case) { c.Groups = append(c.Groups, api.GroupTarget{ID: "c"}) }},
		{"what bars a scale-in differs: recorded nothing, replayed a storm", func(c *api.Case) { c.Input.Barred = "a storm" }},
		{"what bars a scale-in differs: recorded nothing, replayed lost state", func(c *api.Case) { c.Input.NoScaleIn = "lost state" }},
		{"what bars a scale-in differs: recorded nothing, replayed not known yet", func(c *api.Case) { c.Refuse = "not known yet" }},
		{"groups in backoff: recorded 0, replayed 1", func(c *api.Case) { c.State.Backoffs = []api.GroupBackoff{{Group: "a"}} }},
		{"the answer of the scheduler differs", func(c *api.Case) { c.Places = &api.CasePlaces{} }},
		{"the history of the empty pool is not in the recording", func(c *api.Case) { c.Input.History.PerWeight = resource.Of(resource.Vector{1}) }},
	} {
		is := tick()
		test.change(is)
		if got := cause(&recordedTick{of: tick()}, &api.TickRecord{Case: is}); got != test.want {
			t.Errorf("the cause is %q, want %q", got, test.want)
		}
	}
	for _, test := range []struct {
		want string
		was  *api.Case
		got  api.TickRecord
	}{
		{"the replay could not decide: no provider", tick(), api.TickRecord{Failed: "no provider"}},
		{"one was paused", tick(), api.TickRecord{Paused: &api.Note{}}},
		{"one was paused", nil, api.TickRecord{Case: tick()}},
	} {
		if got := cause(&recordedTick{of: test.was}, &test.got); got != test.want {
			t.Errorf("the cause is %q, want %q", got, test.want)
		}
	}
}
