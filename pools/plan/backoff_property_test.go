package plan_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// counted is the count of one group and scale in the model.
type counted struct {
	failures int
	until    time.Time
}

// backoffModel is what AddFailure and ClearBackoff promise: each group and scale has a count of its own, which ends after a success, and
// when the longest backoff of its scale has passed since the group could be tried again.
type backoffModel map[string]map[api.BackoffScale]counted

func (m backoffModel) fail(group string, s api.BackoffScale, now time.Time) {
	first, free, longest := 5*time.Minute, 0, time.Hour
	switch s {
	case api.BackoffPassing:
		first, longest = 10*time.Second, 2*time.Minute
	case api.BackoffUnclear:
		first, free, longest = 30*time.Second, 2, 5*time.Minute
	}
	if m[group] == nil {
		m[group] = map[api.BackoffScale]counted{}
	}
	c := m[group][s]
	switch {
	case now.Before(c.until): // in its backoff
		return
	case c.failures > 0 && now.Sub(c.until) >= longest:
		c = counted{}
	}
	c.until = now
	if n := c.failures - free; n >= 0 {
		backoff := first
		for range n {
			backoff = min(2*backoff, longest)
		}
		c.until = now.Add(backoff)
	}
	c.failures++
	m[group][s] = c
}

// held returns until when a group is in backoff; zero: it is not.
func (m backoffModel) held(group string, now time.Time) (until time.Time) {
	for _, c := range m[group] {
		if c.until.After(now) && c.until.After(until) {
			until = c.until
		}
	}
	return until
}

// In any order of failures and successes, the backoffs are those of the model, and no more entries than groups and scales are kept.
func TestBackoffsCountByScale(t *testing.T) {
	t.Parallel()
	groups, scales := []string{"a", "b"}, []api.BackoffScale{api.BackoffLasting, api.BackoffPassing, api.BackoffUnclear}
	rapid.Check(t, func(t *rapid.T) {
		var qs []api.GroupBackoff
		model, now := backoffModel{}, noon
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 20 * time.Minute, time.Hour, 3 * time.Hour}).Draw(t, "after"))
			group := rapid.SampledFrom(groups).Draw(t, "group")
			scale := rapid.SampledFrom(scales).Draw(t, "scale")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				qs = plan.ClearBackoff(qs, group)
				delete(model, group)
			case 1:
				qs = plan.ClearBackoff(qs, group, scale)
				delete(model[group], scale)
			default:
				qs = plan.AddFailure(qs, group, "why", scale, now)
				model.fail(group, scale, now)
				i := slices.IndexFunc(qs, func(q api.GroupBackoff) bool { return q.Group == group && q.Scale == scale })
				if want := model[group][scale].failures; qs[i].Failures != want {
					t.Fatalf("at %v %d failures, want %d: %+v", now, qs[i].Failures, want, qs)
				}
			}
			if len(qs) > len(groups)*len(scales) {
				t.Fatalf("%d entries", len(qs))
			}
			held := plan.InBackoff(qs, now)
			for _, g := range groups {
				if want := model.held(g, now); !held[g].Until.Equal(want) {
					t.Fatalf("at %v group %s is held until %v, want %v: %+v", now, g, held[g].Until, want, qs)
				}
			}
		}
	})
}
