package autoscaler

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
)

// A machine has ended once the provider reported it as ending, or accepted its termination, and two complete lists in a row lack it. A
// machine that only vanishes may run on. The end is repeated for five minutes.
func TestEndsOfMachines(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	accepted := []api.Drain{{Node: "ours", Group: "a", State: api.DrainTerminating, EndAccepted: now}, {Node: "wait", Group: "a", State: api.DrainTerminating}}
	var e ends
	for i, step := range []struct {
		after   time.Duration
		nodes   string // in upper case: ending
		unknown bool
		drains  []api.Drain
		want    string
	}{
		{0, "LOST ours wait vanishes", false, nil, ""},
		{time.Minute, "ours wait", false, accepted, ""},
		{time.Minute, "", true, accepted, ""},
		{time.Minute, "", true, nil, ""},
		{time.Minute, "", false, nil, "lost"},
		{time.Minute, "ours", false, nil, "lost"}, // the list before has missed it
		{time.Minute, "", false, nil, "lost"},
		{time.Minute, "", false, nil, "lost ours"},
		{3 * time.Minute, "", false, nil, "ours"},
		{3 * time.Minute, "", false, nil, ""},
	} {
		now = now.Add(step.after)
		g := pools.GroupSnapshot{ID: "a"}
		if step.unknown {
			g.Unknown = &api.Unknown{Since: now, Why: "throttled"}
		}
		for id := range strings.FieldsSeq(step.nodes) {
			one := pools.Instance{ID: strings.ToLower(id), Group: "a", State: api.InstanceRunning}
			if id != one.ID {
				one.State = api.InstanceTerminating
			}
			g.Instances = append(g.Instances, one)
		}
		e.note(now, &snapshot.Snapshot{Groups: []pools.GroupSnapshot{g}}, step.drains)
		if got := slices.Sorted(maps.Keys(e.ended)); !slices.Equal(got, slices.Sorted(strings.FieldsSeq(step.want))) {
			t.Errorf("step %d: ended %q, want %q", i, got, step.want)
		}
	}
}
