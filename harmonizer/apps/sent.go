package apps

import (
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Confirm is asked right before a nudge of an earlier Step is sent, which may have
// waited since. It reports whether it is still right, all of it, and no repeat of one
// that was sent while it waited. If so, its keep-alive counts from now, and not from
// its Step. Of one that is not right, NotSent nudges again what is.
func (m *Machine) Confirm(now time.Time, n Nudge) bool {
	m.clock.set(now)
	if _, closed := m.gate.closed(); closed {
		return false
	}
	if n.Start != nil {
		if m.startStands(*n.Start) {
			m.startSent(*n.Start)
			return true
		}
		return false
	}
	if m.limit.state == BrakeOff && m.stopStands(*n.Stop) {
		m.stopSent(*n.Stop)
		return true
	}
	return false
}

func (m *Machine) startStands(n message.Start) bool {
	a := m.apps.lookup(n.App)
	if a == nil || a.pass < m.rows.source.whole || a.want.Version != n.Version {
		return false
	}
	for _, index := range n.Indices {
		l := m.rules.judge(a, index, m.apps.slots[at(a.id, index)])
		if _, held := l.holdStart(confirming); held || l.start == "" {
			return false
		}
	}
	return true
}

// stopStands passes over copies that are gone by now: their stop does no harm.
func (m *Machine) stopStands(n message.Stop) bool {
	a := m.apps.lookup(n.App)
	for id := range n.Instances {
		c, there := m.known.Find(id)
		if !there {
			continue
		}
		if a == nil || c.App() != a.id {
			return false
		}
		l := m.rules.judge(a, c.Index(), m.apps.slots[at(a.id, c.Index())])
		extra := l.surplusOf(c)
		if extra == nil {
			return false
		}
		_, x := m.stopOf(id)
		if _, held := l.holdStop(extra, x, confirming); held {
			return false
		}
	}
	return true
}

func (m *Machine) startSent(start message.Start) {
	a := m.apps.lookup(start.App)
	for _, index := range start.Indices {
		if s := m.apps.slots[at(a.id, index)]; s != nil {
			s.sent = m.clock.in(m.cfg.startKeepAlive())
			s.pending = max(s.pending, s.sent)
		}
	}
}

func (m *Machine) stopSent(stop message.Stop) {
	for id := range stop.Instances {
		if _, x := m.stopOf(id); x != nil {
			x.sent = m.clock.in(m.cfg.NudgeKeepAlive)
			x.until = max(x.until, x.sent)
		}
	}
}

// notSent takes back nudges of an earlier Step: they are due again, with the same
// priority and in the same order, before what waits of their app by now. The
// keep-alive of one that was sent before them stays.
func (m *Machine) notSent(ev NotSent) {
	for _, n := range slices.Backward(ev.Nudges) {
		if n.Start != nil {
			m.startsNotSent(n.Start, ev.Confirmed)
		}
		if n.Stop != nil {
			m.stopsNotSent(n.Stop, ev.Confirmed)
		}
	}
}

func (m *Machine) startsNotSent(start *message.Start, confirmed bool) {
	a := m.apps.lookup(start.App)
	if a == nil || start.Version != a.want.Version {
		return
	}
	for _, index := range slices.Backward(start.Indices) {
		s := m.apps.slots[at(a.id, index)]
		if s == nil || s.missing == 0 || s.pending == 0 {
			continue
		}
		if confirmed {
			s.sent = 0
		}
		s.pending = s.sent
		if start.Flapping {
			s.restart = 0
		}
		m.memory.remember(a)
		m.starts.PushFront(uint32(a.id), s.place(), priority(s.start))
		m.backlog.mark(s.place())
	}
}

func (m *Machine) stopsNotSent(stop *message.Stop, confirmed bool) {
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(stop.Instances))) {
		s, x := m.stopOf(id)
		if x == nil || x.rule == "" {
			continue
		}
		if confirmed {
			x.sent = 0
		}
		x.until = x.sent
		m.memory.remember(s.app)
		m.stops.PushFront(uint32(s.app.id), stopKey{s.place(), id}, priority(x.rule))
		m.backlog.mark(s.place())
	}
}

// stopOf returns what is known of the stop of a copy, nil if nothing is.
func (m *Machine) stopOf(id string) (*slot, *extra) {
	c, ok := m.known.Find(id)
	if !ok {
		return nil, nil
	}
	s := m.apps.slots[at(c.App(), c.Index())]
	if s == nil {
		return nil, nil
	}
	return s, s.find(id)
}
