package apps

import (
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// send is the rule queue: what waits leaves by priority, fair between apps, and no
// faster than the rate. Each is judged again first.
func (m *Machine) send() {
	var out outbox
	if _, held := m.gate.starts(); !held {
		m.sendStarts(&out)
	}
	if h := m.gate.stops(); h.rule == RuleQueue && !m.backlog.pending() && !m.rowLoss.untested {
		m.sendStops(&out)
	}
	out.flush(m)
}

func (m *Machine) sendStarts(out *outbox) {
	for range m.limits.step {
		p, ok := m.starts.Pop(m.clock.wall)
		if !ok {
			return
		}
		if !m.sendStart(p, out) {
			m.starts.Refund()
		}
	}
}

func (m *Machine) sendStart(p place, out *outbox) bool {
	s := m.apps.slots[p]
	if s == nil {
		return false
	}
	m.rows.refresh(s.app)
	l := m.rules.judge(s.app, s.index, s)
	if l.start == "" {
		m.backlog.mark(p)
		return false
	}
	s.start, s.why = l.start, l.why
	if h, held := l.holdStart(sending); held {
		m.waits(s, h)
		return false
	}
	s.pending, s.hold = m.clock.in(m.cfg.startKeepAlive()), ""
	m.wakes.slot(s, s.pending)
	if s.start == RuleFlapping { // without an answer, not before the same delay
		s.restart = m.clock.in(s.delay(&m.cfg, s.app.name(), s.index))
	}
	m.memory.remember(s.app)
	out.start(s)
	return true
}

func (m *Machine) sendStops(out *outbox) {
	for range m.limits.step {
		k, ok := m.stops.Pop(m.clock.wall)
		if !ok {
			return
		}
		if !m.sendStop(k, out) {
			m.stops.Refund()
		}
	}
}

func (m *Machine) sendStop(k stopKey, out *outbox) bool {
	s := m.apps.slots[k.place]
	if s == nil {
		return false
	}
	m.rows.refresh(s.app)
	l := m.rules.judge(s.app, s.index, s)
	c, x := m.superfluous(l, k.id), s.find(k.id)
	if c == nil || x == nil {
		m.backlog.mark(k.place)
		return false
	}
	x.rule, x.why = c.rule, c.why
	if _, held := l.holdStop(c, x, sending); held {
		m.backlog.mark(k.place)
		return false
	}
	x.until, x.hold = m.clock.in(m.cfg.NudgeKeepAlive), ""
	if x.rule == RuleDuplicate {
		s.twins.victim = x.id
	}
	m.wakes.slot(s, x.until)
	m.memory.remember(s.app)
	out.stop(stopped{s, *x, c.copy.Version(), c.copy.Node()})
	return true
}

// superfluous returns the copy with that id if it should not run, else nil.
func (m *Machine) superfluous(l *look, id string) *surplus {
	c, ok := m.known.Find(id)
	if !ok {
		return nil
	}
	return l.surplusOf(c)
}

// tellWaiting tells of what began to wait in this Step, and waits on.
func (m *Machine) tellWaiting() {
	for _, p := range m.queued {
		s := m.apps.slots[p]
		if s == nil || !m.starts.Has(p) {
			continue
		}
		h, _ := m.gate.starts()
		m.waits(s, h)
	}
}

// nudged is told what another harmonizer asked for: it counts as if we had.
func (m *Machine) nudged(n Nudge) {
	if n.Start != nil {
		if a := m.apps.lookup(n.Start.App); a != nil && n.Start.Version == a.want.Version {
			m.startedByOther(a, n.Start.Indices)
		}
	}
	if n.Stop != nil {
		if a := m.apps.lookup(n.Stop.App); a != nil {
			m.stoppedByOther(a, n.Stop)
		}
	}
}

func (m *Machine) startedByOther(a *app, indices []int) {
	for _, index := range indices {
		if !a.desires(index) {
			continue
		}
		s := m.apps.slot(a, index)
		s.pending = max(s.pending, m.clock.in(m.cfg.startKeepAlive()))
		if s.cause == WhyCrashed && s.crashes > *m.cfg.FlappingDeath && !s.givenUp {
			s.restart = max(s.restart, m.clock.in(s.delay(&m.cfg, s.app.name(), s.index)))
		}
		m.memory.remember(a)
		m.backlog.mark(s.place())
	}
}

func (m *Machine) stoppedByOther(a *app, stop *message.Stop) {
	for id := range stop.Instances {
		c, ok := m.known.Find(id)
		if !ok || c.App() != a.id {
			continue
		}
		m.memory.stopByOther(m.apps.slot(a, c.Index()), id, m.clock.in(m.cfg.NudgeKeepAlive))
	}
}

func (s *slot) find(id string) *extra {
	for i := range s.extras {
		if s.extras[i].id == id {
			return &s.extras[i]
		}
	}
	return nil
}
