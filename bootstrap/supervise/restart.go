package supervise

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Policy says how a process that fails is restarted.
type Policy struct {
	// Budget is how many restarts there may be within Window.
	Budget int

	// Window is how long a failure counts.
	Window time.Duration

	// Base is the longest pause before the second restart; it doubles with each
	// further one. Before the first one there is none.
	Base time.Duration

	// Max bounds every pause.
	Max time.Duration
}

// DefaultPolicy gives up a process that fails at once after a minute or so, and
// goes on for ever with one that fails once in two minutes.
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

// Next says what follows the last failure in history, the times of the failures
// of the process that has this name: a restart after delay, or, when the budget
// is spent, none. Failures older than the policy's window, or later than now, do
// not count.
//
// The n-th restart, n ≥ 2, waits min(Max, Base·2^(n-2)), shortened by up to a
// quarter: by a hash of name and n, so that processes that fall together do not
// rise together.
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
