package view

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// Last reads the newest tick of a pool.
func Last(ctx context.Context, b *bus.Bus, cluster, pool string) (api.TickRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var r api.TickRecord
	ledger, err := state.OpenLedger(ctx, b.JetStream(), cluster, pool)
	var data []byte
	if err == nil {
		data, err = ledger.Last(ctx)
	}
	if errors.Is(err, state.ErrNoRecord) {
		return r, NoTick(ctx, b, cluster, pool)
	}
	if err != nil {
		return r, err
	}
	if r, err = explain.Read(data); err != nil || !r.DryRun {
		return r, err
	}
	return besideDry(ctx, ledger, r)
}

// besideDry returns the newest record of the lease holder of the pool. It returns r, the
// record of a dry run, if there is no newer one.
func besideDry(ctx context.Context, ledger *state.Ledger, r api.TickRecord) (api.TickRecord, error) {
	err := ledger.Since(ctx, r.At.Add(-3*r.Every), func(data []byte) error {
		one, err := explain.Read(data)
		if err == nil && !one.DryRun {
			r = one
		}
		return nil
	})
	return r, err
}

// oldestDecision is the age of the oldest decision that status searches for.
const oldestDecision = 64 * time.Minute

// LastDecided reads the last tick with a decision: first in the last minute, then in
// longer ranges. It returns nil without such a tick, or if the ledger cannot be read to
// its end in time, since an earlier tick may not be the last one.
func LastDecided(ctx context.Context, b *bus.Bus, cluster, pool string) *api.TickRecord {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return newestDecided(time.Now(), func(from time.Time, visit func([]byte) error) error {
		return history.Pool{JS: b.JetStream(), Cluster: cluster, Pool: pool}.Records(ctx, from, visit)
	})
}

// newestDecided returns the last record that has a decision of those that since visits.
func newestDecided(now time.Time, since func(from time.Time, visit func([]byte) error) error) *api.TickRecord {
	var last *api.TickRecord
	for back := time.Minute; last == nil && back <= oldestDecision; back *= 4 {
		err := since(now.Add(-back), func(data []byte) error {
			// What cannot be read is not shown: the last tick's own error is.
			if r, err := explain.Read(data); err == nil && r.Case != nil {
				last = &r
			}
			return nil
		})
		if err != nil {
			return nil
		}
	}
	return last
}

// StoredTick returns the newest recorded tick of a pool, or state.ErrNoRecord.
func StoredTick(ctx context.Context, b *bus.Bus, cluster, pool string) (api.TickRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	ledger, err := state.OpenLedger(ctx, b.JetStream(), cluster, pool)
	if err != nil {
		return api.TickRecord{}, err
	}
	data, err := ledger.Last(ctx)
	if err != nil {
		return api.TickRecord{}, err
	}
	r, err := explain.Read(data)
	if err != nil || !r.DryRun {
		return r, err
	}
	return besideDry(ctx, ledger, r)
}

// Reading returns the newest record that has the pool's groups and nodes. If the last
// tick did not read them, as on a paused pool, the pool's autoscaler reads them now.
func Reading(ctx context.Context, b *bus.Bus, cluster, pool string) (api.TickRecord, error) {
	r, err := Last(ctx, b, cluster, pool)
	if err != nil && !errors.Is(err, state.ErrNoRecord) || err == nil && r.Case != nil {
		return r, err
	}
	read, errRead := RequestPlan(ctx, b, cluster, pool)
	if errRead == nil && read.Case != nil {
		return read, nil
	}
	if errors.Is(err, state.ErrNoRecord) {
		return api.TickRecord{}, err
	}
	if err == nil {
		err = fmt.Errorf("read the groups and nodes of pool %s/%s: its last tick did not", cluster, pool)
	}
	return api.TickRecord{}, errors.Join(err, errRead)
}

// Known returns an error if the pool has neither a recorded tick nor an order.
func Known(ctx context.Context, b *bus.Bus, cluster, pool string) error {
	ledger, err := state.OpenLedger(ctx, b.JetStream(), cluster, pool)
	if err == nil {
		_, err = ledger.Last(ctx)
	}
	if !errors.Is(err, state.ErrNoRecord) {
		return err
	}
	orders, err := state.OpenOrders(ctx, b.JetStream(), cluster, pool, state.CreateNothing)
	if err != nil {
		return err
	}
	if has, err := orders.List(ctx); err != nil || !has.Empty() {
		return err
	}
	return NoTick(ctx, b, cluster, pool)
}

// noTickError is a state.ErrNoRecord with what is known of the pool.
type noTickError struct{ text string }

func (e *noTickError) Error() string { return e.text }

func (e *noTickError) Unwrap() error { return state.ErrNoRecord }

// NoTick returns the error for a pool that has no recorded tick. If its bootstrap does not
// run, and other pools of the cluster have ticked, it is a mistake in the name.
func NoTick(ctx context.Context, b *bus.Bus, cluster, pool string) error {
	var s api.BootstrapStatus
	err := Request(ctx, b.Conn(), names.BootstrapSubject(cluster, pool, "status"), "bootstrap", nil, &s)
	if err == nil {
		return &noTickError{fmt.Sprintf("pool %s/%s has not ticked yet: its autoscaler is %s; wait for the first tick, or see \"weir status\"",
			cluster, pool, s.Autoscaler.State)}
	}
	if _, absent := errors.AsType[*AbsentError](err); !absent {
		return &noTickError{fmt.Sprintf("pool %s/%s has not ticked yet, and its bootstrap does not answer: %v; see its log", cluster, pool, err)}
	}
	others, err := state.Pools(ctx, b.JetStream(), cluster)
	if err != nil {
		return err
	}
	if len(others) > 0 {
		return usage.New(&noTickError{fmt.Sprintf("cluster %s has no tick of pool %q, and no bootstrap of it runs%s; a new pool needs \"weir bootstrap --pool %s\"",
			cluster, pool, spelling.Suggest(pool, others), pool)})
	}
	return &noTickError{fmt.Sprintf("pool %s/%s has not ticked yet: start it with \"weir up\" or \"weir bootstrap\"", cluster, pool)}
}
