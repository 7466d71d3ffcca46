package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
)

// ownership compares the actual repair owner of the pool, Weirkeeper or the provider, with the
// owner in the policy.
type ownership struct {
	*shared
	announcer *announcer

	// The goroutine of the pool's round owns these.
	left  bool // the provider has left the repairs to Weirkeeper
	still int  // rounds in a row in which the provider repaired nevertheless

	repairOwner string // the actual owner if it differs from the policy; the Loop's goroutine owns it
}

// self reports whether the policy assigns repairs to Weirkeeper.
func (o *ownership) self() bool { return o.policy.Owner == api.OwnerSelf }

// read reports the repair owner of the pool. If the policy assigns repairs to Weirkeeper, it requests once
// that the provider stops its own. Until the provider does, Weirkeeper repairs nothing.
func (o *ownership) read(ctx context.Context) error {
	repairOwner, ok := o.world.Pool.(pools.RepairOwner)
	if !ok {
		return nil
	}
	var left error
	if o.acts() && o.self() && !o.left {
		left = o.world.Writer.Write(ctx, repairOwner.ReleaseRepair)
		if o.left = left == nil; !o.left {
			left = fmt.Errorf("turn off the provider's repairs: %w", left)
		}
	}
	why, err := repairOwner.OwnsRepair(ctx)
	if err != nil {
		return errors.Join(left, fmt.Errorf("read the repair owner of the pool: %w", err))
	}
	if why == "" || !o.left {
		o.still = 0
	} else {
		o.still++
	}
	drift := o.still > 1
	return errors.Join(left, o.mail.send(ctx, func(now time.Time, _ *judge.Judge) batch {
		return of(o.found(now, prose.Clip(why, api.MaxWhy), drift))
	}))
}

// found applies why the provider repairs; empty: it does not. In mode observe the provider keeps
// its repairs, and the judge decides as if it did not.
func (o *ownership) found(now time.Time, why string, drift bool) judge.RepairOwner {
	o.repairOwner = ""
	switch {
	case o.self():
		o.repairOwner = why
	case why == "":
		o.repairOwner = "no owner: the policy assigns repairs to the provider, but the provider does not repair"
	}
	if o.acts() && (drift || !o.self() && why == "") {
		o.announcer.alarm(now, api.HealthAlarm{Key: "owner", Why: "the pool's actual repair owner differs from the policy: " + o.repairOwner})
	} else {
		delete(o.announcer.alarms, "owner")
	}
	return judge.RepairOwner{Other: o.acts() && o.self() && why != "", Why: why}
}
