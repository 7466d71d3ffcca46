// Package aws is the provider for AWS: the Auto Scaling groups and Spot Fleet requests of one pool.
// It finds them by tag or by Clusterman's list in S3, and uses aws-sdk-go-v2.
//
//	p, err := aws.Open(ctx, aws.Config{Cluster: "everywhere-prod", Pool: "default", Region: "us-west-2",
//		Groups: []aws.Selector{{Kind: aws.AutoScaling, Tag: "weir:pool"}}}, log)
//	groups, err := p.Groups(ctx)                    // once a tick: reads all groups
//	err = p.ReceiveNotices(ctx, warnings, hints)    // in parallel: warnings and changes
//	seen, err := p.Inspect(ctx, pools.Inspecting{}) // health of the instances
//
// A tag's value is JSON with "pool" and "paasta_cluster" (or "cluster"), or the text CLUSTER/POOL.
//
// Groups reads each list once, page by page, for any number of groups. Two kinds of requests are
// made for each group: instance refreshes (at most every 30 seconds, and before each write while
// none is known), and the cause of missing capacity. Each instance is described once, when it first
// appears, and so is each instance type that a group may launch. A group's Snapshot returns the latest read, overlaid with later writes of the same
// Provider.
//
// AWS must not choose instances to terminate. A write raises the target, or lowers it by
// terminating instances by id. SetTarget lowers the target only to the existing weight, unless all
// instances are protected from scale-in. A group that protects new instances works best. Protection
// that every instance has is not an operator's mark on one of them.
//
// Groups repair their instances in place (pools.Repairer) and fence them (pools.Isolator). Each
// attempt is recorded in a tag of the instance or of the task. Another process that continues the
// same attempt begins nothing twice. A pool has one repair owner: OwnsRepair reports whether it is AWS.
//
// Requests stay below the limits of AWS, and the SDK's adaptive retries repeat them within the
// context. Errors name the action and the resource. They wrap pools.ErrRefused, ErrShort or
// ErrThrottled if AWS reports such a cause.
//
// A Provider and its groups may be used concurrently.
package aws

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Provider is the pools.Provider of one pool at AWS.
type Provider struct {
	cfg Config
	aws *clients
	log *slog.Logger
	*roster
	*finder
	*inspector
	*repairOwner
	troubles  *troubles
	balancers *balancers
	types     *typeSizes
}

var (
	_ pools.Provider    = (*Provider)(nil)
	_ pools.Inspector   = (*Provider)(nil)
	_ pools.RepairOwner = (*Provider)(nil)
	_ pools.Addresser   = (*Provider)(nil)
)

// Open reads the pool's groups once. If a selector finds none, the error is errNothingFound. If
// another pool claims a group too, it is errTwoPools. An invalid configuration or a failed request
// is an error too.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("aws provider: %w", err)
	}
	cfg = cfg.withDefaults()
	c, err := newClients(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("aws provider of pool %s: %w", cfg.Pool, err)
	}
	log = log.With("pool", cfg.Pool)
	r, b := newRoster(c, cfg.Now), &balancers{aws: c, named: map[string]string{}}
	p := &Provider{
		cfg: cfg, aws: c, log: log, roster: r, finder: &finder{cfg, c}, inspector: &inspector{r, b}, repairOwner: &repairOwner{r, log},
		troubles: &troubles{aws: c, now: cfg.Now, refreshed: map[string]refreshed{}}, balancers: b,
		types: &typeSizes{aws: c, now: cfg.Now, log: log, known: map[string]resource.Vector{}},
	}
	groups, err := p.Groups(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		p.log.Info("group found", "group", g.ID())
	}
	return p, nil
}

// Groups implements pools.Provider. It reads all groups.
func (p *Provider) Groups(ctx context.Context) ([]pools.Group, error) {
	began := p.next()
	found, err := p.find(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the groups of pool %s: %w", p.cfg.Pool, err)
	}
	readings, err := p.readings(ctx, found)
	if err != nil {
		return nil, fmt.Errorf("read the groups of pool %s: %w", p.cfg.Pool, err)
	}
	p.troubles.forget(readings)
	return p.storeReadings(began, readings, p), nil
}

// readings reads all data of the groups' snapshots.
func (p *Provider) readings(ctx context.Context, found listing) (map[string]*reading, error) {
	members, err := p.aws.members(ctx, slices.Sorted(maps.Keys(found.fleets)))
	if err != nil {
		return nil, err
	}
	readings := make(map[string]*reading)
	for name, g := range found.asgs {
		if readings[name], err = readGroup(g); err != nil {
			return nil, fmt.Errorf("%s %s: %w", AutoScaling.noun(), name, err)
		}
	}
	for id, f := range found.fleets {
		if readings[id], err = readFleet(f, members[id]); err != nil {
			return nil, fmt.Errorf("%s %s: %w", SpotFleet.noun(), id, err)
		}
	}
	for id, r := range readings {
		r.isolation = found.isolation[id]
	}
	if err := p.describe(ctx, readings); err != nil {
		return nil, err
	}
	for id, f := range found.fleets { // the weight depends on the zone
		if err := weigh(f, readings[id]); err != nil {
			return nil, fmt.Errorf("%s %s: %w", SpotFleet.noun(), id, err)
		}
	}
	p.types.fill(ctx, readings)
	if err := p.aws.marks(ctx, readings); err != nil {
		return nil, err
	}
	return readings, p.troubles.request(ctx, readings)
}
