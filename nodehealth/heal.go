package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

// healing is what is known of who heals the pool, of the goroutine that reads it.
type healing struct {
	left  bool // the provider has left it to us
	still int  // rounds in a row that it healed all the same
}

// healers looks who heals the pool. Where we do, the provider is asked once to leave it
// to us; one that does not, or not any more, is told, and nothing is repaired meanwhile.
func (l *Loop) healers(ctx context.Context) error {
	healer, ok := l.world.Pool.(pools.Healer)
	if !ok {
		return nil
	}
	ours := l.policy.Mode == judge.Act && l.policy.Owner == judge.OwnerSelf
	var left error
	if h := &l.healing; ours && !h.left {
		left = l.world.Writer.Write(ctx, healer.LeaveHealing)
		if h.left = left == nil; !h.left {
			left = fmt.Errorf("have the provider leave the healing to us: %w", left)
		}
	}
	why, err := healer.Heals(ctx)
	if err != nil {
		return errors.Join(left, fmt.Errorf("see who heals the pool: %w", err))
	}
	if why == "" || !l.healing.left {
		l.healing.still = 0
	} else {
		l.healing.still++
	}
	drift := l.healing.still > 1
	return errors.Join(left, l.mail.send(ctx, func(now time.Time, _ *judge.Judge) []judge.Event { l.healedBy(now, cut(why), drift); return nil }))
}

// healedBy takes in who heals the pool. A policy that observes leaves it to the provider,
// and is judged as if it did not.
func (l *Loop) healedBy(now time.Time, why string, drift bool) {
	act, self := l.policy.Mode == judge.Act, l.policy.Owner == judge.OwnerSelf
	l.healer = ""
	switch {
	case self:
		l.healer = why
	case why == "":
		l.healer = "nobody: the policy leaves it to the provider, which does not heal"
	}
	l.step(now, judge.Healer{Other: act && self && why != "", Why: why})
	if act && (drift || !self && why == "") {
		l.announcer.alarm(now, Alarm{Key: "owner", Why: "the pool is healed by " + l.healer})
		return
	}
	l.announcer.calm("owner")
}
