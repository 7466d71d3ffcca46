package view

import (
	"slices"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// The status names why copies wait, and why it is not known where they fit.
func TestWarnOfPlaces(t *testing.T) {
	limit := []api.Step{{Rule: api.RulePlaces, Before: 4, After: 22}, {Rule: api.RuleLimits, Before: 22, After: 20}}
	for _, tt := range []struct {
		name  string
		c     api.Case
		steps []api.Step
		want  []string
	}{
		{name: "nothing waits", c: api.Case{Places: &api.CasePlaces{}}},
		{name: "no scheduler with this part", c: api.Case{NoPlaces: "the scheduler does not answer"}, want: []string{"the scheduler does not answer"}},
		{name: "no machine", c: api.Case{Places: &api.CasePlaces{Places: api.Places{Never: []api.PlacesApp{
			{App: "typo", Copies: 1, Why: "it needs 50 cpus, the largest machine (group a) has 1 cpus"},
		}}}}, want: []string{`no machine of the pool can hold a copy of typo: it needs 50 cpus, the largest machine (group a) has 1 cpus; ` + remedy}},
		{name: "pinned above max_capacity", steps: limit, c: api.Case{Input: api.DecisionInput{Pinned: new(500.0)}}, want: []string{"an operator pinned 500, but scaling_limits.max_capacity is 20: the pool has at most 20"}},
		{name: "max_capacity", steps: limit,
			want: []string{"copies without a place need a target of 22, but scaling_limits.max_capacity is 20: raise it, or expect instances without room"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s api.PoolStatus
			tt.c.Input.Policy.Limits.Max = 20
			warnOfDecision(&s, time.Now(), tt.c, api.CaseResult{Steps: tt.steps}, api.TickDetail{})
			if !slices.Equal(s.Warnings, tt.want) {
				t.Errorf("warnings %q, want %q", s.Warnings, tt.want)
			}
		})
	}
}

// Without an answer of the placer, the status names the copies for which no group could add a machine.
func TestWarnOfShort(t *testing.T) {
	s := api.PoolStatus{LastTick: &api.TickRecord{Case: &api.Case{Places: &api.CasePlaces{Places: api.Places{Short: []api.PlacesApp{
		{App: "web", Copies: 3, Why: "group a is at its maximum"}, {App: "mail", Copies: 1, Why: "group a is at its maximum"},
	}}}}}}
	warnOfShort(&s)
	if want := []string{"3 copies of web wait: group a is at its maximum", "1 copy of mail waits: group a is at its maximum"}; !slices.Equal(s.Warnings, want) {
		t.Errorf("warnings %q, want %q", s.Warnings, want)
	}
}
