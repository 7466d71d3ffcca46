package view

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
)

// answer is what a part of a pool responded, or why there is no response.
type answer[T any] struct {
	value T
	err   error
}

// standingParts are the responses of the parts of a pool that decide how it stands, beside its ticks.
type standingParts struct {
	lease   condition.Lease
	alarm   string // empty: none, or unknown
	health  answer[api.HealthStatus]
	counts  answer[api.InstanceCounts]
	crashes map[string]api.HarmonizerStatus // by app, of those that crash repeatedly
	pending answer[api.Pending]
}

// allParts are the responses of all parts of a pool.
type allParts struct {
	standingParts
	processes answer[api.BootstrapStatus]
	last      answer[api.TickRecord]
	orders    answer[api.Orders]
	nodes     answer[[]api.NodeFacts]
	apps      answer[api.HarmonizerStatus]
	totals    answer[api.HarmonizerStatus]
}

// askStanding requests the parts at the same time: one that hangs delays no other one.
func (p Pool) askStanding(ctx context.Context, now time.Time) (a standingParts) {
	together(p.standingRequests(ctx, now, &a)...)
	return a
}

// askAll requests all parts at the same time.
func (p Pool) askAll(ctx context.Context, now time.Time) (a allParts) {
	together(append(p.standingRequests(ctx, now, &a.standingParts),
		func() { a.processes.value, a.processes.err = Bootstrap(ctx, p.Bus, p.Cluster, p.Name) },
		func() { a.last.value, a.last.err = Last(ctx, p.Bus, p.Cluster, p.Name) },
		func() { a.nodes.value, a.nodes.err = RequestNodes(ctx, p.Bus, p.Cluster, p.Name) },
		func() { a.apps.value, a.apps.err = p.Apps(ctx) },
		func() {
			a.totals.value, a.totals.err = Harmonizer(ctx, p.Bus, p.Cluster, api.HarmonizerQuery{Totals: true})
		},
		func() {
			ctx, cancel := context.WithTimeout(ctx, Timeout)
			defer cancel()
			a.orders.value, a.orders.err = state.ReadOrders(ctx, p.Bus.JetStream(), p.Cluster, p.Name)
		},
	)...)
	return a
}

// standingRequests returns the requests of the parts that decide how the pool stands.
func (p Pool) standingRequests(ctx context.Context, now time.Time, a *standingParts) []func() {
	js := p.Bus.JetStream()
	return []func(){
		func() {
			if holder, err := state.ReadHolder(ctx, js, now, p.Cluster, p.Name); err == nil {
				a.lease = condition.Lease{Known: true, Holder: holder}
			}
		},
		func() {
			if alarm, err := integrity.PoolReader(p.Cluster, p.Name).Alarm(ctx, js); err == nil && alarm != nil {
				a.alarm = fmt.Sprintf("stored data is damaged or lost since %s: \"weir state check\" lists it", explain.Time(alarm.At))
			}
		},
		func() {
			ctx, cancel := context.WithTimeout(ctx, Timeout)
			defer cancel()
			a.health.value, a.health.err = p.Health(ctx, api.HealthQuery{})
		},
		func() {
			if a.counts.value, a.counts.err = counts(ctx, p.Bus.Conn(), p.Cluster, p.Name); a.counts.err == nil {
				a.crashes = p.crashesOf(ctx, a.counts.value)
			}
		},
		func() {
			ctx, cancel := context.WithTimeout(ctx, Timeout)
			defer cancel()
			a.pending.value, a.pending.err = placerbus.GetPending(ctx, p.Bus.Conn(), p.Cluster, p.Name)
		},
	}
}

// together calls all functions at the same time, and waits for them.
func together(all ...func()) {
	var wg sync.WaitGroup
	for _, one := range all {
		wg.Go(one)
	}
	wg.Wait()
}
