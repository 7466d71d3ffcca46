package apps

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
)

// rowLoss is rule disruption_limit for missing rows. If very many apps have no row, a fault of
// the source is more likely. Two checks hold the stops of apps without a row:
//
//   - A complete pass lacks more than DisruptionLimit's share of the earlier rows, and more than
//     the floor.
//   - A machine begins to lead and has no earlier rows. Both states are complete, and too
//     many copies run apps without a row.
//
// The hold ends when enough is back that the rest would not be too many, or when an operator
// releases it. If at most half of the rows are gone, the source can also confirm that. A
// polled source confirms by the next complete pass that begins later and lacks no further row.
// A source that sends each change confirms by DropletLost without a further loss. Starts
// continue, because a missing row starts nothing.
type rowLoss struct {
	cfg     *Config
	clock   *clock
	source  *source
	journal *journal
	apps    *inventory // its extras are evaluated again when the hold begins or ends

	rows       shortage
	pass       uint32  // the latest pass that lacked rows
	latest     instant // time of that pass
	needsOrder bool    // more than half of the rows are gone; only an operator, or their return, ends the hold

	copies          shortage // copies whose app had no row when this machine began to lead
	copiesUncounted bool     // this machine leads, and the copies are not counted yet

	ended instant // when enough came back, on the clock of source.trust; the rest has its grace from then
}

// shortage counts what was without a row at once.
type shortage struct {
	since instant // 0: nothing is held
	gone  int
	of    int
	limit float64 // this many would not be too many
	back  int     // of those gone: read again, or deleted by name
}

func (s shortage) over() bool { return float64(s.gone-s.back) <= s.limit }

// watchRows counts the rows that a complete pass lacks, before they are removed.
func (l *rowLoss) watchRows() {
	gone, of := l.source.rows-l.source.read, l.source.before
	switch limit := l.cfg.rowLossLimit(of); {
	case l.rows.since != 0 && gone <= 0:
		l.confirm(l.source.polled && l.source.pass > l.pass)
	case l.rows.since != 0:
		l.rows.gone += gone
		l.noteRows()
	case float64(gone) > limit:
		l.rows = shortage{since: l.clock.now, gone: gone, of: of, limit: limit}
		l.journal.addFinding(api.AppFinding{Kind: api.AppFindingLimitHeld, Why: api.WhyRowsGone, Rule: api.AppRuleDisruptionLimit,
			Detail: fmt.Sprintf("%d of %d rows are gone at once", gone, of)})
		l.noteRows()
	}
	l.endIfBack()
}

// noteRows records that this pass lacks rows of the previous pass.
func (l *rowLoss) noteRows() {
	l.pass, l.latest = l.source.pass, l.clock.now
	if !l.needsOrder && 2*(l.rows.gone-l.rows.back) > l.rows.of {
		l.needsOrder = true
		l.journal.addFinding(api.AppFinding{Kind: api.AppFindingLimitHeld, Why: api.WhyRowsGone, Rule: api.AppRuleDisruptionLimit,
			Detail: fmt.Sprintf("more than half of %d rows are gone; run weir harmonizer release if they are gone for good", l.rows.of)})
	}
}

// confirm ends the hold of rows if the source confirmed that they are gone.
func (l *rowLoss) confirm(confirmed bool) {
	if confirmed && l.rows.since != 0 && l.copies.since == 0 && !l.needsOrder {
		l.end(api.WhyConfirmed, 0)
	}
}

// settle ends the hold for a source that sends each change.
func (l *rowLoss) settle() {
	l.confirm(!l.source.polled && l.source.isComplete && l.clock.now >= l.latest.add(l.cfg.DropletLost))
}

