package apps

import "time"

func (m *Machine) expectedApp(now time.Time, ev ExpectedApp) {
	a := m.app(now, ev.Name)
	old, was := a.want, a.row
	a.want, a.pass = ev.App, m.pass
	m.setRow(a, rowPresent)
	if was == rowPresent && old.Equal(ev.App) {
		return
	}
	m.join(a, ev.Pool)
	for i := range a.want.Instances {
		if was != rowPresent || i >= old.Instances {
			m.mark(a.slot(i))
		}
	}
	if was != rowPresent || old.Version != a.want.Version {
		a.renew(m)
		return
	}
	for i := a.want.Instances; i < old.Instances; i++ {
		m.mark(a.slot(i))
	}
}

// renew begins anew with every index: what was nudged, and what crashed, was
// another version.
func (a *app) renew(m *Machine) {
	for _, s := range a.slots {
		s.cause, s.crashes = WhyNew, 0
		s.pending, s.restart = time.Time{}, time.Time{}
		m.mark(s)
	}
}

func (m *Machine) join(a *app, name string) {
	p := m.pools[name]
	if p == nil {
		p = &pool{apps: map[string]*app{}}
		m.pools[name] = p
	}
	if a.pool != nil && a.pool != p {
		delete(a.pool.apps, a.name)
		a.pool.revision++
	}
	a.pool = p
	p.apps[a.name] = a
	p.revision++
}

func (m *Machine) expectedUnreadable(now time.Time, ev ExpectedUnreadable) {
	a := m.app(now, ev.Name)
	a.pass = m.pass
	switch a.row {
	case rowPresent, rowUnreadable:
	case rowVanished: // it is there again, and this is the row that was known
		m.setRow(a, rowPresent)
		for i := range a.want.Instances {
			m.mark(a.slot(i))
		}
		a.markAll(m)
	case rowUnknown, rowDeleted: // a row from before its deletion says nothing of this one
		m.setRow(a, rowUnreadable)
		a.markAll(m)
	}
}

func (m *Machine) expectedGone(ev ExpectedGone) {
	if a := m.apps[ev.Name]; a != nil {
		a.lose(m, rowDeleted, time.Time{})
	}
}

func (m *Machine) expectedComplete(now time.Time) {
	m.expected, m.completed = true, now
	for _, a := range m.apps {
		switch {
		case a.pass == m.pass:
		case a.row == rowPresent:
			a.lose(m, rowVanished, now)
		case a.row == rowUnreadable: // leaves no row that could stand if it is told again
			a.lose(m, rowUnknown, now)
		}
	}
}

// lose takes the app's row away; its copies have grace from then on.
func (a *app) lose(m *Machine, row rowState, grace time.Time) {
	a.grace = grace
	m.setRow(a, row)
	if a.pool != nil {
		a.pool.revision++
	}
	a.markAll(m)
	m.dropIfEmpty(a)
}
