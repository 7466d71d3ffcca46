package apps

import (
	"cmp"
	"fmt"
	"slices"
)

// rowLoss is the rule brake for the expected state. Very many apps without a row are
// rather a fault of the source: a whole pass that lacks more than Brake's share of the
// rows that there were before it, and more than BrakeFloor of them. Or, for a machine
// that begins to lead and has no rows from before, so many copies whose app has no row,
// once both states are whole. Stops of apps without a row are held then, until so much
// is back that the rest would not have been too many, or an operator releases them. Rows
// that were at most half of all are also confirmed by a source as in rowStops: by the next
// whole pass that begins later and lacks no further row, or, of a source that sends each
// change, by DropletLost without a further one. Starts go on, for a missing row starts
// nothing.
type rowLoss struct {
	cfg     *Config
	clock   *clock
	source  *source
	journal *journal
	apps    *inventory // is judged again when the hold begins or ends

	rows     shortage
	pass     uint32   // that lacked the latest of rows
	latest   instant  // of that pass
	order    bool     // more than half of the rows are gone: no pass confirms that
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
	switch limit := l.cfg.tooManyRows(of); {
	case l.rows.since != 0 && gone <= 0:
		l.confirm(l.source.polled && l.source.pass > l.pass)
	case l.rows.since != 0:
		l.rows.gone += gone
		l.noteRows()
	case float64(gone) > limit:
		l.rows = shortage{since: l.clock.now, gone: gone, of: of, limit: limit}
		l.journal.find(Finding{Kind: KindBraked, Why: WhyRowsGone, Rule: RuleBrake,
			Detail: fmt.Sprintf("%d of %d rows are gone at once", gone, of)})
		l.noteRows()
	}
	l.endIfBack()
}

// noteRows notes that this pass lacks rows that the pass before had.
func (l *rowLoss) noteRows() {
	l.pass, l.latest = l.source.pass, l.clock.now
	if !l.order && 2*(l.rows.gone-l.rows.back) > l.rows.of {
		l.order = true
		l.journal.find(Finding{Kind: KindBraked, Why: WhyRowsGone, Rule: RuleBrake,
			Detail: fmt.Sprintf("more than half of %d rows are gone: an operator has to release them", l.rows.of)})
	}
}

// confirm ends the hold of rows if the source confirms that they are gone.
func (l *rowLoss) confirm(confirmed bool) {
	if confirmed && l.rows.since != 0 && l.copies.since == 0 && !l.order {
		l.end(WhyConfirmed, 0)
	}
}

// settle ends the hold of a source that sends each change.
func (l *rowLoss) settle() {
	l.confirm(!l.source.polled && l.source.isComplete && l.clock.now >= l.latest.add(l.cfg.DropletLost))
}

// watchCopies counts the copies whose app has no row, once in each term: of so many
// copies in all, when both states are whole and the backlog is empty.
func (l *rowLoss) watchCopies(of int) {
	if !l.untested {
		return
	}
	l.untested = false
	gone, limit := l.apps.total.Rowless, l.cfg.tooManyRows(of)
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
	l.rows, l.copies, l.ended, l.order = shortage{}, shortage{}, ended, false
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
	s.RowsNeedRelease = l.rows.since != 0 && l.order
	since := cmp.Or(l.rows.since, l.copies.since)
	if l.rows.since != 0 && l.copies.since != 0 {
		since = min(l.rows.since, l.copies.since)
	}
	s.RowsSince = l.clock.time(since)
}

// rowStops is the rule brake for rows that turn STOPPED, or to 0 instances. Very many at
// once are rather a fault of the source: more than Brake's share of the started apps
// within the window of a mass loss, and more than the floor. Their stops are held until
// the source confirms them: the next whole pass that begins later, or, for a source that
// sends each change, DropletLost without another one. More than half of the started apps
// wait for an operator. While a pass is not whole, the stops of rows that it turned
// wait for its end.
type rowStops struct {
	cfg     *Config
	clock   *clock
	source  *source
	journal *journal
	apps    *inventory

	recent []*app  // that turned within the window, or since the hold began; the oldest first
	wanted int     // apps whose row wants instances
	since  instant // the stops of recent are held; 0: they are not
	of     int     // apps whose row wanted instances before
	pass   uint32  // in which the latest one turned
	order  bool    // only an operator ends the hold
}

