package view

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/spelling"
	"github.com/weirkeeper/weirkeeper/internal/platform/usage"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// pastOf returns the past of a pool.
func pastOf(b *bus.Bus, cluster, pool string) history.Pool {
	return history.Pool{JS: b.JetStream(), Cluster: cluster, Pool: pool}
}

// Last reads the newest tick of a pool. Without one the error states what is known of the pool.
func Last(ctx context.Context, b *bus.Bus, cluster, pool string) (api.TickRecord, error) {
	r, err := pastOf(b, cluster, pool).Last(ctx)
	if errors.Is(err, state.ErrNoRecord) {
		err = NoTick(ctx, b, cluster, pool)
	}
	return r, err
}

// Reading returns the newest record that has the pool's groups and nodes. If the last
// tick did not read them, as on a paused pool, the pool's autoscaler reads them now.
func Reading(ctx context.Context, b *bus.Bus, cluster, pool string) (api.TickRecord, error) {
	r, err := Last(ctx, b, cluster, pool)
	if err != nil && !errors.Is(err, state.ErrNoRecord) || err == nil && r.Case != nil {
		return r, err
	}
	read, errRead := requestPlan(ctx, b, cluster, pool)
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
	if has, err := state.ReadOrders(ctx, b.JetStream(), cluster, pool); err != nil || !has.Empty() {
		return err
	}
	return NoTick(ctx, b, cluster, pool)
}

// noTickError is a state.ErrNoRecord with what is known of the pool.
type noTickError struct{ text string }

func (e *noTickError) Error() string { return e.text }

func (e *noTickError) Unwrap() error { return state.ErrNoRecord }

// NoTick returns the error for a pool that has no recorded tick. If its bootstrap does not run, and only other pools of the
// cluster, or only other clusters, have a ledger, it is a mistake in the name.
func NoTick(ctx context.Context, b *bus.Bus, cluster, pool string) error {
	var s api.BootstrapStatus
	err := Request(ctx, b.Conn(), names.BootstrapSubject(cluster, pool, "status"), "bootstrap", nil, &s)
	if err == nil {
		return &noTickError{fmt.Sprintf("pool %s/%s has not ticked yet: its autoscaler is %s; wait for the first tick, or see \"weir status\"",
			cluster, pool, explain.State(s.Autoscaler))}
	}
	if _, absent := errors.AsType[*AbsentError](err); !absent {
		return &noTickError{fmt.Sprintf("pool %s/%s has not ticked yet, and its bootstrap does not answer: %v; see its log", cluster, pool, err)}
	}
	others, err := state.Pools(ctx, b.JetStream(), cluster)
	if err != nil {
		return err
	}
	if len(others) > 0 && !slices.Contains(others, pool) {
		if is := otherThing(ctx, b, cluster, pool, others); is != "" {
			return usage.New(&noTickError{fmt.Sprintf("cluster %s has no pool %q: %s", cluster, pool, is)})
		}
		return usage.New(&noTickError{fmt.Sprintf("cluster %s has no tick of pool %q, and no bootstrap of it runs%s; a new pool needs \"weir bootstrap --pool %s\"",
			cluster, pool, spelling.Suggest(pool, others), pool)})
	}
	if len(others) == 0 {
		clusters, err := state.Clusters(ctx, b.JetStream())
		if err != nil {
			return err
		}
		if len(clusters) > 0 {
			return usage.New(&noTickError{fmt.Sprintf("no pool of cluster %q has ticked on this bus%s; give the cluster with --cluster; a new one needs \"weir bootstrap --cluster %s\"",
				cluster, spelling.Suggest(cluster, clusters), cluster)})
		}
	}
	return &noTickError{fmt.Sprintf("pool %s/%s has not ticked yet: start it with \"weir up\" or \"weir bootstrap\"", cluster, pool)}
}

// otherThing returns that a name is that of an application or of a node, with its command. It is empty if it is not, or if that is
// unknown.
func otherThing(ctx context.Context, b *bus.Bus, cluster, name string, pools []string) string {
	if h, err := Harmonizer(ctx, b, cluster, api.HarmonizerQuery{App: name}); err == nil && h.App != nil {
		return fmt.Sprintf("%s is an application: \"weir app explain %s\"", name, name)
	}
	for _, pool := range pools {
		r, err := pastOf(b, cluster, pool).Last(ctx)
		if err == nil && r.Case != nil && slices.ContainsFunc(r.Case.Nodes, func(n api.Candidate) bool { return n.ID == name }) {
			return fmt.Sprintf("%s is a node of pool %s: \"weir node status %s %s\"", name, pool, pool, name)
		}
	}
	return ""
}
