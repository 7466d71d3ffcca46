package pool

import (
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
)

// The limits of a pool still apply to a pinned target.
func TestEffectOfLimitsOnAPin(t *testing.T) {
	limits := api.TargetLimits{Min: 2, Max: 6}
	for target, want := range map[float64]string{
		1: "min_capacity is 2: the pool shrinks to 2, not to 1", 2: "", 4: "", 6: "",
		1e6: "max_capacity is 6: the pool grows to 6, not to 1000000",
	} {
		if got := effectOf(target, limits); got != want {
			t.Errorf("effectOf(%v) = %q, want %q", target, got, want)
		}
	}
}
