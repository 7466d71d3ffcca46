package autoscalerd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/daemon/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
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
	console func(ctx context.Context, instance string) ([]byte, error)
	store   metrics.Store
	ledger  *state.Ledger
	// summaries has the summaries of the ledger's records.
	summaries *state.Ledger
	orders    *state.Orders
	evidence  *state.Evidence
}

// openDependencies opens the dependencies and starts those that run.
func openDependencies(parts *daemon.Services, b *bus.Bus, a autoscaling, log *slog.Logger) (*poolDependencies, error) {
	cluster, pool := a.pool.Cluster, a.pool.Name
	p := &poolDependencies{nodes: local.NewNodes(b.Conn(), cluster, pool, receiptAge, log)}
	parts.Run("nodes", p.nodes.Run)
	opening := daemon.NewServices(parts.Context())
	opening.Run("signs of life", func(ctx context.Context) error { return standBy(ctx, a.directory) })
	err := opening.Stop(daemon.WaitForState(opening.Context(), log, a.waits, func(ctx context.Context) error { return p.openState(ctx, b, a, log) }))
	if err != nil {
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

// openState opens the ledger and the orders.
func (p *poolDependencies) openState(ctx context.Context, b *bus.Bus, a autoscaling, log *slog.Logger) (err error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	c := LedgerConfig(a.pool, b.Replicas())
	if p.ledger, err = state.CreateLedger(ctx, b.JetStream(), c); err != nil {
		return err
	}
	if p.summaries, err = state.NewSummaries(b.JetStream(), c); err != nil {
		return err
	}
	// The pool runs without summaries: each tick tries again.
	if err := p.summaries.Create(ctx); err != nil {
		log.Warn("ticks have no summaries", "err", err)
	}
	reportLedger(ctx, p.ledger, c.Stream(), log)
	reportLedger(ctx, p.summaries, c.Summaries(), log)
	p.orders, err = state.OpenOrders(ctx, b.JetStream(), a.pool.Cluster, a.pool.Name, b.Replicas())
	return err
}

// LedgerConfig returns the settings of a new ledger and its summaries.
func LedgerConfig(pool config.Pool, replicas int) state.LedgerConfig {
	return state.LedgerConfig{
		Cluster: pool.Cluster, Pool: pool.Name, Replicas: replicas, MaxAge: pool.Ledger.MaxAge, MaxBytes: int64(pool.Ledger.MaxBytes),
		SummaryAge: pool.Ledger.Summaries.MaxAge, SummaryBytes: int64(pool.Ledger.Summaries.MaxBytes),
	}
}

// reportLedger logs how the existing ledger differs from the pool file, and the command that changes it. Processes
// change no stream.
func reportLedger(ctx context.Context, ledger *state.Ledger, want jetstream.StreamConfig, log *slog.Logger) {
	age, bytes, err := ledger.Kept(ctx)
	if err != nil || age == want.MaxAge && bytes == want.MaxBytes {
		return // an error shows at the first record
	}
	log.Warn("ledger keeps other bounds than the pool file", "stream", want.Name, "max_age", age.String(), "max_bytes", bytes,
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

// summarize stores the summary of a tick.
func (p *poolDependencies) summarize(ctx context.Context, r api.TickRecord) error {
	data, err := json.Marshal(history.SummaryOf(r))
	if err != nil {
		return fmt.Errorf("encode the summary: %w", err)
	}
	return p.summaries.Append(ctx, data)
}

// world returns a loop's dependencies, except those of its term.
func (p *poolDependencies) world(a autoscaling) autoscaler.World {
	return autoscaler.World{
		Provider: p.provider, Scheduler: p.nodes, Cordon: p.nodes, Directory: a.directory,
		Dial: dialSignal(a.pool.Cluster, a.pool.Name), Metrics: p.store, Ledger: p.ledger, Summarize: p.summarize, Orders: p.orders,
		Version: daemon.BuildVersion(),
	}
}
