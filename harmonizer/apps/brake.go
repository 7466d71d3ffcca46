package apps

import (
	"cmp"
	"fmt"
	"time"
)

// BrakeState is how far nudges are held because too many indices were lost at
// once.
//
//	off ──► held ──► eased ──► off
type BrakeState string

// States of the brake.
const (
	BrakeOff   BrakeState = ""
	BrakeHeld  BrakeState = "held"  // nothing is nudged
	BrakeEased BrakeState = "eased" // the bus is proven whole: starts go on, at a tenth, but while nodes come back; stops are held
)

// easedShare is the share of the rate at which starts go on.
const easedShare = 0.1

// BrakeStatus is the brake, for people.
type BrakeStatus struct {
	State     BrakeState `json:"state,omitempty"`
	Since     time.Time  `json:"since,omitzero"`
	Nodes     int        `json:"nodes,omitempty"`   // lost
	Indices   int        `json:"indices,omitempty"` // lost
	Share     float64    `json:"share,omitempty"`   // of the indices that ran before
	Missing   int        `json:"missing,omitempty"` // of the lost ones, still
	ReleaseAt int        `json:"release_at"`        // it ends when so many or fewer are missing, and no more lost nodes come back

	// Beside State: stops of apps without a row are held, because so many rows
	// were gone at once, or because so many copies ran apps without a row when this
	// machine began to lead. 0: they are not.
	RowsGone  int       `json:"rows_gone,omitempty"`
	RowsOf    int       `json:"rows_of,omitempty"` // that there were before
	Rowless   int       `json:"rowless,omitempty"`
	RowlessOf int       `json:"rowless_of,omitempty"` // copies in all
	RowsSince time.Time `json:"rows_since,omitzero"`  // of the first of the two
}

// Holds reports whether the brake waits for the bus to be proven whole.
func (b BrakeStatus) Holds() bool { return b.State == BrakeHeld }

// On reports whether anything is held, or slowed.
func (b BrakeStatus) On() bool { return b.State != BrakeOff || b.RowsGone+b.Rowless > 0 }

// brake watches how many indices are lost by silence at once: rule brake. What is
// lost within the window is counted as long as it is missing.
type brake struct {
	state  BrakeState
	since  instant
	recent []loss // within the window, and all since the brake holds
	lost   int    // of recent, still missing
	nodes  []nodeLoss
	// overdue is what is lost next, as of the latest Tick; nothing while eased.
	overdue overdue

	told   BrakeStatus        // when it began
	canary bool               // since it began, our own message came back
	heard  bool               // since then, another node than the lost ones was heard
	back   map[string]instant // of the lost nodes: heard again since then; 0: not yet

	returned instant // the latest of those
	easedAt  instant // 0: not yet
}

// overdue is how many nodes are, and how many copies they have.
type overdue struct{ nodes, copies int }

type loss struct {
	place place
	at    instant
}

// nodeLoss is a node that was lost within the window, or while the brake is held.
type nodeLoss struct {
	name string
	at   instant
}

// loseNode counts a node as lost.
func (m *Machine) loseNode(name string) {
	b := &m.brake
	b.nodes = append(b.nodes, nodeLoss{name, m.clock.now})
	if b.state == BrakeHeld {
		b.back[name] = 0
	}
}

// heard is told of each heartbeat. The first one of a lost node proves little: it
// may be the first of all that come back. The one after that counts, a heartbeat
// period later: in between the others had their turn.
func (m *Machine) heard(node string) {
	b := &m.brake
	if b.state == BrakeOff {
		return
	}
	since, lost := b.back[node]
	if lost && since == 0 {
		b.back[node], b.returned = m.clock.now, m.clock.now
		return
	}
	if b.state != BrakeHeld || b.heard {
		return
	}
	b.heard = !lost || m.clock.now >= since.add(m.cfg.HeartbeatPeriod*9/10)
}

// lose counts an index as lost by silence.
func (m *Machine) lose(s *slot) {
	m.unlose(s)
	s.silent = m.clock.now
	m.brake.recent = append(m.brake.recent, loss{s.place(), s.silent})
	m.brake.lost++
}

// unlose counts it no more.
func (m *Machine) unlose(s *slot) {
	if s.silent != 0 {
		s.silent = 0
		m.brake.lost--
	}
}

// watchLosses holds, eases and releases. While there is more to take in, it waits:
// nothing is nudged then.
func (m *Machine) watchLosses() {
	if m.backlog.pending() {
		return
	}
	b := &m.brake
	switch b.state {
	case BrakeOff:
		m.forgetLosses()
		m.holdIfMany()
	case BrakeHeld:
		if b.canary && b.heard {
			b.state, b.easedAt, b.overdue = BrakeEased, m.clock.now, overdue{}
			m.starts.Scale(easedShare)
			m.journal.find(Finding{Kind: KindEased, Why: WhyProven, Rule: RuleBrake})
		}
	}
	if b.state != BrakeOff && m.recovered() {
		m.endBrake(WhyRecovered)
	}
}

