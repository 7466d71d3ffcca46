package redecide

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

// A hand-written line may have the answers of advisors that its policy lists, within their max_request.
func TestLineWithAdvisors(t *testing.T) {
	const line = `{"now": "2026-11-30T09:00:00Z",
		"policy": {"scaling_limits": {"min_capacity": 1, "max_capacity": 20, "max_weight_to_add": 20, "max_weight_to_remove": 20}, "autoscaling": {"setpoint": 0.5},
			"autoscale_signals": [{"app": "web", "raise": [{"name": "calendar", "max_request": {"cpus": 3}}]}]},
		"pool": {"target_capacity": 2, "non_orphan_fulfilled_capacity": 2, "total": {"cpus": 2}},
		"signals": [{"app": "web", "Resources": {"cpus": 1}}, {"app": "web~calendar", ADVICE}]}`
	for advice, want := range map[string]float64{
		`"Resources": {"cpus": 9}`: 6, `"Resources": {"cpus": 2}`: 4, `"Resources": {"cpus": 0.5}`: 2, `"verdict": "failed", "error": "no answer"`: 2, `"verdict": "no_opinion"`: 2,
	} {
		var out strings.Builder
		text := strings.ReplaceAll(strings.Replace(line, "ADVICE", advice, 1), "\n", " ")
		if n, err := Lines(t.Context(), strings.NewReader(text), &out); n != 1 || err != nil {
			t.Errorf("%s: %d lines, %v: %s", advice, n, err, out.String())
			continue
		}
		var got api.CaseResult
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got.Target != want {
			t.Errorf("%s: target %v, %v, want %v", advice, got.Target, err, want)
		}
	}
}
