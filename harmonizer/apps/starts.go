package apps

import (
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/harmonizer/queue"
)

// missing is the rules missing, exit_crashed, exit_stopped, exit_shutdown and
// flapping: a desired index on which no copy of the live version runs wants a
// start. How the last copy ended decides the rule, and with it the priority.
func (l *look) missing() {
	l.category = running
	if l.census.serving+l.census.leaving > 0 {
		return
	}
	l.category, l.start, l.why = missing, RuleMissing, WhyNew
	s := l.slot
	if s == nil {
		return
	}
	l.why = s.cause
	switch {
	case s.cause == WhyCrashed && s.crashes > *l.cfg.FlappingDeath:
		l.category, l.start = flapping, RuleFlapping
	case s.cause == WhyCrashed:
		l.category, l.start = crashed, RuleExitCrashed
	case s.cause == WhyStopped:
		l.start = RuleExitStopped
	case s.cause == WhyShutdown, s.cause == WhyEvacuated:
		l.start = RuleExitShutdown
	}
}

// evacuation is the rule of the same name: a copy that is EVACUATING runs, but
// will end. Without another copy of the live version, the index wants a start at
// once. Once that is RUNNING, those that evacuate are extra; while it is STARTING,
// they are left alone.
func (l *look) evacuation() {
	n := l.census
	if n.evacuating == 0 {
		return
	}
	switch {
	case n.serving == 0 && n.leaving > 0:
		l.start, l.why = RuleEvacuation, WhyEvacuating
	case n.running > 0:
		for _, c := range l.copies {
			if c.State() == message.Evacuating {
				l.surplus = append(l.surplus, surplus{c, RuleEvacuation, WhyReplaced})
			}
		}
	}
	if n.running > 0 {
		l.redundant += n.evacuating
	}
}

// incomplete is the rule freshness for a start: while the expected state is incomplete,
// only an index that ran is started, of a row that was in the last complete one. A row
// that is new or changed since then waits.
func (l *look) incomplete() (hold, bool) {
	ran := l.start == RuleEvacuation || l.slot != nil && l.slot.cause != WhyNew
	return hold{RuleFreshness, WhyIncomplete, 0}, !l.source.isComplete && !ran
}

// packageState is the rule package_state: only a staged package can be started.
func (l *look) packageState() (hold, bool) {
	return hold{RulePackageState, WhyNotStaged, 0}, l.app.want.Package != message.PackageStaged
}

// giveUp is the rule give_up, see backoff.
func (l *look) giveUp() (hold, bool) {
	return hold{RuleGiveUp, WhyGivenUp, 0}, l.slot.givenUp
}

// flapping is the rule of the same name, see backoff.
func (l *look) flapping() (hold, bool) {
	return hold{RuleFlapping, WhyRestartDelay, l.slot.restart}, l.slot.restart > l.clock.now
}

// keepAlive is the rule keep_alive: a start is not repeated before it had its time.
// A confirmation passes over the start itself, which is not published yet.
func (l *look) keepAlive() (hold, bool) {
	if l.when == confirming {
		return hold{RuleKeepAlive, WhyNudged, 0}, l.slot != nil && l.slot.sent > l.clock.now
	}
	return hold{RuleKeepAlive, WhyNudged, l.slot.pending}, l.slot.pending > l.clock.now
}

// grace is the rule reset_grace: under a controller, an index of an app that just
// changed is the controller's. What crashed or lost its node does not wait.
func (l *look) grace() (hold, bool) {
	until := max(l.app.grace, l.slot.grace)
	applies := l.start == RuleMissing || l.start == RuleExitStopped
	return hold{RuleResetGrace, WhyJustChanged, until}, applies && until > l.clock.now
}

// priority of a nudge: a node that ends is answered first, a crash last.
func priority(r Rule) queue.Priority {
	switch r {
	case RuleExitShutdown, RuleEvacuation:
		return queue.High
	case RuleExitCrashed, RuleFlapping:
		return queue.Low
	}
	return queue.Normal
}