// change notes that the row of an app changed, which wanted so many instances before.
func (r *rowStops) change(a *app, before int) {
	r.wanted += count(a.expected() > 0) - count(before > 0)
	switch {
	case a.row == rowPresent && before > 0 && a.expected() == 0:
		r.turned(a)
	case a.row != rowPresent || a.expected() > 0:
		r.regain(a)
	}
}

// turned notes an app whose row wants no instance any more.
func (r *rowStops) turned(a *app) {
	r.forget()
	a.stopped, a.stoppedPass = r.clock.now, r.source.pass
	r.recent, r.pass = append(r.recent, a), r.source.pass
	if r.since == 0 {
		r.of = r.wanted + len(r.recent)
	}
	n := len(r.recent)
	if r.since == 0 && float64(n) > r.cfg.tooManyRows(r.of) {
		r.since = r.clock.now
		r.journal.find(Finding{Kind: KindBraked, Why: WhyRowsStopped, Rule: RuleBrake,
			Detail: fmt.Sprintf("%d of %d started apps are to stop at once", n, r.of)})
		r.markRecent()
	}
	if r.since != 0 && !r.order && 2*n > r.of {
		r.order = true
		r.journal.find(Finding{Kind: KindBraked, Why: WhyRowsStopped, Rule: RuleBrake,
			Detail: fmt.Sprintf("more than half of %d started apps are to stop: an operator has to release them", r.of)})
	}
}

// regain notes an app that wants instances again, or has no row.
func (r *rowStops) regain(a *app) {
	if a.stopped == 0 {
		return
	}
	a.stopped = 0
	r.recent = slices.DeleteFunc(r.recent, func(o *app) bool { return o == a })
	if r.since != 0 && float64(len(r.recent)) <= r.cfg.tooManyRows(r.of) {
		r.end(WhyRecovered)
	}
}

// forget drops the apps that turned before the window, unless they are held.
func (r *rowStops) forget() {
	window := r.cfg.DropletLost + r.cfg.HeartbeatPeriod
	for r.since == 0 && len(r.recent) > 0 {
		a := r.recent[0]
		if a.stopped.add(window) >= r.clock.now || r.unfinished(a) {
			return
		}
		a.stopped = 0
		r.recent = r.recent[1:]
	}
}

// whole is called at the end of a whole pass, before the source notes it.
func (r *rowStops) whole() {
	if r.since != 0 && r.source.pass > r.pass && !r.order {
		r.end(WhyConfirmed)
	}
	r.markRecent() // those that waited for the end of this pass
}

// settle ends the hold of a source that sends each change.
func (r *rowStops) settle() {
	if r.since == 0 || r.order || r.source.polled || !r.source.isComplete {
		return
	}
	if r.clock.now >= r.recent[len(r.recent)-1].stopped.add(r.cfg.DropletLost) {
		r.end(WhyConfirmed)
	}
}

// holds returns what keeps the stops of an app whose row wants no instance.
func (r *rowStops) holds(a *app) (hold, bool) {
	switch {
	case a.stopped == 0:
		return hold{}, false
	case r.since != 0:
		return hold{RuleBrake, WhyRowsStopped, 0}, true
	}
	return hold{RuleFreshness, WhyIncomplete, 0}, r.unfinished(a)
}

// unfinished reports whether the app turned in a pass that is not whole yet.
func (r *rowStops) unfinished(a *app) bool { return r.source.polled && a.stoppedPass > r.source.whole }

func (r *rowStops) release() {
	if r.since != 0 {
		r.end(WhyOrdered)
	}
}

func (r *rowStops) end(why Why) {
	r.since, r.order = 0, false
	r.markRecent()
	for _, a := range r.recent {
		a.stopped = 0
	}
	r.recent = nil
	r.journal.find(Finding{Kind: KindReleased, Why: why, Rule: RuleBrake})
}

func (r *rowStops) markRecent() {
	for _, a := range r.recent {
		r.apps.markExtras(a.id)
	}
}

func (r *rowStops) report(s *BrakeStatus) {
	if r.since != 0 {
		s.RowsStopped, s.RowsStoppedOf, s.NeedsRelease = len(r.recent), r.of, r.order
		s.RowsStoppedSince = r.clock.time(r.since)
	}
}
