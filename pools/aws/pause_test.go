package aws

import (
	"errors"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// After a throttled write no other one is sent to that service for some seconds, longer after each in a row, and otherwise long for
// another pool. Writes to other services are sent.
func TestPauseAfterAThrottledWrite(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	throttled := &callError{class: pools.ErrThrottled}
	ends := map[time.Time]bool{}
	for _, pool := range []string{"a", "b", "c"} {
		var p pauses
		at := now
		for i := range 8 {
			p.note("ec2", pool, at, throttled)
			until := p.of["ec2"].until
			if length := until.Sub(at); length < firstThrottle || length > maxThrottle*3/2 || i > 5 && length < maxThrottle {
				t.Errorf("pause %d of pool %s is %v", i, pool, length)
			}
			if err := p.check("ec2", until.Add(-time.Millisecond)); !errors.Is(err, pools.ErrThrottled) {
				t.Errorf("in the pause: %v, want %v", err, pools.ErrThrottled)
			}
			if err := errors.Join(p.check("ec2", until), p.check("autoscaling", at)); err != nil {
				t.Errorf("after the pause, and at another service: %v", err)
			}
			at = until
		}
		ends[at] = true
		p.note("ec2", pool, at, &callError{class: pools.ErrShort})
		p.note("ec2", pool, at, throttled)
		if length := p.of["ec2"].until.Sub(at); length >= 2*firstThrottle {
			t.Errorf("the first pause after an answer is %v", length)
		}
	}
	if len(ends) != 3 {
		t.Errorf("pools end their pauses at %v: want different times", ends)
	}
}
