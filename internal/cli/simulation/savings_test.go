package simulation

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/simulate"
)

// Each proposal is a key and a value that a pool's file may have, and moves only one number.
func TestProposals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "here", "default.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	const pool = "resource_groups: [{local: {name: blue, min: 1, max: 20, machine: {cpus: 4, mem: 16000, disk: 100000}}}]\n" +
		"scaling_limits: {min_capacity: 1, max_capacity: 20, max_weight_to_add: 20, max_weight_to_remove: 20}\n"
	if err := os.WriteFile(file, []byte(pool), 0o644); err != nil {
		t.Fatal(err)
	}
	with := func(p api.DecisionPolicy) simulate.Policy { return simulate.Policy{Policy: p} }
	for _, test := range []struct {
		policy api.DecisionPolicy
		want   string
	}{
		{api.DecisionPolicy{Setpoint: 0.7, Limits: api.TargetLimits{Min: 0, MaxRemove: api.Unlimited}}, "[{autoscaling.setpoint 0.8}]"},
		{api.DecisionPolicy{Setpoint: 0.85, Limits: api.TargetLimits{Min: 1}}, "[{autoscaling.setpoint 0.9} {scaling_limits.min_capacity 0}]"},
		{api.DecisionPolicy{Setpoint: 0.95}, "[]"},
		{
			api.DecisionPolicy{Setpoint: 0.9, MarginDown: 0.1, Cooldown: api.Cooldown{Down: 10 * time.Minute}, LossLimit: true, Limits: api.TargetLimits{Min: 5, MaxRemove: 3}},
			"[{autoscaling.margin_down 0.05} {autoscaling.cooldown.down 5m0s} {autoscaling.prevent_scale_down_after_capacity_loss false} " +
				"{scaling_limits.min_capacity 2} {scaling_limits.max_weight_to_remove 6}]",
		},
	} {
		found := proposals(with(test.policy))
		if got := fmt.Sprint(found); got != test.want {
			t.Errorf("%+v: %s, want %s", test.policy, got, test.want)
		}
		for _, one := range found {
			if _, err := (scenario{}).readPool(file, one); err != nil {
				t.Errorf("%v: %v", one, err)
			}
		}
	}
}
