package autoscalerd

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/signalbucket"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/windows"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/aws"
	"github.com/weirkeeper/weirkeeper/pools/local"
)

// partsOfPool is what an autoscaler has of its pool for as long as its process
// runs, in office or standing by.
type partsOfPool struct {
	nodes    *local.Nodes
	provider pools.Provider
	// hear gives what the provider warns of, and what else it tells, to two channels
	// until its context ends; either may be nil. nil: it tells nothing.
	hear   func(ctx context.Context, warnings, hints chan<- pools.Notice) error
	store  metrics.Store
	ledger *state.Ledger
	orders *state.Orders
}

// openParts opens them, and runs those that run.
func openParts(parts *daemon.Services, b *bus.Bus, a autoscaling, log *slog.Logger) (*partsOfPool, error) {
	cluster, pool := a.pool.Cluster, a.pool.Name
	p := &partsOfPool{nodes: local.NewNodes(b.Conn(), cluster, pool, nodeMaxAge, log)}
	parts.Run("nodes", p.nodes.Run)
	ctx, cancel := context.WithTimeout(parts.Context(), openTimeout)
	defer cancel()
	var err error
	if p.ledger, err = state.OpenLedger(ctx, b.JetStream(), cluster, pool); err != nil {
		return nil, err
	}
	if p.orders, err = state.OpenOrders(ctx, b.JetStream(), cluster, pool); err != nil {
		return nil, err
	}
	inner, err := daemon.OpenMetrics(a.service, b, cluster)
	if err != nil {
		return nil, err
	}
	if p.store, err = windows.New(inner, windows.Config{}); err != nil {
		return nil, err
	}
	if !a.pool.Cloud() {
		var groups []string
		for _, g := range a.pool.Groups {
			groups = append(groups, g.Local.Name)
		}
		p.provider = local.NewPool(b.Conn(), cluster, pool, groups...)
		return p, nil
	}
	return p, p.openCloud(parts.Context(), a, log)
}

// openCloud finds the pool's groups at AWS.
func (p *partsOfPool) openCloud(ctx context.Context, a autoscaling, log *slog.Logger) error {
	c, err := cloudConfig(a, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cloudTimeout)
	defer cancel()
	provider, err := aws.Open(ctx, c, log)
	if err != nil {
		return err
	}
	p.provider = provider
	if c.Queue != "" && !a.dryRun {
		p.hear = provider.Hear
	}
	return nil
}

// cloudConfig says where the pool's groups are.
func cloudConfig(a autoscaling, log *slog.Logger) (aws.Config, error) {
	cluster := a.pool.Cluster
	keys, err := signalbucket.AccessKeys(a.service)
	if err != nil {
		return aws.Config{}, err
	}
	c := aws.Config{
		Cluster: cluster, Pool: a.pool.Name, Region: a.service.RegionOf(cluster),
		Endpoints: a.service.AWS.Endpoint, AccessKey: keys.Access, SecretKey: keys.Secret, Groups: selectors(a.pool),
		Queue: cmp.Or(a.pool.EventQueue(), a.service.WarningQueue(cluster)),
	}
	claims, err := config.Claims(a.configs, cluster, a.pool.Name)
	if err != nil {
		log.Warn("not all other pools' files can be read: whether a group is in two pools is not sure", "err", err)
	}
	for _, pool := range slices.Sorted(maps.Keys(claims)) {
		for _, s := range selectors(config.Pool{Groups: claims[pool]}) {
			if s.Tag != "" {
				c.Others = append(c.Others, aws.Claim{Pool: pool, Kind: s.Kind, Tag: s.Tag})
			}
		}
	}
	return c, nil
}

func selectors(p config.Pool) []aws.Selector {
	var out []aws.Selector
	isolation := ""
	if p.Health != nil {
		isolation = p.Health.Isolation
	}
	for _, g := range p.Groups {
		switch {
		case g.ASG != nil:
			out = append(out, aws.Selector{Kind: aws.AutoScaling, Tag: g.ASG.Tag, Isolation: isolation})
		case g.SFR != nil && g.SFR.S3 != nil:
			out = append(out, aws.Selector{Kind: aws.SpotFleet, S3Bucket: g.SFR.S3.Bucket, S3Prefix: g.SFR.S3.Prefix, Isolation: isolation})
		case g.SFR != nil:
			out = append(out, aws.Selector{Kind: aws.SpotFleet, Tag: g.SFR.Tag, Isolation: isolation})
		}
	}
	return out
}

// world is what a loop acts on, but for what belongs to its term of office.
func (p *partsOfPool) world(a autoscaling) autoscaler.World {
	return autoscaler.World{
		Provider: p.provider, Scheduler: p.nodes, Cordon: p.nodes, Directory: a.directory,
		Dial: dialSignal(a.pool.Cluster, a.pool.Name), Metrics: p.store, Ledger: p.ledger, Orders: p.orders,
		Version: daemon.BuildVersion(),
	}
}
