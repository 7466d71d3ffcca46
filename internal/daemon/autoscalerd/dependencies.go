package autoscalerd

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/windows"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// poolDependencies has the dependencies that live as long as the process, as holder or standby.
type poolDependencies struct {
	nodes    *local.Nodes
	provider pools.Provider
	// receive sends the provider's warnings and hints to two channels until its context ends. Either channel may be nil.
	// hear is nil if the provider sends neither.
	receive func(ctx context.Context, warnings, hints chan<- pools.Notice) error
	// console returns an instance's console output; nil if the provider stores none.
	console  func(ctx context.Context, instance string) ([]byte, error)
	store    metrics.Store
	ledger   *state.Ledger
	orders   *state.Orders
	evidence *state.Evidence
}

// openDependencies opens the dependencies and starts those that run.
func openDependencies(parts *daemon.Services, b *bus.Bus, a autoscaling, log *slog.Logger) (*poolDependencies, error) {
	cluster, pool := a.pool.Cluster, a.pool.Name
	p := &poolDependencies{nodes: local.NewNodes(b.Conn(), cluster, pool, nodeMaxAge, log)}
	parts.Run("nodes", p.nodes.Run)
	ctx, cancel := context.WithTimeout(parts.Context(), openTimeout)
	defer cancel()
	var err error
	if p.ledger, err = state.CreateLedger(ctx, b.JetStream(), ledgerConfig(a.pool, b.Replicas())); err != nil {
		return nil, err
	}
	reportLedger(ctx, p.ledger, ledgerConfig(a.pool, b.Replicas()), log)
	if p.orders, err = state.OpenOrders(ctx, b.JetStream(), cluster, pool, b.Replicas()); err != nil {
		return nil, err
	}
	if p.evidence, err = state.NewEvidence(b.JetStream(), cluster, pool, b.Replicas()); err != nil {
		return nil, err
	}
	inner, err := daemon.OpenMetrics(a.service, b, cluster)
	if err != nil {
		return nil, err
	}
	if p.store, err = windows.New(inner, windows.Config{}); err != nil {
		return nil, err
	}
	opened, err := openProvider(parts.Context(), a, b, log)
	if err != nil {
		return nil, err
	}
	p.provider, p.console = opened.Provider, opened.Console
	if !a.dryRun {
		p.receive = opened.ReceiveNotices
	}
	return p, nil
}

// ledgerConfig returns the settings of a new ledger.
func ledgerConfig(pool config.Pool, replicas int) state.LedgerConfig {
	return state.LedgerConfig{
		Cluster: pool.Cluster, Pool: pool.Name, Replicas: replicas, MaxAge: pool.Ledger.MaxAge, MaxBytes: int64(pool.Ledger.MaxBytes),
	}
}

// reportLedger logs how the existing ledger differs from the pool file, and the command that changes it. Processes
// change no stream.
func reportLedger(ctx context.Context, ledger *state.Ledger, c state.LedgerConfig, log *slog.Logger) {
	want := c.Stream()
	age, bytes, err := ledger.Kept(ctx)
	if err != nil || age == want.MaxAge && bytes == want.MaxBytes {
		return // an error shows at the first record
	}
	log.Warn("ledger keeps other bounds than the pool file", "pool", c.Pool, "max_age", age.String(), "max_bytes", bytes,
		"change", fmt.Sprintf("nats stream edit %s --max-age=%v --max-bytes=%d", want.Name, want.MaxAge, want.MaxBytes))
}

// openProvider opens the provider of the pool's groups.
func openProvider(ctx context.Context, a autoscaling, b *bus.Bus, log *slog.Logger) (provider.Opened, error) {
	kind, ok := a.pool.Provider()
	if !ok {
		return provider.Opened{}, fmt.Errorf("open the provider of pool %s: the pool has no groups; add resource_groups to its file", a.pool.Name)
	}
	cluster := a.pool.Cluster
	site := provider.Site{
		Cluster: cluster, Pool: a.pool.Name, Groups: a.pool.Selected(), Conn: b.Conn(), Log: log,
		Others: func() map[string][]provider.Group {
			claims, err := config.Claims(a.configs, cluster, a.pool.Name)
			if err != nil {
				log.Warn("pool files unreadable, a group may be in two pools", "err", err)
			}
			return claims
		},
		Account: provider.Account{
			Region: a.service.RegionOf(cluster), Endpoint: a.service.AWS.Endpoint,
			Events: cmp.Or(a.pool.EventQueue(), a.service.WarningQueue(cluster)),
			Keys:   signalbucket.KeysOf(a.service),
		},
	}
	if a.pool.Health != nil {
		site.Isolation = a.pool.Health.Isolation
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	return kind.Open(ctx, site)
}

// world returns a loop's dependencies, except those of its term.
func (p *poolDependencies) world(a autoscaling) autoscaler.World {
	return autoscaler.World{
		Provider: p.provider, Scheduler: p.nodes, Cordon: p.nodes, Directory: a.directory,
		Dial: dialSignal(a.pool.Cluster, a.pool.Name), Metrics: p.store, Ledger: p.ledger, Orders: p.orders,
		Version: daemon.BuildVersion(),
	}
}