// watchCopies counts the copies whose app has no row, once in each term, when both states are
// complete and the backlog is empty. of is the number of all copies.
func (l *rowLoss) watchCopies(of int) {
	if !l.copiesUncounted {
		return
	}
	l.copiesUncounted = false
	gone, limit := l.apps.total.Rowless, l.cfg.rowLossLimit(of)
	if l.copies.since != 0 || float64(gone) <= limit {
		return
	}
	l.copies = shortage{since: l.clock.now, gone: gone, of: of, limit: limit}
	l.journal.addFinding(api.AppFinding{Kind: api.AppFindingLimitHeld, Why: api.WhyWithoutRow, Rule: api.AppRuleDisruptionLimit,
		Detail: fmt.Sprintf("%d of %d copies run apps that have no row", gone, of)})
	l.apps.markTrouble()
}

// regain counts an app that has a row again, or was deleted by name. It must be called before
// the row changes. A source that is not polled may send all rows again without completing a
// pass.
func (l *rowLoss) regain(a *app) {
	if l.rowGone(a) {
		l.rows.back++
	}
	if l.copies.since != 0 {
		l.copies.back += int(a.extra)
	}
	if !l.source.polled && l.source.isComplete {
		l.endIfBack()
	}
}

// rowGone reports whether the app's row is among those gone. Such an app is kept, even without
// any copy.
func (l *rowLoss) rowGone(a *app) bool {
	return l.rows.since != 0 && a.row == rowVanished && a.seen >= l.rows.since
}

// holds returns the hold of stops of apps without a row.
func (l *rowLoss) holds() (hold, bool) {
	if l.copies.since != 0 {
		return hold{api.AppRuleDisruptionLimit, api.WhyWithoutRow, 0}, true
	}
	return hold{api.AppRuleDisruptionLimit, api.WhyRowsGone, 0}, l.rows.since != 0
}

func (l *rowLoss) endIfBack() {
	if _, held := l.holds(); held && l.rows.over() && l.copies.over() {
		l.end(api.WhyRecovered, l.source.trust(l.clock.now))
	}
}

func (l *rowLoss) release() {
	if _, held := l.holds(); held {
		l.end(api.WhyOrdered, 0)
	}
}

func (l *rowLoss) end(why api.AppReason, ended instant) {
	l.rows, l.copies, l.ended, l.needsOrder = shortage{}, shortage{}, ended, false
	l.journal.addFinding(api.AppFinding{Kind: api.AppFindingReleased, Why: why, Rule: api.AppRuleDisruptionLimit})
	l.apps.markTrouble()
	for _, a := range l.apps.list {
		if a != nil && a.row == rowVanished {
			l.apps.backlog.mark(at(a.id, 0)) // the app may have nothing left
		}
	}
}

func (l *rowLoss) report(s *api.LimitStatus) {
	s.RowsGone, s.RowsOf, s.WithoutRow, s.WithoutRowOf = l.rows.gone, l.rows.of, l.copies.gone, l.copies.of
	s.RowsNeedRelease = l.rows.since != 0 && l.needsOrder
	since := cmp.Or(l.rows.since, l.copies.since)
	if l.rows.since != 0 && l.copies.since != 0 {
		since = min(l.rows.since, l.copies.since)
	}
	s.RowsSince = l.clock.time(since)
}

// rowStops is rule disruption_limit for rows that turn STOPPED or to 0 instances. If very
// many do at once, a fault of the source is more likely. Too many are more than
// DisruptionLimit's share of the started apps within the window of a mass loss, and more than
// the floor.
//
// Their stops are held until the source confirms the rows. A polled source confirms by the
// next complete pass that begins later. A source that sends each change confirms by
// DropletLost without another such row. If more than half of the started apps turn, only an
// operator releases them. During a pass, the stops of rows that it turned wait for its end.
type rowStops struct {
	cfg     *Config
	clock   *clock
	source  *source
	journal *journal
	apps    *inventory

	recent     []*app  // turned within the window, or since the hold began; oldest first
	wanted     int     // apps whose row requests instances
	since      instant // the stops of recent are held since then; 0: not held
	of         int     // apps whose row wanted instances before
	pass       uint32  // pass of the latest one
	needsOrder bool    // only an operator ends the hold
}

