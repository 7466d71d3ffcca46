package apps

import (
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// rowState is what is known of an app's row.
//
//	unknown ──► present ◄──► vanished
//	   ▲         ▲   ▲
//	   │         │   └─────► deleted
//	   ▼         │              ▲
//	   unreadable ◄─────────────┘
type rowState uint8

const (
	rowUnknown    rowState = iota // never told, or gone before it could be read
	rowUnreadable                 // told, and none that could be read stands
	rowPresent                    // told
	rowDeleted                    // its deletion was told
	rowVanished                   // not among the rows of a complete source
)

// app is one application, desired or only seen. Its healthy indices cost nothing
// here: only those in trouble have a slot.
type app struct {
	id   known.AppID
	row  rowState
	want message.App // the last row that could be read; its Name always

	pass     uint32  // in which the row was last told
	outdated uint32  // in which Updated was told
	stale    bool    // Updated was told, and no row of a later pass
	seen     instant // first; without a row, or since it vanished
	untold   instant // the same, by the clock of source.trust: for rule extra_app
	grace    instant // until then the controller has its turn: rule reset_grace
	renewed  uint32  // how often all began anew

	pool    *pool // nil until a row was read
	at      int   // in the pool's apps
	slots   *slot // the first one
	tally   [categories]int32
	extra   int32   // copies that should not run
	crashes []crash // the newest
}

// pool is the apps of one pool.
type pool struct {
	apps     []*app
	total    Totals
	revision uint64
}

// rowless reports whether the app may have a row that nobody told.
func (a *app) rowless() bool { return a.row == rowUnknown || a.row == rowVanished }

func (a *app) name() string { return a.want.Name }

// expected is the number of instances that should run.
func (a *app) expected() int {
	if a.row != rowPresent || a.want.State == message.AppStopped {
		return 0
	}
	return a.want.Instances
}

func (a *app) desires(index int) bool { return index < a.expected() }

// join puts an app into a pool, in place of the one before.
func (m *Machine) join(a *app, name string) {
	p := m.pools[name]
	if p == nil {
		p = &pool{}
		m.pools[name] = p
	}
	if a.pool == p {
		return
	}
	m.leave(a)
	a.pool, a.at = p, len(p.apps)
	p.apps = append(p.apps, a)
	p.total.add(a.totals())
	p.revision++
}

func (m *Machine) leave(a *app) {
	p := a.pool
	if p == nil {
		return
	}
	last := p.apps[len(p.apps)-1]
	p.apps[a.at], last.at = last, a.at
	p.apps[len(p.apps)-1] = nil
	p.apps = p.apps[:len(p.apps)-1]
	p.total.sub(a.totals())
	p.revision++
	a.pool = nil
}

// recount has change change what the app counts as, and books the difference.
func (m *Machine) recount(a *app, change func()) {
	before := a.totals()
	change()
	after := a.totals()
	if before == after {
		return
	}
	m.total.sub(before)
	m.total.add(after)
	if a.pool != nil {
		a.pool.total.sub(before)
		a.pool.total.add(after)
		a.pool.revision++
	}
}

// setRow changes what is known of the app's row. One that cannot be read counts
// in pools that the app is not in.
func (m *Machine) setRow(a *app, row rowState) {
	m.source.tally(a, row)
	if a.rowless() && row != rowUnknown && row != rowVanished {
		m.regain(a)
	}
	a.row = row
	if m.unread[a.name()] == (row == rowUnreadable) {
		return
	}
	m.revision++
	if row == rowUnreadable {
		m.unread[a.name()] = true
	} else {
		delete(m.unread, a.name())
	}
}

// markAll has every index looked at that has a copy or is in trouble.
func (m *Machine) markAll(a *app) {
	for s := a.slots; s != nil; s = s.next {
		m.backlog.mark(s.place())
	}
	for index := range m.known.Indices(a.id) {
		m.backlog.mark(at(a.id, index))
	}
	m.backlog.mark(at(a.id, 0)) // so that an app of which nothing is left goes
}
