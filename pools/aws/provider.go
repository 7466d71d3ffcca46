// Package aws is the provider for AWS: the Auto Scaling groups and Spot Fleet requests of one pool.
// It finds them by tag or by Clusterman's list in S3, and uses aws-sdk-go-v2.
//
//	p, err := aws.Open(ctx, aws.Config{Cluster: "everywhere-prod", Pool: "default", Region: "us-west-2",
//		Groups: []aws.Selector{{Kind: aws.AutoScaling, Tag: "weir:pool"}}}, log)
//	found, err := p.Groups(ctx)                     // once a tick: reads all groups
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
	"errors"
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
	endRights *endRights

	queueFailures queueFailures
}

var (
	_ pools.Provider    = (*Provider)(nil)
	_ pools.Inspector   = (*Provider)(nil)
	_ pools.RepairOwner = (*Provider)(nil)
	_ pools.Addresser   = (*Provider)(nil)
)

// Open reads the pool's groups once, and logs what it cannot read. If it finds no group, or the configuration is invalid, this is
// an error.
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
		cfg: cfg, aws: c, log: log, roster: r, finder: &finder{cfg: cfg, aws: c, last: map[Selector]map[string]string{}}, inspector: &inspector{r, b}, repairOwner: &repairOwner{r, log},
		troubles: &troubles{aws: c, now: cfg.Now, refreshed: map[string]refreshed{}}, balancers: b,
		types:     &typeSizes{aws: c, now: cfg.Now, known: map[string]resource.Vector{}},
		endRights: &endRights{aws: c, now: cfg.Now, fleets: map[string]endRight{}},
	}
	found, err := p.Groups(ctx)
	if err != nil {
		return nil, err
	}
	for _, g := range found.Groups {
		p.log.Info("group found", "group", g.ID())
	}
	if err := unreadable(ctx, found); err != nil {
		p.log.Warn("not all of the pool was read", "err", err)
	}
	return p, nil
}

// Groups implements pools.Provider. It reads all groups.
func (p *Provider) Groups(ctx context.Context) (pools.Listing, error) {
	began := p.next()
	l := p.find(ctx)
	for kind, err := range l.missing { // the order does not matter
		for _, id := range p.names(Kind(kind)) {
			if !l.has(id) {
				l.addUnread(id, err)
			}
		}
	}
	readings := p.readings(ctx, l)
	if len(readings) == 0 && !p.everRead() {
		var causes []error
		for _, n := range l.notes {
			causes = append(causes, n)
		}
		causes = append(causes, l.missing.Err())
		for _, id := range slices.Sorted(maps.Keys(l.unread)) {
			causes = append(causes, l.unread[id])
		}
		return pools.Listing{}, fmt.Errorf("read the groups of pool %s: %w", p.cfg.Pool, errors.Join(causes...))
	}
	for action, err := range p.queueFailures.current(p.cfg.Now()) {
		l.addNote(action+" on queue "+p.cfg.Queue, err)
	}
	p.troubles.forget(readings, l.unread)
	return pools.Listing{Groups: p.storeReadings(began, readings, l.unread, p), Missing: l.missing, Notes: l.notes}, nil
}

// readings reads all data of the groups' snapshots.
func (p *Provider) readings(ctx context.Context, l *listing) map[string]*reading {
	readings := make(map[string]*reading)
	store := func(kind Kind, id string, r *reading, err error) {
		if err != nil {
			l.addUnread(id, fmt.Errorf("%s %s: %w", kind.noun(), id, err))
			delete(readings, id)
			return
		}
		r.isolation, readings[id] = l.isolation[id], r
	}
	for name, g := range l.asgs {
		r, err := readGroup(g)
		store(AutoScaling, name, r, err)
	}
	members, unread := p.aws.members(ctx, slices.Sorted(maps.Keys(l.fleets)))
	for id, f := range l.fleets {
		if err := unread[id]; err != nil {
			l.addUnread(id, err)
			continue
		}
		r, err := readFleet(f, members[id])
		store(SpotFleet, id, r, err)
	}
	undescribed := p.describe(ctx, readings)
	l.addNote("properties of new instances", undescribed)
	for id, f := range l.fleets { // the weight depends on the zone
		r := readings[id]
		err := weigh(f, r)
		if err == nil && r.unplaced() {
			err = undescribed
		}
		store(SpotFleet, id, r, err)
	}
	l.addNote("sizes of instance types", p.types.fill(ctx, readings))
	for id, err := range p.endRights.fill(ctx, readings) {
		l.addNote("right to end instances of "+id, err)
	}
	l.addNote("marks of instances", p.marks(ctx, readings))
	l.notes = append(l.notes, p.troubles.request(ctx, readings)...)
	return readings
}
