package apps

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/known"
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

// easedShare is the share of the rate at which starts go on while eased.
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
	RowsGone int `json:"rows_gone,omitempty"`
	RowsOf   int `json:"rows_of,omitempty"` // that there were before
	// RowsNeedRelease: only an operator, or the rows, end the hold of RowsGone.
	RowsNeedRelease bool      `json:"rows_need_release,omitempty"`
	Rowless         int       `json:"rowless,omitempty"`
	RowlessOf       int       `json:"rowless_of,omitempty"` // copies in all
	RowsSince       time.Time `json:"rows_since,omitzero"`  // of the first of the two

	// Stops of apps are held whose rows turned STOPPED or to 0 instances at once. 0: they
	// are not.
	RowsStopped      int       `json:"rows_stopped,omitempty"`
	RowsStoppedOf    int       `json:"rows_stopped_of,omitempty"` // apps that were started before
	RowsStoppedSince time.Time `json:"rows_stopped_since,omitzero"`
	NeedsRelease     bool      `json:"needs_release,omitempty"` // only an operator ends it
}

// Holds reports whether the brake waits for the bus to be proven whole.
func (b BrakeStatus) Holds() bool { return b.State == BrakeHeld }

// On reports whether anything is held, or slowed.
func (b BrakeStatus) On() bool { return b.State != BrakeOff || b.RowsGone+b.Rowless+b.RowsStopped > 0 }

// disruptionLimit is the rule brake for lost nodes. Many indices lost by silence at
// once are rather a fault of the bus than of the nodes, so the limit first holds all
// nudges. Each index lost within the window counts as long as it is missing.
type disruptionLimit struct {
	cfg     *Config
	clock   *clock
	known   *known.Store
	journal *journal

	state  BrakeState
	since  instant
	recent []loss // within the window, and all since the limit holds
	lost   int    // of recent, still missing
	nodes  []nodeLoss
	next   overdue // lost next, as of the latest Tick; zero while eased

	begin  BrakeStatus        // when the limit began to hold
	probed bool               // since then, our own message came back
	proven bool               // since then, another node than the lost ones sent a heartbeat
	back   map[string]instant // each lost node: its first heartbeat since then; 0: not yet

	returned instant // the latest of those heartbeats
	easedAt  instant // 0: not yet
}

// overdue is how many nodes are late, and how many copies they have.
type overdue struct{ nodes, copies int }

type loss struct {
	place place
	at    instant
}

// nodeLoss is a node that was lost within the window, or while the limit holds.
type nodeLoss struct {
	name string
	at   instant
}

func (d *disruptionLimit) share() float64 {
	if d.state == BrakeEased {
		return easedShare
	}
	return 1
}

func (d *disruptionLimit) loseNode(name string) {
	d.nodes = append(d.nodes, nodeLoss{name, d.clock.now})
	if d.state == BrakeHeld {
		d.back[name] = 0
	}
}

// heartbeat counts a heartbeat as proof that the bus carries. The first heartbeat of
// a lost node proves little: all other lost nodes may follow it. Its next one counts,
// a heartbeat period later: in between the others had their turn.
func (d *disruptionLimit) heartbeat(node string) {
	if d.state == BrakeOff {
		return
	}
	since, lost := d.back[node]
	if lost && since == 0 {
		d.back[node], d.returned = d.clock.now, d.clock.now
		return
	}
	if d.state != BrakeHeld || d.proven {
		return
	}
	d.proven = !lost || d.clock.now >= since.add(d.cfg.HeartbeatPeriod*9/10)
}

func (d *disruptionLimit) lose(s *slot) {
	d.regain(s)
	s.silent = d.clock.now
	d.recent = append(d.recent, loss{s.place(), s.silent})
	d.lost++
}

func (d *disruptionLimit) regain(s *slot) {
	if s.silent != 0 {
		s.silent = 0
		d.lost--
	}
}

// expect counts the nodes that are lost next. Nodes send their heartbeats at
// different moments: those that fall silent together are lost within a heartbeat
// period. No start may answer the first of them before all are counted.
func (d *disruptionLimit) expect() {
	d.next = overdue{}
	if d.state == BrakeEased {
		return
	}
	for n := range d.known.Overdue(d.cfg.overdue()) {
		d.next.nodes++
		d.next.copies += n.Copies
	}
}

