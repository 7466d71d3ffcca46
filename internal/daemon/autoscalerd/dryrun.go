package autoscalerd

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// ledgerMemory is the memory of a dry run: the state in the ledger's last tick. Save does nothing.
type ledgerMemory struct{ ledger *state.Ledger }

// Load implements apply.Memory. Without a readable record it returns no state, as at a first start.
func (m ledgerMemory) Load(ctx context.Context) (s apply.Saved, ok bool, err error) {
	record, err := m.ledger.Last(ctx)
	if err != nil {
		return s, false, nil
	}
	last, err := history.ReadRecord(record)
	if err != nil {
		return s, false, nil
	}
	return apply.Saved{State: last.State}, true, nil
}

// Save implements apply.Memory.
func (ledgerMemory) Save(context.Context, apply.Saved) error { return nil }

// noDrains are the drain records of a dry run, which drains no node.
type noDrains struct{}

func (noDrains) Load(context.Context) ([]api.Drain, error) { return nil, nil }
func (noDrains) Put(context.Context, api.Drain) error      { return nil }
func (noDrains) Delete(context.Context, string) error      { return nil }

// ordersOnly has the pool's orders for a dry run, which removes none.
type ordersOnly struct{ *state.Orders }

// Read implements pools.OrderStore.
func (o ordersOnly) Read(ctx context.Context, now time.Time) (api.Orders, error) {
	all, err := o.List(ctx)
	if err != nil {
		return all, err
	}
	return all.InForce(now), nil
}

// Removed implements pools.OrderStore.
func (ordersOnly) Removed(context.Context, string) error { return nil }

// Rolled implements pools.OrderStore.
func (ordersOnly) Rolled(context.Context, string) error { return nil }