// recovered reports whether enough of what was lost is there again. While lost nodes
// come back, from one heartbeat period to the next, the others may be on their way:
// what they have is not to be started.
func (m *Machine) recovered() bool {
	b := &m.brake
	left := b.lost + b.overdue.copies
	return left == 0 || left <= b.told.ReleaseAt && !m.mayFollow(b.returned)
}

// returning reports whether lost nodes came back since the brake was eased: those
// that did before had their turn while it was held.
func (m *Machine) returning() bool {
	b := &m.brake
	return b.state == BrakeEased && b.returned > b.easedAt && m.mayFollow(b.returned)
}

// mayFollow reports whether other nodes may be about to come back with one that did
// at that time.
func (m *Machine) mayFollow(at instant) bool { return m.clock.now <= at.add(m.cfg.startIn()) }

// forgetLosses drops what is older than the window.
func (m *Machine) forgetLosses() {
	b := &m.brake
	window := m.cfg.DropletLost + m.cfg.HeartbeatPeriod
	for len(b.nodes) > 0 && b.nodes[0].at.add(window) < m.clock.now {
		b.nodes = b.nodes[1:]
	}
	for len(b.recent) > 0 && b.recent[0].at.add(window) < m.clock.now {
		m.forgetLoss(b.recent[0])
		b.recent = b.recent[1:]
	}
}

func (m *Machine) forgetLoss(l loss) {
	if s := m.apps.slots[l.place]; s != nil && s.silent == l.at {
		m.unlose(s)
	}
}

// watchOverdue looks at the nodes that are lost next. Nodes do not beat at the same
// moment: those that fall silent together are lost within a heartbeat period, and
// the first of them are not to be answered before all are counted.
func (m *Machine) watchOverdue() {
	b := &m.brake
	b.overdue = overdue{}
	if b.state == BrakeEased {
		return
	}
	for _, copies := range m.known.Overdue(m.cfg.overdue()) {
		b.overdue.nodes++
		b.overdue.copies += copies
	}
}

// holdIfMany counts what is overdue as lost, once anything is lost.
func (m *Machine) holdIfMany() {
	b := &m.brake
	ran := m.apps.total.Running + b.lost
	limit := m.tooMany(ran)
	lost := b.lost + b.overdue.copies
	if b.lost == 0 || float64(lost) <= limit {
		return
	}
	b.state, b.since, b.easedAt, b.canary, b.heard = BrakeHeld, m.clock.now, 0, false, false
	b.back = make(map[string]instant, len(b.nodes))
	for _, n := range b.nodes {
		b.back[n.name] = 0
	}
	for name := range m.known.Overdue(m.cfg.overdue()) {
		b.back[name] = 0
	}
	b.told = BrakeStatus{
		Nodes: len(b.nodes) + b.overdue.nodes, Indices: lost, Share: float64(lost) / float64(ran), ReleaseAt: int(limit / 2),
	}
	m.journal.find(Finding{Kind: KindBraked, Why: WhyMassLoss, Rule: RuleBrake,
		Detail: fmt.Sprintf("%d nodes and %d indices, %.0f %% of those that ran, were lost at once", b.told.Nodes, b.told.Indices, 100*b.told.Share)})
}

// release is an operator's end of the brake: what was lost until now is ignored.
func (m *Machine) release() {
	if _, held := m.rowLoss.holds(); held {
		m.endRowLoss(WhyOrdered)
	}
	if m.brake.state == BrakeOff {
		return
	}
	for _, l := range m.brake.recent {
		m.forgetLoss(l)
	}
	m.brake.recent, m.brake.nodes = nil, nil
	m.endBrake(WhyOrdered)
}

func (m *Machine) endBrake(why Why) {
	m.brake.state, m.brake.told, m.brake.back = BrakeOff, BrakeStatus{}, nil
	m.starts.Scale(1)
	m.journal.find(Finding{Kind: KindReleased, Why: why, Rule: RuleBrake})
}

// Brake returns the state of the brake.
func (m *Machine) Brake() BrakeStatus {
	s := m.brake.told
	s.State = m.brake.state
	if s.State != BrakeOff {
		s.Since, s.Missing = m.clock.time(m.brake.since), m.brake.lost
	}
	rows, copies := m.rowLoss.rows, m.rowLoss.copies
	s.RowsGone, s.RowsOf, s.Rowless, s.RowlessOf = rows.gone, rows.of, copies.gone, copies.of
	s.RowsSince = m.clock.time(cmp.Or(rows.since, copies.since))
	if rows.since != 0 && copies.since != 0 {
		s.RowsSince = m.clock.time(min(rows.since, copies.since))
	}
	return s
}
