package apps

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/known"
)

// LimitState is the state of the disruption limit, which holds nudges after too many indices
// were lost at once.
//
//	off ──► held ──► throttled ──► off
type LimitState string

const (
	LimitOff       LimitState = ""
	LimitHeld      LimitState = "held"      // no nudge is sent
	LimitThrottled LimitState = "throttled" // the bus works again; starts leave at a tenth of the rate, but not while nodes return; stops are held
)

// throttledShare is the share of the rate for starts while throttled.
const throttledShare = 0.1

// LimitStatus is the state of the disruption limits, for people.
type LimitStatus struct {
	State   LimitState `json:"state,omitempty"`
	Since   time.Time  `json:"since,omitzero"`
	Nodes   int        `json:"nodes,omitempty"`   // lost nodes
	Indices int        `json:"indices,omitempty"` // lost indices
	Share   float64    `json:"share,omitempty"`   // of the indices that ran before

	Missing   int `json:"missing,omitempty"` // lost indices that are still missing
	ReleaseAt int `json:"release_at"`        // the limit ends at this many missing or fewer, when no more lost nodes return

	// The stops of apps without a row may be held independently of State. Either too many rows
	// were gone at once, or too many copies ran apps without a row when this machine began to
	// lead. 0: not held.
	RowsGone int `json:"rows_gone,omitempty"`
	RowsOf   int `json:"rows_of,omitempty"` // rows before
	// RowsNeedRelease: only an operator, or returning rows, end the hold of RowsGone.
	RowsNeedRelease bool      `json:"rows_need_release,omitempty"`
	WithoutRow      int       `json:"without_row,omitempty"`
	WithoutRowOf    int       `json:"without_row_of,omitempty"` // copies in total
	RowsSince       time.Time `json:"rows_since,omitzero"`      // of the earlier of the two

	// Stops are held because too many rows turned STOPPED or to 0 instances at once. 0: not
	// held.
	RowsStopped      int       `json:"rows_stopped,omitempty"`
	RowsStoppedOf    int       `json:"rows_stopped_of,omitempty"` // apps that were started before
	RowsStoppedSince time.Time `json:"rows_stopped_since,omitzero"`
	NeedsRelease     bool      `json:"needs_release,omitempty"` // only an operator can end it
}

// Holds reports whether the limit waits for proof that the bus works.
func (b LimitStatus) Holds() bool { return b.State == LimitHeld }

// On reports whether anything is held or slowed.
func (b LimitStatus) On() bool {
	return b.State != LimitOff || b.RowsGone+b.WithoutRow+b.RowsStopped > 0
}

// disruptionLimit is the rule disruption_limit for lost nodes. If many indices are lost by
// silence at once, a fault of the bus is more likely than one of the nodes. So the limit first
// holds all nudges. Each index lost within the window counts while it is missing.
type disruptionLimit struct {
	cfg     *Config
	clock   *clock
	known   *known.Store
	journal *journal

	state  LimitState
	since  instant
	recent []loss // within the window, and all since the limit holds
	lost   int    // entries of recent that are still missing
	nodes  []nodeLoss
	next   overdue // nodes about to be lost, as of the latest Tick; zero while throttled

	begin  LimitStatus // state when the limit began to hold
	probed bool        // our own probe returned since then
	proven bool        // a heartbeat came since then, not counting the first of a lost node

	back map[string]instant // lost node -> its first heartbeat since then; 0: not yet

	returned    instant // the latest of those heartbeats
	throttledAt instant // 0: not yet
}

// overdue counts the late nodes and their copies.
type overdue struct{ nodes, copies int }

type loss struct {
	indexKey indexKey
	at       instant
}

// nodeLoss is a node that was lost within the window, or while the limit holds.
type nodeLoss struct {
	name string
	at   instant
}

func (d *disruptionLimit) share() float64 {
	if d.state == LimitThrottled {
		return throttledShare
	}
	return 1
}

func (d *disruptionLimit) loseNode(name string) {
	d.nodes = append(d.nodes, nodeLoss{name, d.clock.now})
	if d.state == LimitHeld {
		d.back[name] = 0
	}
}

// heartbeat counts a heartbeat as proof that the bus works. The first heartbeat of a lost node
// proves little, because all other lost nodes may follow it. Its next one counts: by then, a
// heartbeat period later, all others could send theirs.
func (d *disruptionLimit) heartbeat(node string) {
	if d.state == LimitOff {
		return
	}
	since, lost := d.back[node]
	if lost && since == 0 {
		d.back[node], d.returned = d.clock.now, d.clock.now
		return
	}
	if d.state != LimitHeld || d.proven {
		return
	}
	d.proven = !lost || d.clock.now >= since.add(d.cfg.HeartbeatPeriod*9/10)
}

