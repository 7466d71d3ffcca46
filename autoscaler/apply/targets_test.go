package apply

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Terminations of one group are concurrent. The backoffs after them do not depend on their order.
func TestBackoffsInAnyOrderOfTerminations(t *testing.T) {
	outcomes := []error{nil, fmt.Errorf("modifying: %w", pools.ErrThrottled), context.DeadlineExceeded, fmt.Errorf("%w: budget", pools.ErrThrottled)}
	before := api.PoolState{Removals: []api.GroupBackoff{{Group: "a", Scale: api.BackoffPassing, Why: "earlier", Failures: 3}}}
	var want []api.GroupBackoff
	for first := range outcomes {
		for second := range outcomes {
			groups := []pools.GroupSnapshot{{ID: "a", Target: 10}}
			now := newTargets(groups, before, noon)
			order := []int{first, second, 0, 1, 2, 3}
			done := map[int]bool{}
			for _, i := range order {
				if !done[i] {
					done[i] = true
					now.lower("a", []float64{1}, outcomes[i])
				}
			}
			if want == nil {
				want = now.removals
			}
			if diff := cmp.Diff(want, now.removals); diff != "" {
				t.Fatalf("order %v (-first order +this one):\n%s", order, diff)
			}
			if len(now.removals) != 2 || now.removals[0].Failures != 1 {
				t.Fatalf("backoffs %+v, want those of the failures after the success", now.removals)
			}
		}
	}
}

// A termination lowers the unanswered target too, once, and changes no state that it was read from.
func TestTerminationsLowerTheUnansweredTarget(t *testing.T) {
	t.Parallel()
	before := api.PoolState{Groups: map[string]api.GroupState{"a": {Unanswered: &api.UnansweredTarget{Target: 12, Since: noon}}}}
	now := newTargets([]pools.GroupSnapshot{{ID: "a", Target: 10}}, before, noon)
	now.lower("a", []float64{1, 1}, nil)
	now.lower("a", []float64{1}, context.DeadlineExceeded) // it may have had no effect
	for range 2 {
		a := now.into(before).Groups["a"]
		if *a.LastTarget != 8 || a.Unanswered == nil || *a.Unanswered != (api.UnansweredTarget{Target: 10, Since: noon}) {
			t.Errorf("target %d, unanswered %+v; want 8 and 10 since noon", *a.LastTarget, a.Unanswered)
		}
	}
	if before.Groups["a"].Unanswered.Target != 12 {
		t.Error("the state of before has changed")
	}
}

// A node counts as ended by a termination since the intent if it has gone or goes, and the last target includes it.
func TestEndedByTerminations(t *testing.T) {
	t.Parallel()
	p := newPoolState(running)
	for _, test := range []struct {
		name       string
		change     func(*api.Drain)
		unfinished bool
		want       float64
	}{
		{"without a response", func(*api.Drain) {}, false, 1},
		{"accepted, and the process died", func(r *api.Drain) { r.EndAccepted = noon }, true, 1},
		{"accepted, and the target is saved", func(r *api.Drain) { r.EndAccepted = noon }, false, 0},
		{"before the intent", func(r *api.Drain) { r.Since = noon.Add(-time.Second) }, true, 0},
		{"it still runs", func(r *api.Drain) { r.Node = "a-1" }, true, 0},
		{"its drain goes on", func(r *api.Drain) { r.State = api.DrainDraining }, true, 0},
		{"the provider ends it", func(r *api.Drain) { r.ProviderEnds = true }, true, 0},
	} {
		r := leaving[0]
		r.State = api.DrainTerminating
		test.change(&r)
		if got := (Records{r}).ended(p.Snapshot, noon, test.unfinished)["a"]; got != test.want {
			t.Errorf("%s: ended %v, want %v", test.name, got, test.want)
		}
	}
}
