package resource_test

import (
	"math"
	"testing"

	"github.com/weirkeeper/weirkeeper/resource"
)

func TestRoundingForgivesSlack(t *testing.T) {
	tenths := 0.0
	for range 10 {
		tenths += 0.1 // 0.9999999999999999
	}
	for _, c := range []struct{ x, up, down float64 }{
		{0, 0, 0}, {tenths, 1, 1}, {3 * 1.1, 4, 3}, {15 + 2e-15, 15, 15}, {15 - 2e-15, 15, 15}, {15 + 2e-9, 16, 15}, {15 - 2e-9, 15, 14}, {-0.5, 0, -1},
	} {
		if up, down := resource.Ceil(c.x), resource.Floor(c.x); up != c.up || down != c.down || up == 0 && math.Signbit(up) {
			t.Errorf("%v is rounded to %v and %v, want %v and %v", c.x, up, down, c.up, c.down)
		}
	}
}
