package apps

import (
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/queue"
)

// missing implements rules missing, exit_crashed, exit_stopped, exit_shutdown and flapping. A
// desired index without a running copy of the live version requests a start. How the last copy
// ended decides the rule, and so the priority.
func (l *evaluation) missing() {
	l.category = running
	if l.copyCounts.serving+l.copyCounts.leaving > 0 {
		return
	}
	l.category, l.start, l.why = missing, api.AppRuleMissing, api.WhyNew
	if updating(l.app) && l.copyCounts.earlierReady > 0 {
		l.category = running
		return
	}
	s := l.slot
	if s == nil {
		return
	}
	l.why = s.cause
	switch {
	case l.app.want.OneShot && s.givenUp:
		l.category, l.start = failed, api.AppRuleOneShot
	case s.cause == api.WhyCrashed && s.crashes > *l.cfg.FlappingDeath:
		l.category, l.start = flapping, api.AppRuleFlapping
	case s.cause == api.WhyCrashed:
		l.category, l.start = crashed, api.AppRuleExitCrashed
	case s.cause == api.WhyStopped:
		l.start = api.AppRuleExitStopped
	case s.cause == api.WhyShutdown, s.cause == api.WhyEvacuated:
		l.start = api.AppRuleExitShutdown
	}
}

// done implements rule one_shot: nothing is started on the index. A copy of the live version ends by itself, and those of other
// versions are extra.
func (l *evaluation) done() {
	l.category = done
	for _, c := range l.copies {
		if !c.OfVersion(l.app.want.Version) {
			l.redundant++
			l.surplus = append(l.surplus, surplus{c, api.AppRuleExtraVersion, api.WhyWrongVersion})
		}
	}
}

// readiness finds an index that runs without a ready copy: its copies are STARTING, or fail their check.
func (l *evaluation) readiness() {
	if l.copyCounts.serving == 0 {
		return
	}
	for _, c := range l.copies {
		if c.State() != api.CopyEvacuating && c.OfVersion(l.app.want.Version) && c.Ready() {
			return
		}
	}
	l.unready = true
}

// evacuation implements rule evacuation. An EVACUATING copy runs, but will end. Without
// another copy of the live version, the index requests a start at once. When that copy is
// ready, the EVACUATING copies are extra. Until then they are left alone.
func (l *evaluation) evacuation() {
	n := l.copyCounts
	if n.evacuating == 0 {
		return
	}
	switch {
	case n.serving == 0 && n.leaving > 0:
		l.start, l.why = api.AppRuleEvacuation, api.WhyEvacuating
	case n.ready > 0:
		for _, c := range l.copies {
			if c.State() == api.CopyEvacuating {
				l.surplus = append(l.surplus, surplus{c, api.AppRuleEvacuation, api.WhyReplaced})
			}
		}
	}
	if n.ready > 0 {
		l.redundant += n.evacuating
	}
}

// incomplete implements rule freshness for a start. While the expected state is incomplete,
// only an index that ran is started, by the last complete state. A row that is new or changed
// since then waits.
func (l *evaluation) incomplete() (hold, bool) {
	ran := l.start == api.AppRuleEvacuation || l.slot != nil && l.slot.cause != api.WhyNew
	return hold{api.AppRuleFreshness, api.WhyIncomplete, 0}, !l.source.isComplete && !ran
}

// packageState implements rule package_state: only a staged package can be started.
func (l *evaluation) packageState() (hold, bool) {
	return hold{api.AppRulePackageState, api.WhyNotStaged, 0}, l.app.want.Package != api.PackageStaged
}

// giveUp implements rule give_up; see backoff.
func (l *evaluation) giveUp() (hold, bool) {
	return hold{api.AppRuleGiveUp, api.WhyGivenUp, 0}, l.slot.givenUp
}

// flapping implements rule flapping; see backoff.
func (l *evaluation) flapping() (hold, bool) {
	return hold{api.AppRuleFlapping, api.WhyRestartDelay, l.slot.restart}, l.slot.restart > l.clock.now
}

// keepAlive implements rule keep_alive: a start is not repeated before its keep-alive ends.
// While the scheduler reports that the start waits, the keep-alive goes on; see waiting. In
// phase confirming the start itself is not sent yet, so only earlier starts count.
func (l *evaluation) keepAlive() (hold, bool) {
	if l.when == confirming {
		return hold{api.AppRuleKeepAlive, api.WhyNudged, 0}, l.slot != nil && l.slot.sent > l.clock.now
	}
	why := api.WhyNudged
	if l.slot.pending == l.slot.noRoom {
		why = api.WhyNoRoom
	}
	return hold{api.AppRuleKeepAlive, why, l.slot.pending}, l.slot.pending > l.clock.now
}

// grace implements rule reset_grace: under a controller, the controller first starts the
// indices of an app that just changed. Crashed indices and those of lost nodes do not wait.
func (l *evaluation) grace() (hold, bool) {
	until := max(l.app.grace, l.slot.grace)
	applies := l.start == api.AppRuleMissing || l.start == api.AppRuleExitStopped
	return hold{api.AppRuleResetGrace, api.WhyJustChanged, until}, applies && until > l.clock.now
}

// priority returns the priority of a nudge: the highest for shutdown and evacuation, the lowest
// for crashes.
func priority(r api.AppRule) queue.Priority {
	switch r {
	case api.AppRuleExitShutdown, api.AppRuleEvacuation:
		return queue.High
	case api.AppRuleExitCrashed, api.AppRuleFlapping:
		return queue.Low
	}
	return queue.Normal
}
