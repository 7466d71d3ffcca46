package supervise

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Policy defines how a process that fails is restarted.
type Policy struct {
	// Budget is the maximum number of restarts within Window.
	Budget int

	// Window is how long a failure counts.
	Window time.Duration

	// Base is the maximum pause before the second restart. It doubles with each further restart. The first restart has
	// no pause.
	Base time.Duration

	// Max bounds every pause.
	Max time.Duration
}

// DefaultPolicy returns a policy that gives up a process that fails immediately after about a minute, and restarts a
// process that fails once in two minutes forever.
func DefaultPolicy() Policy {
	return Policy{Budget: 10, Window: 10 * time.Minute, Base: 100 * time.Millisecond, Max: 30 * time.Second}
}

// Validate returns every problem of the policy.
func (p Policy) Validate() error {
	var errs []error
	if p.Budget < 0 {
		errs = append(errs, fmt.Errorf("restart budget %d is negative", p.Budget))
	}
	if p.Window <= 0 {
		errs = append(errs, fmt.Errorf("restart window %s is not positive", p.Window))
	}
	if p.Base <= 0 || p.Max < p.Base {
		errs = append(errs, fmt.Errorf("restart pauses from %s to %s: want 0 < base <= max", p.Base, p.Max))
	}
	return errors.Join(errs...)
}

// Next returns the pause before the next restart, or giveUp if the budget is spent. history holds the times of the
// failures of the process name. Failures older than the policy's window, or later than now, do not count.
//
// The n-th restart, n ≥ 2, waits min(Max, Base·2^(n-2)), shortened by up to a quarter. A hash of name and n determines
// the part, so that processes that fail together do not restart together.
func Next(name string, history []time.Time, now time.Time, policy Policy) (delay time.Duration, giveUp bool) {
	n := 0
	for _, t := range history {
		if !t.After(now) && now.Sub(t) < policy.Window {
			n++
		}
	}
	if n > policy.Budget {
		return 0, true
	}
	if n <= 1 {
		return 0, false
	}
	delay = policy.Base
	for range n - 2 {
		if delay >= policy.Max/2 {
			delay = policy.Max
			break
		}
		delay *= 2
	}
	return delay - time.Duration(float64(delay)/4*fraction(name, n)), false
}

// fraction hashes name and attempt to a number in [0, 1).
func fraction(name string, attempt int) float64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d", name, attempt))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}
