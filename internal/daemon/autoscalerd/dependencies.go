package autoscalerd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/awssdk"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/store"
	"github.com/weirkeeper/weirkeeper/metrics/windows"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
	"github.com/weirkeeper/weirkeeper/pools/provider"
)

// poolDependencies has the dependencies that live as long as the process, as holder or standby.
type poolDependencies struct {
	questions *placerbus.Questions
	nodes     *local.Nodes
	provider  pools.Provider
	// receive sends the provider's warnings and hints to two channels until its context ends. Either channel may be nil.
	// receive is nil if the provider sends neither.
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
	p := &poolDependencies{questions: placerbus.NewQuestions(b.Conn(), cluster, pool), nodes: local.NewNodes(b.Conn(), cluster, pool, receiptAge, log)}
	parts.Run("nodes", p.nodes.Run)
	opening := daemon.NewServices(parts.Context())
	opening.Run("signs of life", func(ctx context.Context) error { return standBy(ctx, a.directory) })
	err := opening.Stop(daemon.WaitForState(opening.Context(), log, a.waits, func(ctx context.Context) error { return p.openState(ctx, b, a, log) }))
	if err != nil {
		return nil, err
	}
	inner, err := daemon.OpenWindows(a.service, b, cluster, store.PoolWriter(pool))
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

// openState opens the bucket and the streams of the pool. Each must exist.
func (p *poolDependencies) openState(ctx context.Context, b *bus.Bus, a autoscaling, log *slog.Logger) (err error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	js, cluster, pool := b.JetStream(), a.pool.Cluster, a.pool.Name
	if p.orders, err = state.OpenOrders(ctx, js, cluster, pool); err != nil {
		return err
	}
	if p.ledger, err = state.OpenLedger(ctx, js, cluster, pool); err != nil {
		return err
	}
	if p.summaries, err = state.OpenSummaries(ctx, js, cluster, pool); err != nil {
		return err
	}
	if p.evidence, err = state.NewEvidence(js, cluster, pool); err != nil {
		return err
	}
	if err := errors.Join(p.ledger.Check(ctx), p.summaries.Check(ctx), p.evidence.Check(ctx)); err != nil {
		return err
	}
	bounds := a.pool.Streams()
	reportBounds(ctx, p.ledger, names.LedgerStream(cluster, pool), cmp.Or(bounds.LedgerAge, streams.LedgerAge), cmp.Or(bounds.LedgerBytes, streams.LedgerBytes), log)
	reportBounds(ctx, p.summaries, names.SummaryStream(cluster, pool), cmp.Or(bounds.SummaryAge, streams.SummaryAge), cmp.Or(bounds.SummaryBytes, streams.SummaryBytes), log)
	return nil
}

// reportBounds logs how the bounds of a stream differ from the pool file, and the command that changes them. Processes change no
// stream.
func reportBounds(ctx context.Context, ledger *state.Ledger, stream string, wantAge time.Duration, wantBytes int64, log *slog.Logger) {
	age, bytes, err := ledger.Kept(ctx)
	if err != nil || age == wantAge && bytes == wantBytes {
		return // an error shows at the first record
	}
	log.Warn("ledger keeps other bounds than the pool file", "stream", stream, "max_age", age.String(), "max_bytes", bytes,
		"change", fmt.Sprintf("nats stream edit %s --max-age=%v --max-bytes=%d", stream, wantAge, wantBytes))
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
			Keys:   awssdk.KeysOf(a.service.AWS.AccessKeyFile),
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
	return pricesOf(a.service.Prices).into(autoscaler.World{
		Provider: p.provider, Scheduler: p.nodes, Cordon: p.nodes, Directory: a.directory,
		Dial: dialSignal(a.pool.Cluster, a.pool.Name), Metrics: p.store, Ledger: autoscaler.EncodedLedger{Bytes: p.ledger}, Summarize: p.summarize, Orders: p.orders,
		Version: daemon.BuildVersion(), Places: p.places, NodeScheduler: p.nodes.Scheduler, Gone: p.nodes.Gone,
	})
}

// places implements autoscaler.World.Places.
func (p *poolDependencies) places(ctx context.Context, q api.PlacesQuestion) (api.Places, error) {
	answer, err := p.questions.Get(ctx, q)
	if errors.Is(err, nats.ErrNoResponders) {
		err = fmt.Errorf("%w: %w", autoscaler.ErrNoPlaces, err)
	}
	return answer, err
}
