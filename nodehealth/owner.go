package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

// ownership compares who repairs the pool with who shall by the policy: Weirkeeper or
// the provider.
type ownership struct {
	*kit
	announcer *announcer

	// The goroutine of the pool's round owns these.
	left  bool // the provider has left the repairs to Weirkeeper
	still int  // rounds in a row in which it repaired all the same

	healer string // who repairs, if not who shall; the Loop's goroutine owns it
}

// self reports whether Weirkeeper shall repair the pool.
func (o *ownership) self() bool { return o.policy.Owner == judge.OwnerSelf }

// read reports who repairs the pool. If Weirkeeper shall, it asks the provider once to
// leave the repairs alone. While the provider does not, nothing is repaired.
func (o *ownership) read(ctx context.Context) error {
	healer, ok := o.world.Pool.(pools.Healer)
	if !ok {
		return nil
	}
	var left error
	if o.acts() && o.self() && !o.left {
		left = o.world.Writer.Write(ctx, healer.LeaveHealing)
		if o.left = left == nil; !o.left {
			left = fmt.Errorf("have the provider leave the healing to us: %w", left)
		}
	}
	why, err := healer.Heals(ctx)
	if err != nil {
		return errors.Join(left, fmt.Errorf("see who heals the pool: %w", err))
	}
	if why == "" || !o.left {
		o.still = 0
	} else {
		o.still++
	}
	drift := o.still > 1
	return errors.Join(left, o.mail.send(ctx, func(now time.Time, _ *judge.Judge) batch {
		return of(o.found(now, cut(why), drift))
	}))
}

// found takes why the provider repairs; empty: it does not. In a policy that observes the
// repairs stay with the provider, and the judge decides as if they did not.
func (o *ownership) found(now time.Time, why string, drift bool) judge.Healer {
	o.healer = ""
	switch {
	case o.self():
		o.healer = why
	case why == "":
		o.healer = "nobody: the policy leaves it to the provider, which does not heal"
	}
	if o.acts() && (drift || !o.self() && why == "") {
		o.announcer.alarm(now, Alarm{Key: "owner", Why: "the pool is healed by " + o.healer})
	} else {
		delete(o.announcer.alarms, "owner")
	}
	return judge.Healer{Other: o.acts() && o.self() && why != "", Why: why}
}
