package aws

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirkeeper/weirkeeper/pools"
)

// atOnce is how many requests of one kind are in flight at the same time.
const atOnce = 4

// Provider is the pools.Provider of one pool at Amazon.
type Provider struct {
	cfg Config
	aws *clients
	log *slog.Logger

	mu        sync.Mutex
	moment    uint64               // counts beginnings of rounds and ends of writes
	known     map[string]facts     // instances of the last round
	groups    map[string]*group    // all that were ever found
	refreshed map[string]refreshed // by group
	reclaimed map[string]time.Time // instances that Amazon warned it takes back
	named     map[string]string    // ARNs of target groups, by name
	watched   []string             // ARNs of those that were asked for by name last
}

var (
	_ pools.Provider  = (*Provider)(nil)
	_ pools.Inspector = (*Provider)(nil)
	_ pools.Healer    = (*Provider)(nil)
)

// Open reads the pool's groups once: ErrNothingFound if a selector finds none,
// ErrTwoPools if a group is also another pool's, an error that says what is wrong
// if the configuration is not valid or Amazon does not answer.
func Open(ctx context.Context, cfg Config, log *slog.Logger) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("aws provider: %w", err)
	}
	cfg = cfg.withDefaults()
	c, err := newClients(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("aws provider of pool %s: %w", cfg.Pool, err)
	}
	p := &Provider{
		cfg: cfg, aws: c, log: log.With("pool", cfg.Pool), groups: map[string]*group{}, refreshed: map[string]refreshed{},
		reclaimed: map[string]time.Time{}, named: map[string]string{},
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

// Groups implements pools.Provider: one round of reading.
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
	return p.keep(began, readings), nil
}

// next returns the next moment: what comes later has a greater one.
func (p *Provider) next() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moment++
	return p.moment
}

// readings reads all that the groups' snapshots are made of.
func (p *Provider) readings(ctx context.Context, found listing) (map[string]*reading, error) {
	members, err := p.members(ctx, slices.Sorted(maps.Keys(found.fleets)))
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
	if err := p.marks(ctx, readings); err != nil {
		return nil, err
	}
	return readings, p.troubles(ctx, readings)
}

// troubles asks what is under way at the groups, and what keeps those that have
// less than they ask for.
func (p *Provider) troubles(ctx context.Context, readings map[string]*reading) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for _, r := range readings {
		work.Go(func() error {
			if err := p.refreshes(ctx, r); err != nil {
				return err
			}
			return p.shortage(ctx, r)
		})
	}
	return work.Wait()
}

// keep makes the readings what the groups' snapshots give, unless a round that
// began later was faster, and returns the groups in order of id.
func (p *Provider) keep(began uint64, readings map[string]*reading) []pools.Group {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := make(map[string]facts)
	var groups []pools.Group
	for _, id := range slices.Sorted(maps.Keys(readings)) {
		r := readings[id]
		for _, i := range r.instances {
			known[i.ID] = i.facts
		}
		g := p.groups[id]
		if g == nil {
			g = &group{p: p, id: id, turn: make(chan struct{}, 1), own: newOwn()}
			p.groups[id] = g
		}
		g.update(began, r)
		if r.Kind == string(SpotFleet) {
			groups = append(groups, fleet{g})
		} else {
			groups = append(groups, scaling{g})
		}
	}
	for id, g := range p.groups {
		if readings[id] == nil {
			g.update(began, nil)
			delete(p.refreshed, id)
		}
	}
	p.known = known
	forget(p.reclaimed, p.cfg.Now(), leaving)
	return groups
}

// fact returns what is known of an instance.
func (p *Provider) fact(id string) (facts, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, ok := p.known[id]
	return f, ok
}
