package apps

import (
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/queue"
)

// dispatch queues what verdicts request, sends it by rule queue, and records the sent nudges.
type dispatch struct {
	cfg     *Config
	clock   *clock
	known   *known.Store
	apps    *inventory
	rules   *rules
	rows    *rows
	gate    *gate
	memory  *memory
	journal *journal
	wakes   *wakes
	updates *updates

	starts *queue.Queue[indexKey]
	stops  *queue.Queue[stopKey]
	queued []indexKey          // starts queued in this Step
	out    map[*app]*appNudges // nudges of this Step, by app
}

// act queues what the verdict requests, unless it was sent or has to wait.
func (d *dispatch) act(l *evaluation) {
	if l.start != "" {
		d.start(l)
	}
	d.stopExtras(l)
	if l.again > 0 {
		d.wakes.addIndex(l.slot, d.clock.in(l.again))
	}
}

// start queues the start of an index, or reports what it waits for.
func (d *dispatch) start(l *evaluation) {
	s := l.slot
	s.start, s.why = l.start, l.why
	served, begins := l.category == running && l.start == api.AppRuleMissing, s.missing == 0 || s.served
	if s.served = served; s.missing == 0 {
		s.missing = d.clock.now
	}
	if begins && !served {
		d.journal.addIndexFinding(s, api.AppFinding{Kind: api.AppFindingMissing, Why: l.why, Version: s.app.want.Version, Rule: l.start})
	}
	if h, held := l.holdStart(judging); held {
		d.starts.Remove(s.indexKey())
		d.waits(s, h)
		return
	}
	d.updates.allow(l)
	if !d.starts.Has(s.indexKey()) {
		d.queued = append(d.queued, s.indexKey())
	}
	d.starts.Push(uint32(s.app.id), s.indexKey(), priority(s.start))
}

// waits reports once what a start waits for, and sets a deadline for the index.
func (d *dispatch) waits(s *slot, h hold) {
	d.wakes.addIndex(s, h.until)
	if s.hold == h.rule || h.rule == api.AppRuleKeepAlive { // the start itself was reported
		return
	}
	s.hold = h.rule
	f := api.AppFinding{Kind: api.AppFindingNotNudged, Why: h.why, Version: s.app.want.Version, Rule: h.rule, Until: d.clock.time(h.until)}
	if h.rule == api.AppRuleFlapping || h.rule == api.AppRuleGiveUp {
		if f.Detail = s.app.crashes.description(s.lastExit()); s.ended != nil {
			f.Detail = s.ended.Description
		}
	}
	d.journal.addIndexFinding(s, f)
}

// stopExtras queues the stops of the copies that should not run. It removes the stops of all
// other copies.
func (d *dispatch) stopExtras(l *evaluation) {
	s := l.slot
	if len(s.extras) == 0 && len(l.surplus) == 0 {
		return
	}
	old, left := s.extras, make(map[string]extra, len(s.extras))
	for _, x := range old {
		left[x.id] = x
	}
	s.extras = make([]extra, 0, len(l.surplus))
	for i := range l.surplus {
		c := &l.surplus[i]
		id := c.copy.ID()
		x := left[id]
		delete(left, id)
		if x.id = id; x.rule == "" { // new, or named only by another harmonizer
			d.journal.addIndexFinding(s, onNode(api.AppFinding{Kind: api.AppFindingExtra, Why: c.why, Version: c.copy.Version(), Instance: id, Rule: c.rule}, c.copy.Node()))
		}
		x.rule, x.why = c.rule, c.why
		d.stop(l, c, &x)
		s.extras = append(s.extras, x)
	}
	for _, x := range old {
		if _, still := left[x.id]; !still {
			continue
		}
		d.stops.Remove(stopKey{s.indexKey(), x.id})
		if x.until > d.clock.now { // its stop is under way
			x.rule, x.hold, x.alone = "", "", 0
			s.extras = append(s.extras, x)
			continue
		}
		d.forgetStop(s, x)
	}
}

// stop queues the stop of a copy, or reports what it waits for.
func (d *dispatch) stop(l *evaluation, c *surplus, x *extra) {
	s, key := l.slot, stopKey{l.slot.indexKey(), x.id}
	h, held := l.holdStop(c, x, judging)
	if !l.alone {
		x.alone = 0
	} else if d.known.AwaitCovered(s.app.id); x.alone == 0 {
		x.alone = d.clock.now
	}
	if !held {
		d.stops.Push(uint32(s.app.id), key, priority(x.rule))
		h = d.gate.stops()
	} else {
		d.stops.Remove(key)
		d.wakes.addIndex(s, h.until)
	}
	if h.rule == "" || x.hold == h.rule || h.rule == api.AppRuleQueue || h.rule == api.AppRuleKeepAlive {
		return
	}
	x.hold = h.rule
	d.journal.addIndexFinding(s, onNode(api.AppFinding{Kind: api.AppFindingNotNudged, Why: h.why, Version: c.copy.Version(), Instance: x.id,
		Rule: h.rule, Until: d.clock.time(h.until)}, c.copy.Node()))
}

