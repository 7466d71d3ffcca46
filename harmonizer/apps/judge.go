package apps

// judge brings an index to its verdict, and while both states are complete acts
// on it.
func (m *Machine) judge(p place) {
	a := m.apps.app(p.app())
	if a == nil {
		return
	}
	m.rows.refresh(a)
	s := m.apps.slots[p]
	l := m.rules.judge(a, p.index(), s)
	if s == nil {
		if !l.troubled() {
			m.dropIfEmpty(a)
			return
		}
		s = m.apps.slot(a, p.index())
		l.slot = s
	}
	m.apps.count(s, l.category, l.redundant)
	if l.start == "" {
		m.recover(s, l.category == running)
	}
	if m.gate.acting {
		m.act(l)
	}
	if m.keeps(l) {
		return
	}
	m.drop(s)
	m.dropIfEmpty(a)
}

// keeps reports whether the slot of an index is still needed, and wakes it when it
// is not.
func (m *Machine) keeps(l *look) bool {
	if l.troubled() {
		return true
	}
	s := l.slot
	var until instant
	for _, x := range s.extras { // copies that no node listed yet
		until = max(until, x.until)
	}
	desired := l.category != undesired || l.app.row == rowUnreadable
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

// act queues what the verdict asks for, unless it was sent or has to wait.
func (m *Machine) act(l *look) {
	if l.start != "" {
		m.want(l)
	}
	m.shed(l)
	if l.again {
		m.wakes.slot(l.slot, m.clock.in(m.cfg.HeartbeatPeriod/4))
	}
}

// want queues the start of an index, or notes what it waits for.
func (m *Machine) want(l *look) {
	s := l.slot
	s.start, s.why = l.start, l.why
	if s.missing == 0 {
		s.missing = m.clock.now
		m.journal.note(s, Finding{Kind: KindMissing, Why: l.why, Version: s.app.want.Version, Rule: l.start})
	}
	if h, held := l.holdStart(judging); held {
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
		f.Detail = s.app.crashes.description(s.lastExit())
	}
	m.journal.note(s, f)
}

// shed has the copies wait for their stop that should not run.
func (m *Machine) shed(l *look) {
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
		if x.id = id; x.rule == "" { // it is a new one, or one that another harmonizer named
			m.journal.note(s, Finding{Kind: KindExtra, Why: c.why, Version: c.copy.Version(), Instance: id, Node: c.copy.Node(), Rule: c.rule})
		}
		x.rule, x.why = c.rule, c.why
		m.shedOne(l, c, &x)
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
		m.memory.remember(s.app)
	}
}

// shedOne queues the stop of a copy, or notes what it waits for.
func (m *Machine) shedOne(l *look, c *surplus, x *extra) {
	s, key := l.slot, stopKey{l.slot.place(), x.id}
	h, held := l.holdStop(c, x, judging)
	if !held {
		m.stops.Push(uint32(s.app.id), key, priority(x.rule))
		h = m.gate.stops()
	} else {
		m.stops.Remove(key)
		m.wakes.slot(s, h.until)
	}
	if h.rule == "" || x.hold == h.rule || h.rule == RuleQueue || h.rule == RuleKeepAlive {
		return
	}
	x.hold = h.rule
	m.journal.note(s, Finding{Kind: KindNotNudged, Why: h.why, Version: c.copy.Version(), Instance: x.id, Node: c.copy.Node(),
		Rule: h.rule, Until: m.clock.time(h.until)})
}

// recover ends what an index waited for: it is served, or no longer desired. The
// keep-alive of a nudge that another harmonizer sent for an index that we never
// missed stays.
func (m *Machine) recover(s *slot, served bool) {
	if s.missing != 0 && served {
		m.journal.note(s, Finding{Kind: KindRecovered, Version: s.app.want.Version, Rule: s.start})
	}
	if s.missing != 0 || s.restart != 0 || s.givenUp || s.silent != 0 {
		m.starts.Remove(s.place())
		m.limit.regain(s)
		s.missing, s.pending, s.sent, s.restart, s.grace, s.hold, s.givenUp = 0, 0, 0, 0, 0, "", false
		m.memory.remember(s.app)
	}
	s.start, s.cause = "", WhyNew
	if served && s.crashes > 0 {
		m.decay(s)
	}
	if !served {
		s.healthy = 0
	}
}

func (m *Machine) decay(s *slot) {
	if until := s.backoff.decay(&m.cfg, m.clock.now); until > m.clock.now {
		m.wakes.slot(s, until)
		return
	}
	m.memory.remember(s.app)
	m.journal.note(s, Finding{Kind: KindCalm, Version: s.app.want.Version, Rule: RuleDecay})
}

// retry ends giving up and restart delays of an index, or of all of an app.
func (m *Machine) retry(ev Retry) {
	a := m.apps.lookup(ev.App)
	if a == nil {
		return
	}
	for s := a.slots; s != nil; s = s.next {
		if s.crashes == 0 || ev.Index >= 0 && s.index != ev.Index {
			continue
		}
		s.backoff.retry()
		s.hold = ""
		m.memory.remember(a)
		m.journal.note(s, Finding{Kind: KindRetried, Why: WhyOrdered, Version: a.want.Version, Rule: RuleGiveUp})
		m.backlog.mark(s.place())
	}
}
