package web

import (
	"slices"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

// The page of a tick has the boot times of a group, and why it does not grow.
func TestGroupsShowBootTimes(t *testing.T) {
	var v tickView
	v.groups(api.Summary{Groups: []api.GroupSummary{{ID: "a", Target: 3}, {ID: "b"}}}, &api.TickRecord{
		Case:  &api.Case{Stuck: map[string]string{"a": "group a does not grow"}},
		State: api.PoolState{Groups: map[string]api.GroupState{"a": {Boots: api.Boots{Times: map[string][]float64{"m5.large eu-1a": {90}}}}}},
	})
	want := []string{"boot time of m5.large eu-1a: p50 1m30s, p95 1m30s, of the last machine", "group a does not grow"}
	if !slices.Equal(v.Groups[0].Facts, want) || v.Groups[1].Facts != nil {
		t.Errorf("groups %+v, want %q", v.Groups, want)
	}
}