// ended drops the stop of a copy that ended. The stop of a copy that was lost in another way
// stays, because its node may list it again.
func (d *dispatch) ended(p indexKey, c known.Copy) {
	s := d.apps.slots[p]
	if s == nil || len(s.extras) == 0 {
		return
	}
	id := c.ID()
	s.extras = slices.DeleteFunc(s.extras, func(x extra) bool {
		if x.id == id {
			d.forgetStop(s, x)
		}
		return x.id == id
	})
}

func (d *dispatch) forgetStop(s *slot, x extra) {
	d.stops.Remove(stopKey{s.indexKey(), x.id})
	if x.until != 0 {
		d.memory.markChanged(s.app)
	}
}

// forget removes the queued starts and stops of an index.
func (d *dispatch) forget(s *slot) {
	d.starts.Remove(s.indexKey())
	for _, x := range s.extras {
		d.forgetStop(s, x)
	}
}

// send implements rule queue. Queued nudges leave as package queue orders them, limited by the
// rate and by n of each kind. Each index is evaluated again first.
func (d *dispatch) send(n int) []Nudge {
	if _, held := d.gate.starts(); !held {
		drain(d.starts, d.clock.wall, n, d.sendStart)
	}
	if d.gate.passesStops() {
		drain(d.stops, d.clock.wall, n, d.sendStop)
	}
	nudges := d.flush()
	for _, p := range d.queued {
		if s := d.apps.slots[p]; s != nil && d.starts.Has(p) {
			h, _ := d.gate.starts()
			d.waits(s, h)
		}
	}
	d.queued = d.queued[:0]
	return nudges
}

// drain sends what the queue releases. An obsolete entry costs no token.
func drain[K comparable](q *queue.Queue[K], now time.Time, n int, send func(K) bool) {
	for range n {
		k, ok := q.Pop(now)
		if !ok {
			return
		}
		if !send(k) {
			q.Refund()
		}
	}
}

func (d *dispatch) sendStart(p indexKey) bool {
	s := d.apps.slots[p]
	if s == nil {
		return false
	}
	d.rows.refresh(s.app)
	l := d.rules.judge(s.app, s.index, s)
	if l.start == "" {
		d.apps.backlog.mark(p)
		return false
	}
	s.start, s.why = l.start, l.why
	if h, held := l.holdStart(sending); held {
		d.waits(s, h)
		return false
	}
	s.nudged, s.pending, s.hold = d.clock.now, d.clock.in(d.cfg.startKeepAlive()), ""
	d.wakes.addIndex(s, s.pending)
	if s.start == api.AppRuleFlapping { // if there is no answer, the next start waits for the same delay
		s.restart = d.clock.in(s.delay(d.cfg, s.app.name(), s.index))
	}
	d.memory.markChanged(s.app)
	if p := d.appNudges(s.app); s.start == api.AppRuleFlapping {
		p.restarts = append(p.restarts, s)
	} else {
		p.starts = append(p.starts, s)
	}
	return true
}

func (d *dispatch) sendStop(k stopKey) bool {
	s := d.apps.slots[k.indexKey]
	if s == nil {
		return false
	}
	d.rows.refresh(s.app)
	l := d.rules.judge(s.app, s.index, s)
	var c *surplus
	if is, ok := d.known.Find(k.id); ok {
		c = l.surplusOf(is)
	}
	x := s.find(k.id)
	if c == nil || x == nil {
		d.apps.backlog.mark(k.indexKey)
		return false
	}
	x.rule, x.why = c.rule, c.why
	if _, held := l.holdStop(c, x, sending); held {
		d.apps.backlog.mark(k.indexKey)
		return false
	}
	x.until, x.hold = d.clock.in(d.cfg.NudgeKeepAlive), ""
	d.rules.evaluation.standInCount = standInCount{}
	if x.rule == api.AppRuleDuplicate {
		s.liveCopies.toStop = x.id
	}
	d.wakes.addIndex(s, x.until)
	d.memory.markChanged(s.app)
	p := d.appNudges(s.app)
	p.stops = append(p.stops, stopped{s, *x, c.copy.Version(), c.copy.Node()})
	return true
}
