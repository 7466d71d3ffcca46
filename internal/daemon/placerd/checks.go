package placerd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// placers are the placers of one process, in order of their pools.
type placers []*Placer

// alive returns an error if a placer does not respond.
func (all placers) alive(ctx context.Context) error {
	errs := make([]error, len(all))
	for i, one := range all {
		errs[i] = one.Alive(ctx)
	}
	return errors.Join(errs...)
}

// checks returns the checks of readiness, without the disk. With several pools, the name of a check has its pool.
func (all placers) checks() (list []admin.Check) {
	for _, one := range all {
		checks := []admin.Check{
			admin.Bus(one.bus),
			admin.Clock(one.bus.Conn(), one.log),
			admin.Stored(one.bus, names.PlacerBucket(one.cluster, one.pool)),
			admin.Lease(func() admin.StandbyLease { return one.lease }),
			{Name: "placer", Read: one.check},
			admin.NodeSenders(one.nodes.Losers),
		}
		for _, c := range checks {
			if len(all) > 1 {
				c.Name += " of pool " + one.pool
			}
			list = append(list, c)
		}
	}
	return list
}

// check returns the state of the placer.
func (p *Placer) check(ctx context.Context) admin.Result {
	s, err := p.Status(ctx)
	switch why := p.Problems(); {
	case err != nil:
		return admin.Result{State: admin.Failed, Dead: true, Detail: "the placer does not respond: " + err.Error(), Remedy: "see its log, and restart it if this lasts"}
	case p.failed.Load() != nil:
		return admin.Result{State: admin.Failed, Detail: "it starts again after an error: " + *p.failed.Load(), Remedy: "check NATS and its JetStream"}
	case len(why) > 0:
		return admin.Result{State: admin.Failed, Detail: strings.Join(why, "; "), Remedy: "check NATS and its JetStream"}
	case !s.Placing:
		return admin.Result{State: admin.Standby, Detail: "waits for the lease"}
	case !s.Loaded:
		return admin.Result{State: admin.Unknown, Detail: "reads the expected state"}
	case s.Waiting > 0:
		return admin.Result{State: admin.Degraded, Detail: fmt.Sprintf("%d app instances wait for room", s.Waiting), Remedy: "see \"weir app status\""}
	}
	return admin.Result{State: admin.OK, Detail: fmt.Sprintf("%d nodes report", s.Nodes)}
}
