package local

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// resume starts again what an earlier owner left running, or under repair.
func (p *Provider) resume(ctx context.Context, now time.Time) {
	for _, g := range p.cfg.Groups {
		m := p.groups[g.ID]
		for _, i := range m.sorted() {
			if i.power != down {
				p.restart(ctx, now, m, i)
			}
		}
	}
}

// restart starts a machine that has no process, and ends its repair if it has one
// under way.
func (p *Provider) restart(ctx context.Context, now time.Time, m *machines, i *machine) {
	var err error
	if i.attempt.open() && i.attempt.Kind == pools.MendRebuild {
		err = p.wipe(i.ID)
	}
	if err == nil {
		err = p.start(ctx, m, i.ID)
	}
	i.mended(err)
	if err != nil {
		p.log.Error("machine not started", "group", m.cfg.ID, "node", i.ID, "err", err)
		if !p.stay {
			m.lost(now, i)
			p.discard(i.ID)
		}
	}
	p.saveOrLog()
}

// mend begins a repair, or looks up what came of it. What is begun is kept before
// the machine is touched.
func (p *Provider) mend(ctx context.Context, m *machines, r mendRequest) (done bool, err error) {
	begin := false
	err = p.change(m, r.Instance, func() (err error) {
		begin, done, err = m.mend(r)
		return err
	})
	i := m.live[r.Instance]
	if err != nil || !begin || i.power != mending {
		return done, err
	}
	p.log.Info("repair begun", "group", m.cfg.ID, "node", i.ID, "kind", r.Kind, "attempt", r.Attempt)
	switch {
	case p.children[i.ID] == nil:
		p.restart(ctx, time.Now(), m, i)
	case r.Kind == pools.MendReboot:
		p.stop(context.Background(), i.ID)
	default:
		p.kill(i.ID)
	}
	return false, nil
}

// isolate fences a machine. Whether it stays stopped, or is replaced, depends on who
// heals.
func (p *Provider) isolate(m *machines, r isolateRequest) (confirmed bool, err error) {
	kill := false
	err = p.change(m, r.Instance, func() (err error) {
		confirmed, kill, err = m.isolate(r.Instance, r.Way)
		return err
	})
	if err == nil && kill {
		p.log.Info("machine fenced", "group", m.cfg.ID, "node", r.Instance)
		p.kill(r.Instance)
	}
	return confirmed, err
}

// lift lifts the fence that has the agent take nothing.
func (p *Provider) lift(m *machines, id string) error {
	return p.change(m, id, func() error {
		i, err := m.find(id)
		if i != nil {
			i.fenced = false
		}
		return err
	})
}

// change does what changes one machine, and keeps it; if that fails nothing has
// changed.
func (p *Provider) change(m *machines, id string, do func() error) error {
	i := m.live[id]
	if i == nil {
		return do()
	}
	before := *i
	err := do()
	if err == nil && *i != before {
		err = p.save()
	}
	if err != nil {
		*i = before
	}
	return err
}

// heal has dead machines replaced from now on, or left as they are. Those that are
// stopped are replaced once we heal.
func (p *Provider) heal(on bool) error {
	if p.stay == !on {
		return nil
	}
	p.stay = !on
	if err := p.save(); err != nil {
		p.stay = on
		return err
	}
	p.log.Info("healing changed", "replaces_the_dead", on)
	for _, m := range p.groups {
		for _, i := range m.sorted() {
			if on && i.power == down {
				m.lost(time.Now(), i)
				p.discard(i.ID)
			}
		}
	}
	return nil
}

// markUnhealthy replaces a machine, if we heal; else the mark is told by inspections.
func (p *Provider) markUnhealthy(r markRequest) error {
	for _, g := range p.cfg.Groups {
		m := p.groups[g.ID]
		i, err := m.find(r.Instance)
		if err != nil {
			continue // it may be of the next group
		}
		if i == nil || i.State == pools.InstanceTerminating {
			return nil
		}
		i.unfit = cmp.Or(r.Why[:min(len(r.Why), maxWhy)], "marked as unhealthy")
		if !p.stay {
			p.log.Info("machine replaced as unhealthy", "group", g.ID, "node", i.ID, "why", i.unfit)
			i.State = pools.InstanceTerminating
			p.end(m, i.ID)
		}
		return nil
	}
	return fmt.Errorf("%w: %.140q is of no group of the pool", pools.ErrNotOwned, r.Instance)
}

// kill ends a machine's process at once, one that is frozen too; gone tells when it
// is.
func (p *Provider) kill(id string) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	p.stop(now, id)
}
