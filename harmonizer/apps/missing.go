package apps

import "github.com/weirkeeper/weirkeeper/harmonizer/queue"

// missing is the rules missing, exit_crashed, exit_stopped, exit_shutdown and
// flapping: a desired index on which no copy of the live version runs wants a
// start. How the last one ended tells the rule, and with it the priority.
func (m *Machine) missing(s *slot, n census, v *verdict) {
	v.category = running
	if n.serving+n.leaving > 0 {
		return
	}
	v.category, v.start, v.why = missing, RuleMissing, WhyNew
	if s == nil {
		return
	}
	v.why = s.cause
	switch {
	case s.cause == WhyCrashed && s.crashes > *m.cfg.FlappingDeath:
		v.category, v.start = flapping, RuleFlapping
	case s.cause == WhyCrashed:
		v.category, v.start = crashed, RuleExitCrashed
	case s.cause == WhyStopped:
		v.start = RuleExitStopped
	case s.cause == WhyShutdown, s.cause == WhyEvacuated:
		v.start = RuleExitShutdown
	}
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

// exitStopped is the rule exit_stopped: under a controller, whoever stopped a
// copy has its turn first.
func (m *Machine) exitStopped(s *slot) {
	if m.cfg.controlled() {
		s.grace = m.clock.in(*m.cfg.ResetGrace)
	}
}

// recover ends what an index waited for: it is served, or no longer desired. The
// keep-alive of a nudge that another harmonizer sent for an index that we never
// missed stays.
func (m *Machine) recover(s *slot, served bool) {
	if s.missing != 0 && served {
		m.journal.note(s, Finding{Kind: KindRecovered, Version: s.app.want.Version, Rule: s.start})
	}
	if s.missing != 0 || s.restart != 0 || s.givenUp || s.silent != 0 {
		m.starts.Remove(s.place())
		m.limit.regain(s)
		s.missing, s.pending, s.sent, s.restart, s.grace, s.hold, s.givenUp = 0, 0, 0, 0, 0, "", false
		m.remember(s.app)
	}
	s.start, s.cause = "", WhyNew
	if served && s.crashes > 0 {
		m.decay(s)
	}
	if !served {
		s.healthy = 0
	}
}
