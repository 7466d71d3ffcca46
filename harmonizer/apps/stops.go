package apps

import (
	"cmp"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
)

// undesired implements rules extra_state, extra_index and extra_app: on an undesired index
// every running copy is extra.
func (l *evaluation) undesired() {
	rule, why := l.app.undesired()
	for _, c := range l.copies {
		l.surplus = append(l.surplus, surplus{c, rule, why})
	}
	l.redundant += len(l.copies)
}

func (a *app) undesired() (api.AppRule, api.AppReason) {
	switch {
	case a.row == rowDeleted:
		return api.AppRuleExtraApp, api.WhyAppDeleted
	case a.row == rowVanished:
		return api.AppRuleExtraApp, api.WhyAppVanished
	case a.row != rowPresent:
		return api.AppRuleExtraApp, api.WhyAppUnknown
	case a.want.State == api.AppStopped:
		return api.AppRuleExtraState, api.WhyAppStopped
	}
	return api.AppRuleExtraIndex, api.WhyBeyond
}

// extraVersion implements rule extra_version: copies of other versions are extra once a copy
// of the live version is ready on the index. If the work of the app ends, they are extra at once.
func (l *evaluation) extraVersion() {
	n := l.copyCounts
	if n.others == 0 || n.ready == 0 && !l.app.want.OneShot || l.app.want.Package != api.PackageStaged {
		return
	}
	l.redundant += n.others
	for _, c := range l.copies {
		if c.State() != api.CopyEvacuating && !c.OfVersion(l.app.want.Version) {
			l.surplus = append(l.surplus, surplus{c, api.AppRuleExtraVersion, api.WhyWrongVersion})
		}
	}
}

// duplicates implements rule duplicate. Of several copies of the live version on an index, one
// survives: a ready one before others, RUNNING before STARTING, then the one that a heartbeat listed first, then the smallest id. One of the others
// is extra; the next one when that one is gone. EVACUATING copies have their own rule.
func (l *evaluation) duplicates() {
	if l.copyCounts.liveCopies < 2 || l.copyCounts.evacuating > 0 {
		return
	}
	for _, c := range l.copies {
		if s := c.State(); c.Placed() && c.OfVersion(l.app.want.Version) && (s == api.CopyRunning || s == api.CopyStarting) {
			l.liveCopies = append(l.liveCopies, c)
		}
	}
	slices.SortFunc(l.liveCopies, bySurvival)
	toStop := l.liveCopies[len(l.liveCopies)-1]
	if l.slot != nil && l.slot.liveCopies.toStop != "" {
		for _, c := range l.liveCopies {
			if c.ID() == l.slot.liveCopies.toStop {
				toStop = c
			}
		}
	}
	l.surplus = append(l.surplus, surplus{toStop, api.AppRuleDuplicate, api.WhyDuplicate})
	l.redundant += len(l.liveCopies) - 1
	l.evaluateWithin(l.cfg.HeartbeatPeriod / 4)
}

func bySurvival(a, b known.Copy) int {
	return cmp.Or(
		cmp.Compare(count(!a.Ready()), count(!b.Ready())),
		cmp.Compare(count(a.State() != api.CopyRunning), count(b.State() != api.CopyRunning)),
		a.FirstSeen().Compare(b.FirstSeen()),
		cmp.Compare(a.ID(), b.ID()),
	)
}

// unplaced holds the stop of a copy until the placer confirms that it put the copy on its node. It is evaluated again when the
// placer answers.
func (l *evaluation) unplaced() (hold, bool) {
	return hold{api.AppRuleFreshness, api.WhyUnplaced, 0}, !l.stop.copy.Placed()
}

// unlisted holds the stop of a copy that its node does not list now. The copy ends, is lost,
// or is listed again. No event follows, so it is evaluated again soon.
func (l *evaluation) unlisted() (hold, bool) {
	return hold{until: l.clock.in(l.cfg.HeartbeatPeriod / 4)}, !listed(l.stop.copy)
}

// rowsGone holds the stops of apps without a row while rowLoss does.
func (l *evaluation) rowsGone() (hold, bool) {
	if l.stop.rule != api.AppRuleExtraApp || !l.app.rowless() {
		return hold{}, false
	}
	return l.rowLoss.holds()
}

// rowsStopped holds the stops of apps without expected instances while rowStops does.
func (l *evaluation) rowsStopped() (hold, bool) {
	if l.app.row != rowPresent || l.app.expected() > 0 {
		return hold{}, false
	}
	return l.rowStops.holds(l.app)
}

// wholeApp holds a stop that lists as many copies as the app has instances, because such a
// controller then stops the whole app, with its serving copies. Stops of an app that wants no
// instance pass.
func (l *evaluation) wholeApp() (hold, bool) {
	return hold{api.AppRuleWholeApp, api.WhyStopsAll, 0}, l.lists > l.cfg.stopsAtOnce(l.app)
}

// extraApp holds the stops of rule extra_app. A row that was never read may still come, and a
// row that is gone may come back. Only the total time in which the source is complete counts.
// So an interrupted source delays a stop only by its interruptions.
func (l *evaluation) extraApp() (hold, bool) {
	if l.stop.rule != api.AppRuleExtraApp || !l.app.rowless() {
		return hold{}, false
	}
	if !l.source.isComplete {
		return hold{api.AppRuleFreshness, api.WhyIncomplete, 0}, true
	}
	waited := l.source.trust(l.clock.now) - max(l.app.rowlessAt, l.rowLoss.ended)
	until := l.clock.in(l.cfg.rowlessGrace()) - waited
	return hold{api.AppRuleExtraApp, api.WhyGrace, until + 1}, l.clock.now <= until
}

// duplicate holds the stop of a duplicate until all duplicates are proven to run.
func (l *evaluation) duplicate() (hold, bool) {
	return hold{api.AppRuleDuplicate, api.WhyUnconfirmed, 0}, l.stop.rule == api.AppRuleDuplicate && !l.slot.liveCopies.confirmed(l.liveCopies)
}

// keepAliveOfStop implements rule keep_alive for a stop, as keepAlive does for a start.
func (l *evaluation) keepAliveOfStop() (hold, bool) {
	until := l.sent.until
	if l.when == confirming {
		until = l.sent.sent
	}
	return hold{api.AppRuleKeepAlive, api.WhyNudged, until}, until > l.clock.now
}

// confirmations is how often each node must list its copy before a duplicate is stopped.
const confirmations = 2

// liveCopies is the state of rule duplicate for an index.
type liveCopies struct {
	listed map[string]uint32 // duplicate -> its number of listings when the current set of duplicates was first known
	toStop string            // the duplicate whose stop was sent
}

// confirmed reports whether each duplicate was listed confirmations times since exactly this
// set is known. A copy's first listing counts as one.
func (t *liveCopies) confirmed(copies []known.Copy) bool {
	ids, same := make([]string, len(copies)), len(copies) == len(t.listed)
	for i, c := range copies {
		ids[i] = c.ID()
		_, was := t.listed[ids[i]]
		same = same && was
	}
	if !same {
		t.listed = make(map[string]uint32, len(copies))
		for i, c := range copies {
			t.listed[ids[i]] = from(c)
		}
	}
	yes := true
	for i, c := range copies {
		if c.Beats() < t.listed[ids[i]] { // it was not listed for a while
			t.listed[ids[i]] = from(c)
		}
		yes = yes && listed(c) && c.Beats() >= t.listed[ids[i]]+confirmations
	}
	return yes
}

// from returns the number of listings from which on they count.
func from(c known.Copy) uint32 {
	if n := c.Beats(); n != 1 {
		return n
	}
	return 0
}
