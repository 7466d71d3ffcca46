package apps

import (
	"cmp"
	"slices"
	"time"
)

// Machine holds the expected and the known state of all apps, and decides. Make
// it with NewMachine.
type Machine struct {
	cfg       Config
	apps      map[string]*app
	pools     map[string]*pool
	nodes     map[string]*node
	instances map[string]*instance
	unread    map[string]bool // apps in rowUnreadable
	deadlines deadlines

	expected  bool      // the source is complete
	completed time.Time // since then
	lostWhy   string    // why it is not
	pass      uint32    // which telling of all rows this is

	bus     bool      // up
	hearing time.Time // since then, everything
	known   bool      // for long enough

	acting   bool   // both states were complete when last looked at
	revision uint64 // of everything that all pools share

	dirty  []*slot // to be settled before Step returns
	nudges []Nudge
	found  []Finding
}

// NewMachine returns a machine that knows nothing, with the bus down. The
// configuration must be valid.
func NewMachine(cfg Config) *Machine {
	return &Machine{
		cfg:       cfg,
		apps:      map[string]*app{},
		pools:     map[string]*pool{},
		nodes:     map[string]*node{},
		instances: map[string]*instance{},
		unread:    map[string]bool{},
		lostWhy:   "not read yet",
	}
}

// Step takes in one event and returns what is to be sent, checked against all
// that is known at that moment, and what was found. Both are the caller's, in
// order of app and index. now never goes back.
func (m *Machine) Step(now time.Time, ev Event) ([]Nudge, []Finding) {
	m.nudges, m.found = nil, nil
	switch ev := ev.(type) {
	case Heartbeat:
		m.heartbeat(now, ev)
	case Exit:
		m.exit(now, ev)
	case ExpectedApp:
		m.expectedApp(now, ev)
	case ExpectedUnreadable:
		m.expectedUnreadable(now, ev)
	case ExpectedGone:
		m.expectedGone(ev)
	case ExpectedComplete:
		m.expectedComplete(now)
	case ExpectedLost:
		m.expected, m.lostWhy = false, ev.Why
		m.pass++
	case BusUp:
		m.busUp(now)
	case BusDown:
		m.bus, m.known = false, false
	case Tick:
		m.tick(now)
	}
	m.turn()
	m.settle(now)
	return m.nudges, m.found
}

// Complete reports whether both states are complete, and if not, why.
func (m *Machine) Complete() (bool, string) {
	switch {
	case !m.bus:
		return false, "known state: the bus is down"
	case !m.known:
		return false, "known state: heard for less than a heartbeat period"
	case !m.expected:
		return false, "expected state: " + m.lostWhy
	}
	return true, ""
}

func (m *Machine) find(f Finding) { m.found = append(m.found, f) }

// busUp begins to hear anew: silence counts from here.
func (m *Machine) busUp(now time.Time) {
	m.bus, m.known, m.hearing = true, false, now
	m.deadlines.add(now.Add(m.cfg.HeartbeatPeriod+m.cfg.HeartbeatPeriod/10), hearing{now})
}

// hearing waits until every living node has had its turn to beat. The tenth of
// a period on top is for beats that come late.
type hearing struct{ since time.Time }

func (h hearing) due(m *Machine, _ time.Time) {
	m.known = m.known || m.bus && m.hearing.Equal(h.since)
}

// tick serves what is due. While the bus is down nothing is: silence means
// nothing then.
func (m *Machine) tick(now time.Time) {
	for m.bus {
		who, ok := m.deadlines.next(now)
		if !ok {
			return
		}
		who.due(m, now)
	}
}

// turn notices that the two states became complete together, or no longer are.
func (m *Machine) turn() {
	complete, why := m.Complete()
	if complete == m.acting {
		return
	}
	m.acting = complete
	m.revision++
	if !complete {
		m.find(Finding{Kind: KindIncomplete, Detail: why})
		return
	}
	m.find(Finding{Kind: KindComplete})
	for _, a := range m.apps {
		a.markAll(m)
	}
}

func (m *Machine) mark(s *slot) {
	if !s.dirty {
		s.dirty = true
		m.dirty = append(m.dirty, s)
	}
}

// settle counts every index that changed and, while both states are complete,
// acts on it.
func (m *Machine) settle(now time.Time) {
	slices.SortFunc(m.dirty, func(a, b *slot) int {
		return cmp.Or(cmp.Compare(a.app.name, b.app.name), cmp.Compare(a.index, b.index))
	})
	var out outbox
	for i, s := range m.dirty {
		m.dirty[i] = nil
		s.dirty = false
		v := s.verdict(m.cfg)
		m.count(s, v)
		if m.acting {
			out.to(m, s.app)
			m.act(now, s, v, &out)
		}
		m.forget(s)
	}
	m.dirty = m.dirty[:0]
	out.flush(m)
}

// forget drops what neither has a copy nor is desired.
func (m *Machine) forget(s *slot) {
	a := s.app
	if a.desires(s.index) || len(s.copies) > 0 {
		return
	}
	delete(a.slots, s.index)
	m.dropIfEmpty(a)
}

func (m *Machine) dropIfEmpty(a *app) {
	if len(a.slots) > 0 || a.row == rowPresent || a.row == rowUnreadable {
		return
	}
	delete(m.apps, a.name)
	if a.pool != nil {
		delete(a.pool.apps, a.name)
		a.pool.revision++
	}
}
