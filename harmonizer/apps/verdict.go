package apps

import (
	"slices"
	"time"

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

// verdict is what an index should be: its category, and the copies that should
// not run there, with the reason.
type verdict struct {
	category category
	extras   []*instance
	why      Why
}

func (s *slot) verdict(cfg Config) verdict {
	if s.app.row == rowUnreadable {
		return verdict{}
	}
	if !s.app.desires(s.index) {
		return verdict{extras: s.choose((*instance).runs), why: s.app.whyUndesired()}
	}
	live := s.app.want.Version
	replaced := slices.ContainsFunc(s.copies, func(in *instance) bool {
		return in.version == live && in.state == message.Running
	})
	v := verdict{category: s.categorize(cfg), why: WhyWrongVersion}
	if replaced {
		v.extras = s.choose(func(in *instance) bool {
			return in.version != live && in.runs() && in.state != message.Evacuating
		})
	}
	return v
}

func (s *slot) categorize(cfg Config) category {
	switch {
	case s.serves():
		return running
	case s.cause != WhyCrashed:
		return missing
	case s.crashes > cfg.FlappingDeath:
		return flapping
	}
	return crashed
}

func (s *slot) choose(want func(*instance) bool) []*instance {
	var out []*instance
	for _, in := range s.copies {
		if want(in) {
			out = append(out, in)
		}
	}
	return out
}

func (a *app) whyUndesired() Why {
	switch a.row {
	case rowDeleted:
		return WhyAppDeleted
	case rowVanished:
		return WhyAppVanished
	case rowPresent:
		return WhyBeyond
	}
	return WhyAppUnknown
}

// act nudges what the verdict asks for, unless it was nudged or has to wait.
func (m *Machine) act(now time.Time, s *slot, v verdict, out *outbox) {
	switch v.category {
	case undesired, running:
		if v.category == running && !s.missing.IsZero() {
			m.note(now, s, Finding{Kind: KindRecovered, App: s.app.name, Index: s.index, Version: s.app.want.Version})
		}
		s.missing, s.pending, s.restart, s.held = time.Time{}, time.Time{}, time.Time{}, false
	default:
		m.start(now, s, out)
	}
	for _, in := range s.copies {
		if !slices.Contains(v.extras, in) {
			in.extra, in.held, in.stopped = false, false, time.Time{}
			continue
		}
		m.stop(now, in, v.why, out)
	}
}

func (m *Machine) start(now time.Time, s *slot, out *outbox) {
	f := Finding{Kind: KindMissing, Why: s.cause, App: s.app.name, Index: s.index, Version: s.app.want.Version}
	if s.missing.IsZero() {
		s.missing = now
		m.note(now, s, f)
	}
	switch {
	case s.pending.After(now):
		s.wakeAt(m, s.pending)
	case s.restart.After(now):
		s.wakeAt(m, s.restart)
		if !s.held {
			s.held = true
			f.Kind, f.Why = KindNotNudged, WhyRestartDelay
			m.note(now, s, f)
		}
	default:
		s.pending = now.Add(m.cfg.NudgeKeepAlive)
		s.wakeAt(m, s.pending)
		f.Kind = KindStart
		m.note(now, s, f)
		out.start(s, s.cause == WhyCrashed && s.crashes > m.cfg.FlappingDeath)
	}
}

func (m *Machine) stop(now time.Time, in *instance, why Why, out *outbox) {
	s := in.slot
	f := Finding{Kind: KindExtra, Why: why, App: s.app.name, Index: s.index,
		Version: in.version, Instance: in.id, Node: in.node.id}
	if !in.extra {
		in.extra = true
		m.note(now, s, f)
	}
	if at := m.graceEnd(s.app); at.After(now) {
		s.wakeAt(m, at)
		if !in.held {
			in.held = true
			f.Kind, f.Why = KindNotNudged, WhyGrace
			m.note(now, s, f)
		}
		return
	}
	if in.stopped.After(now) {
		s.wakeAt(m, in.stopped)
		return
	}
	in.stopped = now.Add(m.cfg.NudgeKeepAlive)
	s.wakeAt(m, in.stopped)
	f.Kind = KindStop
	m.note(now, s, f)
	out.stop(in)
}

// graceEnd returns until when the copies of an app without a row are left alone.
func (m *Machine) graceEnd(a *app) time.Time {
	if a.row != rowUnknown && a.row != rowVanished {
		return time.Time{}
	}
	return later(a.grace, m.completed).Add(m.cfg.DropletLost)
}

// note is a finding that its index remembers.
func (m *Machine) note(now time.Time, s *slot, f Finding) {
	s.last, s.lastAt = f, now
	m.find(f)
}
