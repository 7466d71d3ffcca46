package apps

import (
	"cmp"
	"fmt"
)

// rowLoss is the rule brake for the expected state. Very many apps without a row are
// rather a fault of the source: a whole pass that lacks more than Brake's share of the
// rows that there were before it, and more than BrakeFloor of them. Or, for a machine
// that begins to lead and has no rows from before, so many copies whose app has no row,
// once both states are whole. Stops of apps without a row are held then, until so much
// is back that the rest would not have been too many, or an operator releases them:
// that nothing comes back proves nothing. Starts go on, for a missing row starts
// nothing.
type rowLoss struct {
	cfg     *Config
	clock   *clock
	source  *source
	journal *journal
	apps    *inventory // is judged again when the hold begins or ends

	rows     shortage
	copies   shortage // when we began to lead: those whose app had no row
	untested bool     // we lead, and the copies are not counted yet
	ended    instant  // enough came back: the rest has its grace from then on, by source.trust
}

// shortage is what was there without a row, all at once.
type shortage struct {
	since instant // 0: nothing is held
	gone  int
	of    int
	limit float64 // so many would not have been too many
	back  int     // of those gone: read again, or deleted by name
}

func (s shortage) over() bool { return float64(s.gone-s.back) <= s.limit }

// watchRows counts the rows that a whole pass lacks, before they go.
func (l *rowLoss) watchRows() {
	gone, of := l.source.rows-l.source.read, l.source.before
	switch limit := l.cfg.tooMany(of); {
	case l.rows.since != 0:
		l.rows.gone += gone
	case float64(gone) > limit:
		l.rows = shortage{since: l.clock.now, gone: gone, of: of, limit: limit}
		l.journal.find(Finding{Kind: KindBraked, Why: WhyRowsGone, Rule: RuleBrake,
			Detail: fmt.Sprintf("%d of %d rows are gone at once", gone, of)})
	}
	l.endIfBack()
}

// watchCopies counts the copies whose app has no row, once in each term: of so many
// copies in all, when both states are whole and the backlog is empty.
func (l *rowLoss) watchCopies(of int) {
	if !l.untested {
		return
	}
	l.untested = false
	gone, limit := l.apps.total.Rowless, l.cfg.tooMany(of)
	if l.copies.since != 0 || float64(gone) <= limit {
		return
	}
	l.copies = shortage{since: l.clock.now, gone: gone, of: of, limit: limit}
	l.journal.find(Finding{Kind: KindBraked, Why: WhyRowless, Rule: RuleBrake,
		Detail: fmt.Sprintf("%d of %d copies run apps that have no row", gone, of)})
	l.apps.markTrouble()
}

// regain counts an app that has a row again, or was deleted by name. The call comes
// before its row changes. A source that is not polled may send all rows without a
// whole pass at the end.
func (l *rowLoss) regain(a *app) {
	if l.doubts(a) {
		l.rows.back++
	}
	if l.copies.since != 0 {
		l.copies.back += int(a.extra)
	}
	if !l.source.polled && l.source.isComplete {
		l.endIfBack()
	}
}

// doubts reports whether the app's row is among those gone. The app is kept then, even
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

func (l *rowLoss) endIfBack() {
	if _, held := l.holds(); held && l.rows.over() && l.copies.over() {
		l.end(WhyRecovered, l.source.trust(l.clock.now))
	}
}

func (l *rowLoss) release() {
	if _, held := l.holds(); held {
		l.end(WhyOrdered, 0)
	}
}

func (l *rowLoss) end(why Why, ended instant) {
	l.rows, l.copies, l.ended = shortage{}, shortage{}, ended
	l.journal.find(Finding{Kind: KindReleased, Why: why, Rule: RuleBrake})
	l.apps.markTrouble()
	for _, a := range l.apps.list {
		if a != nil && a.row == rowVanished {
			l.apps.backlog.mark(at(a.id, 0)) // nothing may be left of it
		}
	}
}

func (l *rowLoss) report(s *BrakeStatus) {
	s.RowsGone, s.RowsOf, s.Rowless, s.RowlessOf = l.rows.gone, l.rows.of, l.copies.gone, l.copies.of
	since := cmp.Or(l.rows.since, l.copies.since)
	if l.rows.since != 0 && l.copies.since != 0 {
		since = min(l.rows.since, l.copies.since)
	}
	s.RowsSince = l.clock.time(since)
}
