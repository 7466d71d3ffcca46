package local

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// resume starts the machines that ran, or were under repair, when the earlier owner ended.
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

// restart starts a machine that has no process, and ends its repair if one is in progress.
func (p *Provider) restart(ctx context.Context, now time.Time, m *machines, i *machine) {
	var err error
	if i.attempt.open() && i.attempt.Kind == api.RepairRebuild {
		err = p.wipe(i.ID)
	}
	if err == nil {
		err = p.start(ctx, m, i.ID)
	}
	i.repairEnded(err)
	if err != nil {
		p.log.Error("machine not started", "group", m.cfg.ID, "node", i.ID, "err", err)
		if !p.keepStopped {
			m.lost(now, i)
			p.discard(i.ID)
		}
	}
	p.saveOrLog()
}

// repair begins a repair, or returns the state of one. It saves a new attempt before it changes the
// machine.
func (p *Provider) repair(ctx context.Context, m *machines, r repairRequest) (done bool, err error) {
	begin := false
	err = p.change(m, r.Instance, func() (err error) {
		begin, done, err = m.repair(r)
		return err
	})
	i := m.live[r.Instance]
	if err != nil || !begin || i.power != repairing {
		return done, err
	}
	p.log.Info("repair begun", "group", m.cfg.ID, "node", i.ID, "kind", r.Kind, "attempt", r.Attempt)
	switch {
	case p.children[i.ID] == nil:
		p.restart(ctx, time.Now(), m, i)
	case r.Kind == api.RepairReboot:
		p.stop(context.Background(), i.ID)
	default:
		p.kill(i.ID)
	}
	return false, nil
}

// isolate fences a machine. Whether it stays stopped or is replaced depends on the repair owner.
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

// lift removes the SERVICE fence of a machine.
func (p *Provider) lift(m *machines, id string) error {
	return p.change(m, id, func() error {
		i, err := m.find(id)
		if i != nil {
			i.fenced = false
		}
		return err
	})
}

// change calls do, which changes one machine, and saves the result. If that fails, the machine is
// unchanged.
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

// setRepairOwner sets whether the owner replaces dead machines. If it does again, stopped machines are
// replaced too.
func (p *Provider) setRepairOwner(on bool) error {
	if p.keepStopped == !on {
		return nil
	}
	p.keepStopped = !on
	if err := p.save(); err != nil {
		p.keepStopped = on
		return err
	}
	p.log.Info("repair owner changed", "replaces_the_dead", on)
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

// markUnhealthy replaces a machine if the owner owns its repair. Otherwise inspections report the
// mark.
func (p *Provider) markUnhealthy(r markRequest) error {
	for _, g := range p.cfg.Groups {
		m := p.groups[g.ID]
		i, err := m.find(r.Instance)
		if err != nil {
			continue // it may belong to the next group
		}
		if i == nil || i.State == api.InstanceTerminating {
			return nil
		}
		i.unfit = cmp.Or(r.Why[:min(len(r.Why), maxWhy)], "marked as unhealthy")
		if !p.keepStopped {
			p.log.Info("machine replaced as unhealthy", "group", g.ID, "node", i.ID, "why", i.unfit)
			i.State = api.InstanceTerminating
			p.end(m, i.ID)
		}
		return nil
	}
	return fmt.Errorf("%w: %.140q is not in any group of the pool", pools.ErrNotOwned, r.Instance)
}

// kill ends a machine's process at once, even if it is frozen. The channel gone receives its end.
func (p *Provider) kill(id string) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	p.stop(now, id)
}
