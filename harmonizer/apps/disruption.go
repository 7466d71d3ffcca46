package apps

import (
	"fmt"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// throttledShare is the share of the rate for starts while throttled.
const throttledShare = 0.1

// disruptionLimit is the rule disruption_limit for lost nodes. If many indices are lost by
// silence at once, a fault of the bus is more likely than one of the nodes. So the limit first
// holds all nudges. Each index lost within the window counts while it is missing.
type disruptionLimit struct {
	cfg     *Config
	clock   *clock
	known   *known.Store
	journal *journal

	state  api.LimitState
	since  instant
	recent []loss // within the window, and all since the limit holds
	lost   int    // entries of recent that are still missing
	nodes  []nodeLoss
	next   overdue // nodes about to be lost, as of the latest Tick; zero while throttled

	begin  api.LimitStatus // state when the limit began to hold
	probed bool            // our own probe returned since then
	proven bool            // a heartbeat came since then, not counting the first of a lost node

	back map[message.Node]instant // lost node -> its first heartbeat since then; 0: not yet

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
	name message.Node
	at   instant
}

func (d *disruptionLimit) share() float64 {
	if d.state == api.LimitThrottled {
		return throttledShare
	}
	return 1
}

func (d *disruptionLimit) loseNode(name message.Node) {
	d.nodes = append(d.nodes, nodeLoss{name, d.clock.now})
	if d.state == api.LimitHeld {
		d.back[name] = 0
	}
}

// heartbeat counts a heartbeat as proof that the bus works. The first heartbeat of a lost node
// proves little, because all other lost nodes may follow it. Its next one counts: by then, a
// heartbeat period later, all others could send theirs.
func (d *disruptionLimit) heartbeat(node message.Node) {
	if d.state == api.LimitOff {
		return
	}
	since, lost := d.back[node]
	if lost && since == 0 {
		d.back[node], d.returned = d.clock.now, d.clock.now
		return
	}
	if d.state != api.LimitHeld || d.proven {
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
	if d.state == api.LimitThrottled {
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
	case api.LimitOff:
		d.forget(slots)
		d.holdIfMany(running)
	case api.LimitHeld:
		if d.probed && d.proven {
			d.state, d.throttledAt, d.next = api.LimitThrottled, d.clock.now, overdue{}
			d.journal.addFinding(api.AppFinding{Kind: api.AppFindingLimitThrottled, Why: api.WhyProven, Rule: api.AppRuleDisruptionLimit})
		}
	}
	if d.state != api.LimitOff && d.recovered() {
		d.end(api.WhyRecovered)
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
	d.state, d.since, d.throttledAt, d.probed, d.proven = api.LimitHeld, d.clock.now, 0, false, false
	d.back = make(map[message.Node]instant, len(d.nodes))
	for _, n := range d.nodes {
		d.back[n.name] = 0
	}
	for n := range d.known.Overdue(d.cfg.overdue()) {
		d.back[n.Node] = 0
	}
	d.begin = api.LimitStatus{
		Nodes: len(d.nodes) + d.next.nodes, Indices: lost, Share: float64(lost) / float64(ran), ReleaseAt: int(limit / 2),
	}
	d.journal.addFinding(api.AppFinding{Kind: api.AppFindingLimitHeld, Why: api.WhyMassLoss, Rule: api.AppRuleDisruptionLimit,
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
	return d.state == api.LimitThrottled && d.returned > d.throttledAt && d.mayFollow(d.returned)
}

func (d *disruptionLimit) mayFollow(at instant) bool {
	return d.clock.now <= at.add(d.cfg.freshAfter())
}

// release ends the limit for an operator. Losses until now no longer count.
func (d *disruptionLimit) release(slots map[indexKey]*slot) {
	if d.state == api.LimitOff {
		return
	}
	for _, l := range d.recent {
		d.forgetLoss(l, slots)
	}
	d.recent, d.nodes = nil, nil
	d.end(api.WhyOrdered)
}

func (d *disruptionLimit) end(why api.AppReason) {
	d.state, d.begin, d.back = api.LimitOff, api.LimitStatus{}, nil
	d.journal.addFinding(api.AppFinding{Kind: api.AppFindingReleased, Why: why, Rule: api.AppRuleDisruptionLimit})
}

func (d *disruptionLimit) status() api.LimitStatus {
	s := d.begin
	if s.State = d.state; s.State != api.LimitOff {
		s.Since, s.Missing = d.clock.time(d.since), d.lost
	}
	return s
}
