package apps

import "fmt"

// rowLoss is the rule brake for the expected state. A whole pass that lacks more
// than Brake's share of the rows of the one before, and more than BrakeFloor of
// them, is rather a fault of who tells the rows. What would be stopped because its
// app has no row is held then: until a whole pass has most of them again, or one
// that comes more than ExpectedStateLost later has not, or an operator releases it.
// Starts go on, for a row that is not told starts nothing.
type rowLoss struct {
	since instant // 0: nothing is held
	rows  int     // that were gone
	of    int     // that the pass before told
	limit float64 // so many would not have been too many
	back  int     // of the rows
}

// watchRows looks at a pass that is whole, before the rows that it lacks go.
func (m *Machine) watchRows() {
	s := &m.source
	rows, of := s.rows-s.heard, s.before
	s.before = s.heard
	limit := max(m.cfg.Brake*float64(of), float64(m.cfg.BrakeFloor))
	switch {
	case !s.polled:
	case float64(rows) > limit:
		m.rowLoss = rowLoss{since: m.time.now, rows: rows, of: of, limit: limit}
		m.find(Finding{Kind: KindBraked, Why: WhyRowsGone, Rule: RuleBrake, Until: m.wall(m.rowLoss.until(m.cfg)),
			Detail: fmt.Sprintf("%d of %d rows are gone at once", rows, of)})
	case m.rowLoss.since == 0:
	case float64(m.rowLoss.rows-m.rowLoss.back) <= m.rowLoss.limit:
		m.endRowLoss(WhyRecovered)
	case m.time.now > m.rowLoss.until(m.cfg):
		m.endRowLoss(WhyConfirmed)
	}
}

func (l rowLoss) until(c Config) instant { return l.since.add(c.ExpectedStateLost) }

// regain counts a row that is told again, if it was among those gone.
func (l *rowLoss) regain(a *app) {
	if l.since != 0 && a.row == rowVanished && a.seen >= l.since {
		l.back++
	}
}

// holds returns what keeps the stops of apps without a row.
func (l rowLoss) holds() (hold, bool) {
	return hold{RuleBrake, WhyRowsGone, 0}, l.since != 0
}

func (m *Machine) endRowLoss(why Why) {
	m.rowLoss = rowLoss{}
	m.find(Finding{Kind: KindReleased, Why: why, Rule: RuleBrake})
	m.reconsider()
}