// change records a change of an app's row. before is the number of instances that the row
// wanted before.
func (r *rowStops) change(a *app, before int) {
	r.wanted += count(a.expected() > 0) - count(before > 0)
	switch {
	case a.row == rowPresent && before > 0 && a.expected() == 0:
		r.turned(a)
	case a.row != rowPresent || a.expected() > 0:
		r.regain(a)
	}
}

// turned records an app whose row no longer requests an instance.
func (r *rowStops) turned(a *app) {
	r.forget()
	a.stopped, a.stoppedPass = r.clock.now, r.source.pass
	r.recent, r.pass = append(r.recent, a), r.source.pass
	if r.since == 0 {
		r.of = r.wanted + len(r.recent)
	}
	n := len(r.recent)
	if r.since == 0 && float64(n) > r.cfg.rowLossLimit(r.of) {
		r.since = r.clock.now
		r.journal.addFinding(api.AppFinding{Kind: api.AppFindingLimitHeld, Why: api.WhyRowsStopped, Rule: api.AppRuleDisruptionLimit,
			Detail: fmt.Sprintf("%d of %d started apps would stop at once", n, r.of)})
		r.markRecent()
	}
	if r.since != 0 && !r.needsOrder && 2*n > r.of {
		r.needsOrder = true
		r.journal.addFinding(api.AppFinding{Kind: api.AppFindingLimitHeld, Why: api.WhyRowsStopped, Rule: api.AppRuleDisruptionLimit,
			Detail: fmt.Sprintf("more than half of %d started apps would stop; run weir harmonizer release if they should", r.of)})
	}
}

// regain records an app that requests instances again, or has no row.
func (r *rowStops) regain(a *app) {
	if a.stopped == 0 {
		return
	}
	a.stopped = 0
	r.recent = slices.DeleteFunc(r.recent, func(o *app) bool { return o == a })
	if r.since != 0 && float64(len(r.recent)) <= r.cfg.rowLossLimit(r.of) {
		r.end(api.WhyRecovered)
	}
}

// forget removes the apps that turned before the window, unless they are held.
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

// whole is called at the end of a complete pass, before the source records it.
func (r *rowStops) whole() {
	if r.since != 0 && r.source.pass > r.pass && !r.needsOrder {
		r.end(api.WhyConfirmed)
	}
	r.markRecent() // those that waited for the end of this pass
}

// settle ends the hold for a source that sends each change.
func (r *rowStops) settle() {
	if r.since == 0 || r.needsOrder || r.source.polled || !r.source.isComplete {
		return
	}
	if r.clock.now >= r.recent[len(r.recent)-1].stopped.add(r.cfg.DropletLost) {
		r.end(api.WhyConfirmed)
	}
}

// holds returns the hold of stops of an app whose row requests no instance.
func (r *rowStops) holds(a *app) (hold, bool) {
	switch {
	case a.stopped == 0:
		return hold{}, false
	case r.since != 0:
		return hold{api.AppRuleDisruptionLimit, api.WhyRowsStopped, 0}, true
	}
	return hold{api.AppRuleFreshness, api.WhyIncomplete, 0}, r.unfinished(a)
}

// unfinished reports whether the app turned in a pass that is not complete yet.
func (r *rowStops) unfinished(a *app) bool { return r.source.polled && a.stoppedPass > r.source.whole }

func (r *rowStops) release() {
	if r.since != 0 {
		r.end(api.WhyOrdered)
	}
}

func (r *rowStops) end(why api.AppReason) {
	r.since, r.needsOrder = 0, false
	r.markRecent()
	for _, a := range r.recent {
		a.stopped = 0
	}
	r.recent = nil
	r.journal.addFinding(api.AppFinding{Kind: api.AppFindingReleased, Why: why, Rule: api.AppRuleDisruptionLimit})
}

func (r *rowStops) markRecent() {
	for _, a := range r.recent {
		r.apps.markExtras(a.id)
	}
}

func (r *rowStops) report(s *api.LimitStatus) {
	if r.since != 0 {
		s.RowsStopped, s.RowsStoppedOf, s.NeedsRelease = len(r.recent), r.of, r.needsOrder
		s.RowsStoppedSince = r.clock.time(r.since)
	}
}
