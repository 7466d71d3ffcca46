package apps

import "github.com/weirkeeper/weirkeeper/harmonizer/message"

// hold is why a nudge waits: the rule, and when to look again; 0 is when
// something changes.
type hold struct {
	rule  Rule
	why   Why
	until instant
}

// holdStart returns the first rule that keeps an index from its start.
func (m *Machine) holdStart(s *slot) (hold, bool) {
	for _, rule := range [...]func(*slot) (hold, bool){
		m.updateRequired, m.packageState, m.giveUp, m.flapping, m.keepAlive, m.grace,
	} {
		if h, held := rule(s); held {
			return h, true
		}
	}
	return hold{}, false
}

// holdStop returns the first rule that keeps a copy from its stop.
func (m *Machine) holdStop(s *slot, v verdict, x extra) (hold, bool) {
	if h, held := m.updateRequired(s); held {
		return h, true
	}
	switch x.rule {
	case RuleExtraApp:
		if h, held := m.extraApp(s.app); held {
			return h, true
		}
	case RuleDuplicate:
		if h, held := m.duplicate(s, v); held {
			return h, true
		}
	}
	return hold{RuleKeepAlive, WhyNudged, x.until}, x.until > m.clock.now
}

// updateRequired is the rule update_required: the row is older than the app.
func (m *Machine) updateRequired(s *slot) (hold, bool) {
	return hold{RuleUpdateRequired, WhyUpdated, 0}, s.app.stale
}

// packageState is the rule package_state: a package that is not staged cannot
// be started.
func (m *Machine) packageState(s *slot) (hold, bool) {
	return hold{RulePackageState, WhyNotStaged, 0}, s.app.want.Package != message.PackageStaged
}

// giveUp is the rule give_up, see crashed.
func (m *Machine) giveUp(s *slot) (hold, bool) {
	return hold{RuleGiveUp, WhyGivenUp, 0}, s.givenUp
}

// flapping is the rule of the same name, see crashed.
func (m *Machine) flapping(s *slot) (hold, bool) {
	return hold{RuleFlapping, WhyRestartDelay, s.restart}, s.restart > m.clock.now
}

// keepAlive is the rule keep_alive: what was asked for is not asked for again
// before it had its time.
func (m *Machine) keepAlive(s *slot) (hold, bool) {
	return hold{RuleKeepAlive, WhyNudged, s.pending}, s.pending > m.clock.now
}

// grace is the rule reset_grace: under a controller, an index of an app that just
// changed is the controller's. What crashed or loses its node does not wait.
func (m *Machine) grace(s *slot) (hold, bool) {
	until := max(s.app.grace, s.grace)
	applies := s.start == RuleMissing || s.start == RuleExitStopped
	return hold{RuleResetGrace, WhyJustChanged, until}, applies && until > m.clock.now
}

func (m *Machine) resetGrace(a *app) {
	if m.cfg.controlled() {
		a.grace = m.clock.in(*m.cfg.ResetGrace)
	}
}