func (d *disruptionLimit) lose(s *slot) {
	d.regain(s)
	s.silent = d.clock.now
	d.recent = append(d.recent, loss{s.indexKey(), s.silent})
	d.lost++
}

func (d *disruptionLimit) regain(s *slot) {
	if s.silent != 0 {
		s.silent = 0
		d.lost--
	}
}

// expect counts the nodes that will be lost next. Nodes send heartbeats at different moments,
// so nodes that fall silent together are lost within one heartbeat period. No start may be
// sent for the first of them before all are counted.
func (d *disruptionLimit) expect() {
	d.next = overdue{}
	if d.state == LimitThrottled {
		return
	}
	for n := range d.known.Overdue(d.cfg.overdue()) {
		d.next.nodes++
		d.next.copies += n.Copies
	}
}

// watch holds, throttles and releases. running is the number of running indices.
func (d *disruptionLimit) watch(running int, slots map[indexKey]*slot) {
	switch d.state {
	case LimitOff:
		d.forget(slots)
		d.holdIfMany(running)
	case LimitHeld:
		if d.probed && d.proven {
			d.state, d.throttledAt, d.next = LimitThrottled, d.clock.now, overdue{}
			d.journal.find(Finding{Kind: KindLimitThrottled, Why: WhyProven, Rule: RuleDisruptionLimit})
		}
	}
	if d.state != LimitOff && d.recovered() {
		d.end(WhyRecovered)
	}
}

func (d *disruptionLimit) forget(slots map[indexKey]*slot) {
	window := d.cfg.DropletLost + d.cfg.HeartbeatPeriod
	for len(d.nodes) > 0 && d.nodes[0].at.add(window) < d.clock.now {
		d.nodes = d.nodes[1:]
	}
	for len(d.recent) > 0 && d.recent[0].at.add(window) < d.clock.now {
		d.forgetLoss(d.recent[0], slots)
		d.recent = d.recent[1:]
	}
}

func (d *disruptionLimit) forgetLoss(l loss, slots map[indexKey]*slot) {
	if s := slots[l.indexKey]; s != nil && s.silent == l.at {
		d.regain(s)
	}
}

// holdIfMany holds if too many indices are lost. If any index is lost, overdue nodes count as
// lost too.
func (d *disruptionLimit) holdIfMany(running int) {
	if d.lost == 0 {
		return
	}
	ran, lost := running+d.lost, d.lost+d.next.copies
	limit := d.cfg.lossLimit(ran)
	if float64(lost) <= limit {
		return
	}
	d.state, d.since, d.throttledAt, d.probed, d.proven = LimitHeld, d.clock.now, 0, false, false
	d.back = make(map[string]instant, len(d.nodes))
	for _, n := range d.nodes {
		d.back[n.name] = 0
	}
	for n := range d.known.Overdue(d.cfg.overdue()) {
		d.back[n.Node] = 0
	}
	d.begin = LimitStatus{
		Nodes: len(d.nodes) + d.next.nodes, Indices: lost, Share: float64(lost) / float64(ran), ReleaseAt: int(limit / 2),
	}
	d.journal.find(Finding{Kind: KindLimitHeld, Why: WhyMassLoss, Rule: RuleDisruptionLimit,
		Detail: fmt.Sprintf("%d nodes and %d indices, %.0f %% of those that ran, were lost at once", d.begin.Nodes, d.begin.Indices, 100*d.begin.Share)})
}

// recovered reports whether enough of what was lost is back. While lost nodes return, others
// may follow, and what they run must not be started elsewhere.
func (d *disruptionLimit) recovered() bool {
	left := d.lost + d.next.copies
	return left == 0 || left <= d.begin.ReleaseAt && !d.mayFollow(d.returned)
}

// returning reports whether lost nodes returned since the limit was throttled, and others
// may still follow.
func (d *disruptionLimit) returning() bool {
	return d.state == LimitThrottled && d.returned > d.throttledAt && d.mayFollow(d.returned)
}

func (d *disruptionLimit) mayFollow(at instant) bool {
	return d.clock.now <= at.add(d.cfg.freshAfter())
}

// release ends the limit for an operator. Losses until now no longer count.
func (d *disruptionLimit) release(slots map[indexKey]*slot) {
	if d.state == LimitOff {
		return
	}
	for _, l := range d.recent {
		d.forgetLoss(l, slots)
	}
	d.recent, d.nodes = nil, nil
	d.end(WhyOrdered)
}

func (d *disruptionLimit) end(why Why) {
	d.state, d.begin, d.back = LimitOff, LimitStatus{}, nil
	d.journal.find(Finding{Kind: KindReleased, Why: why, Rule: RuleDisruptionLimit})
}

func (d *disruptionLimit) status() LimitStatus {
	s := d.begin
	if s.State = d.state; s.State != LimitOff {
		s.Since, s.Missing = d.clock.time(d.since), d.lost
	}
	return s
}
