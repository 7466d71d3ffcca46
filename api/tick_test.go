package api

import "testing"

// The parts of an action stand apart, also when one is missing.
func TestActionsSeparateGroupAndNode(t *testing.T) {
	for want, a := range map[string]Action{
		"drain web i-1":   {Op: OpDrain, Group: "web", Node: "i-1"},
		"drain i-1":       {Op: OpDrain, Node: "i-1"},
		"set target web":  {Op: OpSetTarget, Group: "web", Target: 3},
		"repair in place": {Op: OpRepairInPlace},
	} {
		if got := a.String(); got != want {
			t.Errorf("action %+v is %q, want %q", a, got, want)
		}
	}
}
