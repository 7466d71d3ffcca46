package workflow

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// Each kind of a policy can run, and each runnable kind is valid in a policy.
func TestKindsAreThoseOfPolicies(t *testing.T) {
	var want, got []string
	for _, k := range judge.WorkflowKinds() {
		want = append(want, k.Name)
	}
	for _, k := range kinds() {
		got = append(got, k.name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-policies +runner):\n%s", diff)
	}
}
