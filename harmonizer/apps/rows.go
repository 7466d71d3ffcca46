package apps

import (
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// source is how far the expected state can be trusted.
type source struct {
	isComplete bool
	since      instant // complete since then, for this time
	trusted    instant // for how long it was complete before, in all
	until      instant // complete until then; 0: until it is lost
	why        string  // why it is not
	failed     string  // why the latest pass did

	polled bool
	pass   uint32 // which telling of all rows this is
	whole  uint32 // the last that was told to its end
	rows   int    // apps with a row, readable or not
	heard  int    // of them, told in this pass
	before int    // there were when this pass began
}

func (s *source) begin() {
	s.polled = true
	s.next()
}

func (s *source) lose(at instant, why string) {
	s.distrust(at, why)
	s.next()
}

// distrust ends that the rows are complete.
func (s *source) distrust(at instant, why string) {
	s.trusted = s.trust(at)
	s.isComplete, s.why = false, why
}

// trust is for how long the source was complete, in all: a clock that stands while
// nothing can be concluded from a row that is not told.
func (s *source) trust(at instant) instant {
	if s.isComplete {
		return s.trusted + at - s.since
	}
	return s.trusted
}

// next begins a telling of all rows.
func (s *source) next() {
	s.pass++
	s.before, s.heard = s.rows, 0
}

// told notes that an app's row was told in this pass.
func (s *source) told(a *app) {
	if a.has() && a.pass != s.pass {
		s.heard++
	}
	a.pass = s.pass
}

// tally counts rows; it comes before the app's row becomes row.
func (s *source) tally(a *app, row rowState) {
	by := count(row == rowPresent || row == rowUnreadable) - count(a.has())
	s.rows += by
	if a.pass == s.pass {
		s.heard += by
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// has reports whether the app has a row, be it one that cannot be read.
func (a *app) has() bool { return a.row == rowPresent || a.row == rowUnreadable }

func (s *source) complete(t clock, validFor time.Duration) {
	if !s.isComplete {
		s.isComplete, s.since = true, t.now
	}
	if s.until = 0; validFor > 0 {
		s.until = t.in(validFor)
	}
	s.whole, s.failed = s.pass, ""
}

// row takes in a row of the expected state.
func (m *Machine) row(want message.App) {
	if want.State == "" {
		want.State = message.AppStarted
	}
	if want.Package == "" {
		want.Package = message.PackageStaged
	}
	a := m.apps.ensure(m.known.App(want.Name), want.Name)
	m.vanish(a)
	m.source.told(a)
	if a.stale && m.source.pass > a.outdated {
		a.stale = false
		m.apps.markAll(a)
	}
	if a.row == rowPresent && a.want.Equal(want) {
		return
	}
	m.change(a, want)
}

// change puts a new row in place of what was known, and has each index that it
// concerns looked at.
func (m *Machine) change(a *app, want message.App) {
	had, old, was := a.row == rowPresent, a.want, a.expected()
	m.apps.recount(a, func() {
		m.setRow(a, rowPresent)
		a.want = want
	})
	m.apps.join(a, want.Pool)
	a.pool.revision++ // its footprint may be another
	m.apps.undesire(a)
	begins := !had || old.State != want.State && want.State == message.AppStarted
	switch {
	case begins || old.Version != want.Version:
		a.renewed++
		for s := a.slots; s != nil; s = s.next {
			m.renew(s)
		}
		m.memory.rowBack(a)
		m.apps.markAll(a)
		was = 0
	case old.State != want.State, old.Package != want.Package, want.Instances < old.Instances:
		m.apps.markAll(a)
	}
	for index := was; index < a.expected(); index++ {
		m.backlog.mark(at(a.id, index))
	}
	if begins || old.State != want.State || old.Version != want.Version ||
		old.Package != want.Package || old.Instances != want.Instances {
		m.resetGrace(a)
	}
}

// setRow changes what is known of the app's row.
func (m *Machine) setRow(a *app, row rowState) {
	m.source.tally(a, row)
	if a.rowless() && row != rowUnknown && row != rowVanished {
		m.rowLoss.regain(a)
	}
	m.apps.setRow(a, row)
}

func (m *Machine) unreadable(name string) {
	a := m.apps.ensure(m.known.App(name), name)
	m.vanish(a)
	m.source.told(a)
	switch a.row {
	case rowPresent, rowUnreadable:
	case rowVanished: // it is there again, and this is the row that was known
		m.change(a, a.want)
	case rowUnknown, rowDeleted: // a row from before its deletion says nothing of this one
		m.apps.recount(a, func() { m.setRow(a, rowUnreadable) })
		m.apps.markAll(a)
	}
}

func (m *Machine) gone(name string) {
	if a := m.apps.lookup(name); a != nil {
		m.loseRow(a, rowDeleted)
		m.memory.forget(name)
	}
}

// vanish takes away the row of an app that the last whole pass did not tell.
func (m *Machine) vanish(a *app) {
	if a.pass >= m.source.whole {
		return
	}
	switch a.row {
	case rowPresent:
		m.loseRow(a, rowVanished)
	case rowUnreadable: // leaves no row that could stand if it is told again
		m.loseRow(a, rowUnknown)
	}
}

// loseRow takes an app's row away. What it remembers of crashes is kept for a
// while, in case the row comes back.
func (m *Machine) loseRow(a *app, row rowState) {
	if row == rowVanished {
		m.memory.rowLost(a)
	}
	m.apps.recount(a, func() { m.setRow(a, row) })
	a.seen, a.untold = m.clock.now, m.source.trust(m.clock.now)
	a.stale, a.grace = false, 0
	a.renewed++
	if a.pool != nil {
		a.pool.revision++
	}
	m.apps.undesire(a)
	for s := a.slots; s != nil; s = s.next {
		m.renew(s)
	}
	m.apps.markAll(a)
}

// updated notes that a row is older than the app, if a pass will tell a newer one.
func (m *Machine) updated(name string) {
	a := m.apps.lookup(name)
	if a == nil || !m.cfg.controlled() {
		return
	}
	m.resetGrace(a)
	if m.source.polled {
		a.stale, a.outdated = true, m.source.pass
	}
}

func (m *Machine) expectedComplete(validFor time.Duration) {
	m.rowLoss.watchRows()
	m.source.complete(m.clock, validFor)
	if m.source.rows != m.source.heard {
		m.sweeping = 0 // there are rows that were not told
	}
}

// sweep takes away the rows that the last whole pass did not tell, some at a time.
func (m *Machine) sweep() {
	end := min(m.sweeping+m.limits.sweep, len(m.apps.list))
	for _, a := range m.apps.list[m.sweeping:end] {
		if a != nil {
			m.vanish(a)
		}
	}
	if m.sweeping = end; end == len(m.apps.list) {
		m.sweeping = noSweep
	}
}

func (m *Machine) resetGrace(a *app) {
	if m.cfg.controlled() {
		a.grace = m.clock.in(*m.cfg.ResetGrace)
	}
}

// expireRows ends the time for which the last whole pass counts.
func (m *Machine) expireRows() {
	s := &m.source
	if !s.isComplete || s.until == 0 || m.clock.now <= s.until {
		return
	}
	why := "the last whole pass is too old"
	if s.failed != "" {
		why += ": " + s.failed
	}
	s.distrust(s.until, why)
}
