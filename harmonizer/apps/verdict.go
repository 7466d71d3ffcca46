package apps

import (
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// category is what an index counts as: exactly one.
type category uint8

const (
	undesired  category = iota // or its row cannot be read
	running                    // a copy of the live version takes it
	missing                    // none does
	crashed                    // none does, the last one crashed
	flapping                   // the same, and more often than FlappingDeath
	categories                 // how many there are
)

// verdict is what an index should be: its category, what wants a start, and the
// copies that should not run there.
type verdict struct {
	category  category
	start     Rule // "": nothing is to be started
	why       Why
	surplus   []surplus    // the machine's: until the next verdict
	twins     []known.Copy // the same; duplicates, the survivor first
	redundant int          // copies that should not run
	again     bool         // to be looked at again soon
}

// surplus is a copy that should not run.
type surplus struct {
	copy known.Copy
	rule Rule
	why  Why
}

func (v verdict) troubled() bool { return v.start != "" || len(v.surplus) > 0 || v.again }

// census is the copies on an index that run, and what of.
type census struct {
	serving    int // of the live version, and not about to end
	running    int // of these, RUNNING
	listed     int // of these, listed by the latest beat of their node
	twins      int // of these, RUNNING or STARTING
	leaving    int // of the live version, EVACUATING
	evacuating int // of any version
	others     int // of other versions, not EVACUATING
}

func (m *Machine) census(a *app, index int) census {
	var n census
	for c := range m.known.Copies(a.id, index) {
		state := c.State()
		if !runs(state) {
			continue
		}
		live := c.OfVersion(a.want.Version)
		switch {
		case state == message.Evacuating:
			n.evacuating++
			n.leaving += count(live)
		case !live:
			n.others++
		default:
			n.serving++
			n.twins += count(state == message.Running || state == message.Starting)
			n.running += count(state == message.Running)
			n.listed += count(state == message.Running && listed(c))
		}
	}
	return n
}

// listed reports whether the copy's node still lists it. A node that was not heard
// since the bus came back may have died with it.
func listed(c known.Copy) bool {
	_, absent := c.Absent()
	return !absent && c.Heard()
}

// verdict applies the rules to an index; s is its slot, nil if it has none.
func (m *Machine) verdict(a *app, index int, s *slot) verdict {
	v := verdict{surplus: m.surplus[:0], twins: m.twins[:0]}
	if a.row == rowUnreadable {
		return v
	}
	if a.desires(index) {
		n := m.census(a, index)
		m.missing(s, n, &v)
		m.evacuation(a, index, n, &v)
		m.extraVersion(a, index, n, &v)
		m.duplicates(a, index, n, &v)
	} else {
		m.undesired(a, index, &v)
	}
	m.surplus, m.twins = v.surplus, v.twins
	return v
}

// judge brings an index to its verdict, and while both states are complete acts
// on it.
func (m *Machine) judge(p place) {
	a := m.apps.app(p.app())
	if a == nil {
		return
	}
	m.vanish(a)
	s := m.apps.slots[p]
	v := m.verdict(a, p.index(), s)
	if s == nil {
		if !v.troubled() {
			m.dropIfEmpty(a)
			return
		}
		s = m.apps.slot(a, p.index())
	}
	m.apps.count(s, v.category, v.redundant)
	if v.start == "" {
		m.recover(s, v.category == running)
	}
	if m.acting {
		m.act(s, v)
	}
	if m.keeps(s, v) {
		return
	}
	m.drop(s)
	m.dropIfEmpty(a)
}

// keeps reports whether there is still something to know of an index, and has it
// looked at again when there is not.
func (m *Machine) keeps(s *slot, v verdict) bool {
	if v.troubled() {
		return true
	}
	var until instant
	for _, x := range s.extras { // of a copy that is not heard of yet
		until = max(until, x.until)
	}
	desired := v.category != undesired || s.app.row == rowUnreadable
	if desired {
		until = max(until, s.pending, s.grace)
	}
	if desired && s.note != nil { // what happened here lately is explained for a while
		until = max(until, s.noteAt.add(m.cfg.FlappingTimeout))
	}
	if until > m.clock.now {
		m.wakes.slot(s, until)
	}
	return until > m.clock.now || desired && s.crashes > 0
}

// act nudges what the verdict asks for, unless it was nudged or has to wait.
func (m *Machine) act(s *slot, v verdict) {
	if v.start != "" {
		m.want(s, v)
	}
	m.shed(s, v)
	if v.again {
		m.wakes.slot(s, m.clock.in(m.cfg.HeartbeatPeriod/4))
	}
}

// want has an index wait for its start.
func (m *Machine) want(s *slot, v verdict) {
	s.start, s.why = v.start, v.why
	if s.missing == 0 {
		s.missing = m.clock.now
		m.journal.note(s, Finding{Kind: KindMissing, Why: v.why, Version: s.app.want.Version, Rule: v.start})
	}
	if h, held := m.holdStart(s); held {
		m.starts.Remove(s.place())
		m.waits(s, h)
		return
	}
	if !m.starts.Has(s.place()) {
		m.queued = append(m.queued, s.place())
	}
	m.starts.Push(uint32(s.app.id), s.place(), priority(s.start))
}

// waits notes what a start waits for, once, and looks at it again then.
func (m *Machine) waits(s *slot, h hold) {
	m.wakes.slot(s, h.until)
	if s.hold == h.rule || h.rule == RuleKeepAlive { // the start itself told
		return
	}
	s.hold = h.rule
	f := Finding{Kind: KindNotNudged, Why: h.why, Version: s.app.want.Version, Rule: h.rule, Until: m.clock.time(h.until)}
	if h.rule == RuleFlapping || h.rule == RuleGiveUp {
		f.Detail = s.app.exitOf(s.lastExit())
	}
	m.journal.note(s, f)
}

// shed has the copies wait for their stop that should not run.
func (m *Machine) shed(s *slot, v verdict) {
	if len(s.extras) == 0 && len(v.surplus) == 0 {
		return
	}
	old, left := s.extras, make(map[string]extra, len(s.extras))
	for _, x := range old {
		left[x.id] = x
	}
	s.extras = make([]extra, 0, len(v.surplus))
	for _, c := range v.surplus {
		id := c.copy.ID()
		x := left[id]
		delete(left, id)
		if x.id = id; x.rule == "" { // it is a new one, or one that another harmonizer named
			m.journal.note(s, Finding{Kind: KindExtra, Why: c.why, Version: c.copy.Version(), Instance: id, Node: c.copy.Node(), Rule: c.rule})
		}
		x.rule, x.why = c.rule, c.why
		m.shedOne(s, v, c, &x)
		s.extras = append(s.extras, x)
	}
	for _, x := range old {
		if _, still := left[x.id]; !still {
			continue
		}
		if x.rule == "" && x.until > m.clock.now {
			s.extras = append(s.extras, x)
			continue
		}
		m.forgetStop(s, x)
	}
}

// forgetStop ends what is known of a copy that should not run.
func (m *Machine) forgetStop(s *slot, x extra) {
	m.stops.Remove(stopKey{s.place(), x.id})
	if x.until != 0 {
		m.remember(s.app)
	}
}

// shedOne has one copy wait for its stop, or tells why it is not to.
func (m *Machine) shedOne(s *slot, v verdict, c surplus, x *extra) {
	key := stopKey{s.place(), x.id}
	if !listed(c.copy) { // it ends, is lost, or is listed again
		m.stops.Remove(key)
		m.wakes.slot(s, m.clock.in(m.cfg.HeartbeatPeriod/4))
		return
	}
	h, held := m.holdStop(s, v, *x)
	if !held {
		m.stops.Push(uint32(s.app.id), key, priority(x.rule))
		h = m.heldStops()
	} else {
		m.stops.Remove(key)
		m.wakes.slot(s, h.until)
	}
	if x.hold == h.rule || h.rule == RuleQueue || h.rule == RuleKeepAlive {
		return
	}
	x.hold = h.rule
	m.journal.note(s, Finding{Kind: KindNotNudged, Why: h.why, Version: c.copy.Version(), Instance: x.id, Node: c.copy.Node(),
		Rule: h.rule, Until: m.clock.time(h.until)})
}
