package apps

import (
	"hash/fnv"
	"time"
)

// crashed is the rules exit_crashed, flapping and give_up. A crash is answered at
// once; those that follow one another within FlappingTimeout, from number
// FlappingDeath+1 on, after a delay that doubles; more than GiveupCrashNumber
// never.
func (m *Machine) crashed(s *slot, id string) {
	if m.clock.now > s.calmSince().add(m.cfg.FlappingTimeout) {
		s.crashes = 0
	}
	s.crashes++
	s.crashedAt, s.healthy = m.clock.now, 0
	s.restart, s.hold, s.givenUp = 0, "", false
	f := Finding{Kind: KindCrashed, Why: WhyCrashed, Version: s.app.want.Version, Instance: id, Rule: RuleExitCrashed,
		Detail: s.app.exitOf(id)}
	switch over := s.crashes - *m.cfg.FlappingDeath; {
	case m.givesUp(s.crashes):
		s.givenUp = true
		f.Kind, f.Rule = KindGaveUp, RuleGiveUp
	case over > 0:
		s.restart = m.clock.in(m.restartDelay(s))
		f.Kind, f.Rule, f.Until = KindFlapping, RuleFlapping, m.clock.time(s.restart)
	}
	m.remember(s.app)
	m.journal.note(s, f)
}

// calmSince is from when on the index could run without a crash: a restart delay
// is no time in which it did well.
func (s *slot) calmSince() instant {
	since := s.crashedAt
	for _, later := range [...]instant{s.restart, s.healthy} {
		if later != 0 {
			since = max(since, later)
		}
	}
	return since
}

func (m *Machine) givesUp(crashes int) bool {
	most := *m.cfg.GiveupCrashNumber
	return most > 0 && crashes > most
}

// restartDelay is the delay after the crashes of an index, with its noise.
func (m *Machine) restartDelay(s *slot) time.Duration {
	return m.cfg.restartDelay(s.crashes-*m.cfg.FlappingDeath) + noise(*m.cfg.DelayTimeNoise, s)
}

// restartDelay doubles with each crash over FlappingDeath, 1 being the first.
func (c Config) restartDelay(over int) time.Duration {
	d := c.MinRestartDelay
	for range over - 1 {
		if d >= c.MaxRestartDelay/2 {
			return c.MaxRestartDelay
		}
		d *= 2
	}
	return d
}

// noise is at most as much, either way, so that what crashed together does not
// start together. It is a hash of the index and its crashes: the same each time.
func noise(most time.Duration, s *slot) time.Duration {
	if most <= 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(s.app.name()))
	h.Write([]byte{0, byte(s.index), byte(s.index >> 8), byte(s.index >> 16), byte(s.crashes), byte(s.crashes >> 8)})
	return time.Duration(h.Sum64()%uint64(2*most+1)) - most
}

// decay is the rule of the same name: crashes count no more when the index ran
// for FlappingTimeout since the last one.
func (m *Machine) decay(s *slot) {
	if s.healthy == 0 {
		s.healthy = m.clock.now
	}
	at := max(s.healthy, s.crashedAt).add(m.cfg.FlappingTimeout)
	if at > m.clock.now {
		m.wakes.slot(s, at)
		return
	}
	s.crashes = 0
	m.remember(s.app)
	m.journal.note(s, Finding{Kind: KindCalm, Version: s.app.want.Version, Rule: RuleDecay})
}

// Crashed reports whether an app has an index, or with -1, whether there is such an
// app; and whether Retry of it would change anything.
func (m *Machine) Crashed(name string, index int) (known, crashed bool) {
	a := m.apps.lookup(name)
	if a == nil {
		return false, false
	}
	known = index < 0 || a.desires(index)
	for s := a.slots; s != nil; s = s.next {
		if index < 0 || s.index == index {
			known, crashed = true, crashed || s.crashes > 0
		}
	}
	return known, crashed
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
		s.crashes, s.restart, s.givenUp, s.hold = 0, 0, false, ""
		m.remember(a)
		m.journal.note(s, Finding{Kind: KindRetried, Why: WhyOrdered, Version: a.want.Version, Rule: RuleGiveUp})
		m.backlog.mark(s.place())
	}
}
