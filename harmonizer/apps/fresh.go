package apps

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// source is how far the expected state can be trusted.
type source struct {
	isComplete bool
	since      instant // complete since then, for this time
	trusted    instant // for how long it was complete before, in all
	until      instant // complete until then; 0: until it is lost
	why        string  // why it is not
	failed     string  // why the latest pass did

	polled bool
	pass   uint32 // which telling of all rows this is
	whole  uint32 // the last that was told to its end
	rows   int    // apps with a row, readable or not
	heard  int    // of them, told in this pass
	before int    // there were when this pass began
}

func (s *source) begin() {
	s.polled = true
	s.next()
}

func (s *source) lose(at instant, why string) {
	s.distrust(at, why)
	s.next()
}

// distrust ends that the rows are complete.
func (s *source) distrust(at instant, why string) {
	s.trusted = s.trust(at)
	s.isComplete, s.why = false, why
}

// trust is for how long the source was complete, in all: a clock that stands while
// nothing can be concluded from a row that is not told.
func (s *source) trust(at instant) instant {
	if s.isComplete {
		return s.trusted + at - s.since
	}
	return s.trusted
}

// next begins a telling of all rows.
func (s *source) next() {
	s.pass++
	s.before, s.heard = s.rows, 0
}

// told notes that an app's row was told in this pass.
func (s *source) told(a *app) {
	if a.has() && a.pass != s.pass {
		s.heard++
	}
	a.pass = s.pass
}

// tally counts rows; it comes before the app's row becomes row.
func (s *source) tally(a *app, row rowState) {
	by := count(row == rowPresent || row == rowUnreadable) - count(a.has())
	s.rows += by
	if a.pass == s.pass {
		s.heard += by
	}
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// has reports whether the app has a row, be it one that cannot be read.
func (a *app) has() bool { return a.row == rowPresent || a.row == rowUnreadable }

func (s *source) complete(t clock, validFor time.Duration) {
	if !s.isComplete {
		s.isComplete, s.since = true, t.now
	}
	if s.until = 0; validFor > 0 {
		s.until = t.in(validFor)
	}
	s.whole, s.failed = s.pass, ""
}

// expireRows ends the time for which the last whole pass counts.
func (m *Machine) expireRows() {
	s := &m.source
	if !s.isComplete || s.until == 0 || m.clock.now <= s.until {
		return
	}
	why := "the last whole pass is too old"
	if s.failed != "" {
		why += ": " + s.failed
	}
	s.distrust(s.until, why)
}

// bus is how far the known state can be trusted.
type bus struct {
	up      bool
	fresh   bool           // heard for long enough
	hearing instant        // since then, everything
	awaited map[string]int // nodes that were heard before, and not yet since; and their copies
}

// busUp begins to hear anew: silence counts from here.
func (m *Machine) busUp() {
	m.bus.up, m.bus.fresh, m.bus.hearing = true, false, m.clock.now
	m.known.Hearing(m.clock.wall)
}

// hear waits until every living node has had its turn to beat, and gives those
// that were heard before by another DropletLost.
func (m *Machine) hear() {
	if m.clock.now >= m.bus.hearing.add(m.cfg.startIn()) {
		m.bus.fresh = true
	}
	if len(m.bus.awaited) > 0 && m.clock.now > m.bus.hearing.add(m.cfg.DropletLost) && !m.Busy() {
		m.loseAwaited()
	}
}

// loseAwaited gives up nodes that whoever led before heard and we did not. Their
// copies were never known here: the indices that nobody was seen on stand for
// them, as many as there were.
func (m *Machine) loseAwaited() {
	copies := 0
	for _, node := range slices.Sorted(maps.Keys(m.bus.awaited)) {
		copies += m.bus.awaited[node]
		m.journal.find(Finding{Kind: KindNodeLost, Node: node, Rule: RuleFreshness})
		m.limit.loseNode(node)
	}
	m.bus.awaited = nil
	for s := m.apps.first; s != nil && copies > 0; s = s.after {
		if s.category == missing && s.cause == WhyNew {
			m.limit.lose(s)
			copies--
		}
	}
}

// await has the known state wait for nodes that were heard before, unless we
// listen for longer than they may be silent.
func (m *Machine) await(nodes map[string]int) {
	if m.bus.up && m.clock.now > m.bus.hearing.add(m.cfg.DropletLost) {
		return
	}
	m.bus.awaited = maps.Clone(nodes)
	for node := range m.known.Nodes() {
		delete(m.bus.awaited, node)
	}
}

// Complete reports whether both states are complete, and if not, why.
func (m *Machine) Complete() (bool, string) {
	switch {
	case !m.bus.up:
		return false, "known state: the bus is down"
	case !m.bus.fresh:
		return false, "known state: heard for less than a heartbeat period"
	case len(m.bus.awaited) > 0:
		return false, fmt.Sprintf("known state: %d nodes that were heard before are not yet", len(m.bus.awaited))
	case !m.source.isComplete:
		return false, "expected state: " + m.source.why
	}
	return true, ""
}

// turn notices that the two states became complete together, or no longer are:
// rule freshness.
func (m *Machine) turn() {
	complete, why := m.Complete()
	if complete == m.acting {
		return
	}
	m.acting = complete
	m.apps.revision++
	if !complete {
		m.journal.find(Finding{Kind: KindIncomplete, Rule: RuleFreshness, Detail: why})
		return
	}
	m.journal.find(Finding{Kind: KindComplete, Rule: RuleFreshness})
	m.apps.markTrouble()
}