// watch holds, eases and releases. So many indices run now.
func (d *disruptionLimit) watch(running int, slots map[place]*slot) {
	switch d.state {
	case BrakeOff:
		d.forget(slots)
		d.holdIfMany(running)
	case BrakeHeld:
		if d.probed && d.proven {
			d.state, d.easedAt, d.next = BrakeEased, d.clock.now, overdue{}
			d.journal.find(Finding{Kind: KindEased, Why: WhyProven, Rule: RuleBrake})
		}
	}
	if d.state != BrakeOff && d.recovered() {
		d.end(WhyRecovered)
	}
}

func (d *disruptionLimit) forget(slots map[place]*slot) {
	window := d.cfg.DropletLost + d.cfg.HeartbeatPeriod
	for len(d.nodes) > 0 && d.nodes[0].at.add(window) < d.clock.now {
		d.nodes = d.nodes[1:]
	}
	for len(d.recent) > 0 && d.recent[0].at.add(window) < d.clock.now {
		d.forgetLoss(d.recent[0], slots)
		d.recent = d.recent[1:]
	}
}

func (d *disruptionLimit) forgetLoss(l loss, slots map[place]*slot) {
	if s := slots[l.place]; s != nil && s.silent == l.at {
		d.regain(s)
	}
}

// holdIfMany counts overdue nodes as lost if any index is lost.
func (d *disruptionLimit) holdIfMany(running int) {
	if d.lost == 0 {
		return
	}
	ran, lost := running+d.lost, d.lost+d.next.copies
	limit := d.cfg.tooMany(ran)
	if float64(lost) <= limit {
		return
	}
	d.state, d.since, d.easedAt, d.probed, d.proven = BrakeHeld, d.clock.now, 0, false, false
	d.back = make(map[string]instant, len(d.nodes))
	for _, n := range d.nodes {
		d.back[n.name] = 0
	}
	for n := range d.known.Overdue(d.cfg.overdue()) {
		d.back[n.Node] = 0
	}
	d.begin = BrakeStatus{
		Nodes: len(d.nodes) + d.next.nodes, Indices: lost, Share: float64(lost) / float64(ran), ReleaseAt: int(limit / 2),
	}
	d.journal.find(Finding{Kind: KindBraked, Why: WhyMassLoss, Rule: RuleBrake,
		Detail: fmt.Sprintf("%d nodes and %d indices, %.0f %% of those that ran, were lost at once", d.begin.Nodes, d.begin.Indices, 100*d.begin.Share)})
}

// recovered reports whether enough of what was lost is back. While lost nodes come
// back, from one heartbeat period to the next, other lost nodes may follow: what they
// run must not be started.
func (d *disruptionLimit) recovered() bool {
	left := d.lost + d.next.copies
	return left == 0 || left <= d.begin.ReleaseAt && !d.mayFollow(d.returned)
}

// returning reports whether lost nodes came back since the limit was eased: those
// that did before had their turn while it held.
func (d *disruptionLimit) returning() bool {
	return d.state == BrakeEased && d.returned > d.easedAt && d.mayFollow(d.returned)
}

func (d *disruptionLimit) mayFollow(at instant) bool { return d.clock.now <= at.add(d.cfg.startIn()) }

// release ends the limit for an operator: what was lost until now counts no more.
func (d *disruptionLimit) release(slots map[place]*slot) {
	if d.state == BrakeOff {
		return
	}
	for _, l := range d.recent {
		d.forgetLoss(l, slots)
	}
	d.recent, d.nodes = nil, nil
	d.end(WhyOrdered)
}

func (d *disruptionLimit) end(why Why) {
	d.state, d.begin, d.back = BrakeOff, BrakeStatus{}, nil
	d.journal.find(Finding{Kind: KindReleased, Why: why, Rule: RuleBrake})
}

func (d *disruptionLimit) status() BrakeStatus {
	s := d.begin
	if s.State = d.state; s.State != BrakeOff {
		s.Since, s.Missing = d.clock.time(d.since), d.lost
	}
	return s
}
