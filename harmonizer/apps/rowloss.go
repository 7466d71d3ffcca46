package apps

import "fmt"

// rowLoss is the rule brake for the expected state. Very many apps without a row
// are rather a fault of who tells the rows: a whole telling that lacks more than
// Brake's share of the rows that there were before it, and more than BrakeFloor of
// them; or, for who begins to lead and knows of no rows before, so many copies
// whose app has no row, once both states are whole. What would be stopped because
// its app has no row is held then, until so much is told again that the rest would
// not have been too many, or an operator releases it: that nothing comes back
// proves nothing. Starts go on, for a row that is not told starts nothing.
type rowLoss struct {
	rows     shortage
	copies   shortage // when we began to lead: those whose app had no row
	untested bool     // we lead, and have not looked at the copies yet
	ended    instant  // enough came back: the rest has its grace from then on, by source.trust
}

// shortage is what was there without a row, all at once.
type shortage struct {
	since instant // 0: nothing is held
	gone  int
	of    int
	limit float64 // so many would not have been too many
	back  int     // of those gone: told again, or deleted by name
}

func (s shortage) over() bool { return float64(s.gone-s.back) <= s.limit }

// tooMany is how many of so many may be gone at once.
func (m *Machine) tooMany(of int) float64 {
	return max(m.cfg.Brake*float64(of), float64(*m.cfg.BrakeFloor))
}

// watchRows looks at a telling that is whole, before the rows that it lacks go.
func (m *Machine) watchRows() {
	lost := &m.rowLoss.rows
	gone, of := m.source.rows-m.source.heard, m.source.before
	switch limit := m.tooMany(of); {
	case lost.since != 0:
		lost.gone += gone
	case float64(gone) > limit:
		*lost = shortage{since: m.clock.now, gone: gone, of: of, limit: limit}
		m.journal.find(Finding{Kind: KindBraked, Why: WhyRowsGone, Rule: RuleBrake,
			Detail: fmt.Sprintf("%d of %d rows are gone at once", gone, of)})
	}
	m.endIfBack()
}

// watchRowless looks at the copies whose app has no row, once in each term: when
// both states are whole and all that was heard is taken in.
func (m *Machine) watchRowless() {
	if !m.rowLoss.untested || !m.leading || !m.acting || m.Busy() {
		return
	}
	m.rowLoss.untested = false
	gone, of := m.apps.total.Rowless, m.known.Len()
	limit := m.tooMany(of)
	if m.rowLoss.copies.since != 0 || float64(gone) <= limit {
		return
	}
	m.rowLoss.copies = shortage{since: m.clock.now, gone: gone, of: of, limit: limit}
	m.journal.find(Finding{Kind: KindBraked, Why: WhyRowless, Rule: RuleBrake,
		Detail: fmt.Sprintf("%d of %d copies run apps that have no row", gone, of)})
	m.apps.markTrouble()
}

// regain counts an app that has a row again, or was deleted by name. It comes
// before its row changes. A source that is not polled may tell all of them without
// a whole telling at the end.
func (m *Machine) regain(a *app) {
	l := &m.rowLoss
	if l.doubts(a) {
		l.rows.back++
	}
	if l.copies.since != 0 {
		l.copies.back += int(a.extra)
	}
	if !m.source.polled && m.source.isComplete {
		m.endIfBack()
	}
}

// doubts reports whether the app's row is among those gone. It is kept then, even
// with nothing left of it.
func (l *rowLoss) doubts(a *app) bool {
	return l.rows.since != 0 && a.row == rowVanished && a.seen >= l.rows.since
}

// holds returns what keeps the stops of apps without a row.
func (l *rowLoss) holds() (hold, bool) {
	if l.copies.since != 0 {
		return hold{RuleBrake, WhyRowless, 0}, true
	}
	return hold{RuleBrake, WhyRowsGone, 0}, l.rows.since != 0
}

// endIfBack ends the hold when enough is back.
func (m *Machine) endIfBack() {
	if _, held := m.rowLoss.holds(); held && m.rowLoss.rows.over() && m.rowLoss.copies.over() {
		m.endRowLoss(WhyRecovered)
		m.rowLoss.ended = m.source.trust(m.clock.now)
	}
}

func (m *Machine) endRowLoss(why Why) {
	m.rowLoss = rowLoss{untested: m.rowLoss.untested}
	m.journal.find(Finding{Kind: KindReleased, Why: why, Rule: RuleBrake})
	m.apps.markTrouble()
	for _, a := range m.apps.list {
		if a != nil && a.row == rowVanished {
			m.backlog.mark(at(a.id, 0)) // nothing may be left of it
		}
	}
}
