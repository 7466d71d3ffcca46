package cloud

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirkeeper/weirkeeper/pools"
)

// Provider has the groups of a pool, and reports their health. Its reads lag as those of its
// handles.
type Provider struct{ groups []*Group }

var (
	_ pools.Provider    = (*Provider)(nil)
	_ pools.Inspector   = (*Provider)(nil)
	_ pools.RepairOwner = (*Provider)(nil)
)

// NewProvider returns a provider of these groups, which must be in order of id.
func NewProvider(groups ...*Group) *Provider { return &Provider{groups} }

// Groups implements [pools.Provider].
func (p *Provider) Groups(ctx context.Context) (pools.Listing, error) {
	var out pools.Listing
	for _, g := range p.groups {
		if err := g.cloud.admit(ctx); err != nil {
			return pools.Listing{}, err
		}
		out.Groups = append(out.Groups, g)
	}
	return out, nil
}

// SetHealth lets change edit the reported health of an instance, without its state. It reports whether
// the instance exists.
func (g *Group) SetHealth(id string, change func(*pools.Inspection)) (found bool) {
	g.outside(func(c *cloud) {
		if i := c.findLocked(id); i != nil {
			change(&i.health)
			found = true
		}
	})
	return found
}

// inspection returns the reported health of the instance.
func (i *instance) inspection() pools.Inspection {
	in := i.health
	in.ID = i.ID
	in.Stopped = in.Stopped || i.stopped && i.live()
	in.Leaving = in.Leaving || !i.live()
	in.Spot = in.Spot || !i.taken.IsZero()
	return in
}

// Inspect implements [pools.Inspector]. Health that SetHealth did not set is unknown.
func (p *Provider) Inspect(ctx context.Context, what pools.Inspecting) ([]pools.Inspection, error) {
	var out []pools.Inspection
	for _, g := range p.groups {
		seen, err := g.look(ctx)
		if err != nil {
			return nil, fmt.Errorf("inspect group %s: %w", g.ID(), err)
		}
		for _, in := range seen.health {
			if !what.Traffic {
				in.Traffic = pools.HealthCheck{}
			}
			out = append(out, in)
		}
	}
	return out, nil
}

// OwnsRepair implements [pools.RepairOwner]. The provider owns the repair until ReleaseRepair.
func (p *Provider) OwnsRepair(ctx context.Context) (why string, err error) {
	for _, g := range p.groups {
		if err := g.cloud.admit(ctx); err != nil {
			return "", fmt.Errorf("read the repair owner of group %s: %w", g.ID(), err)
		}
		if g.ownsRepair() {
			return fmt.Sprintf("group %s replaces what has stopped", g.ID()), nil
		}
	}
	return "", nil
}

func (g *Group) ownsRepair() bool {
	g.cloud.mu.Lock()
	defer g.cloud.mu.Unlock()
	return g.cloud.ownsRepair
}

// ResumeRepair lets the provider own the repair again, as another party may do.
func (g *Group) ResumeRepair() { g.outside(func(c *cloud) { c.ownsRepair = true }) }

// ReleaseRepair implements [pools.RepairOwner].
func (p *Provider) ReleaseRepair(ctx context.Context) error {
	for _, g := range p.groups {
		if err := g.write(ctx, &Write{Op: ResumeRepair}); err != nil {
			return fmt.Errorf("take over the repairs of group %s: %w", g.ID(), err)
		}
	}
	return nil
}

// ResumeRepair implements [pools.RepairOwner].
func (p *Provider) ResumeRepair(ctx context.Context) error {
	for _, g := range p.groups {
		if err := g.cloud.admit(ctx); err != nil {
			return fmt.Errorf("return the repairs of group %s: %w", g.ID(), err)
		}
		g.ResumeRepair()
	}
	return nil
}

// MarkUnhealthy implements [pools.RepairOwner].
func (p *Provider) MarkUnhealthy(ctx context.Context, id, why string) error {
	for _, g := range p.groups {
		err := g.write(ctx, &Write{Op: ResumeRepair, IDs: []string{id}})
		if errors.Is(err, pools.ErrNotOwned) {
			continue
		}
		if err != nil {
			return fmt.Errorf("mark instance %s unhealthy (%s): %w", id, why, err)
		}
		return nil
	}
	return fmt.Errorf("mark instance %s unhealthy: %w", id, pools.ErrNotOwned)
}

// ownerLocked marks the instance in w as unhealthy. Without an instance it ends the provider's own
// repairs.
func (c *cloud) ownerLocked(w *Write) error {
	if len(w.IDs) == 0 {
		c.ownsRepair = false
		return nil
	}
	if !c.ownsLocked(w.IDs[0]) {
		return fmt.Errorf("%s: %w", w.IDs[0], pools.ErrNotOwned)
	}
	if i := c.findLocked(w.IDs[0]); i != nil {
		i.unfit = true
	}
	return nil
}
