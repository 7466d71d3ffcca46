package apps

import "time"

// instant is a point in time as the machine keeps it: nanoseconds since a second
// before its first Step. 0 is never.
type instant int64

// clock turns what the caller calls now into instants.
type clock struct {
	now   instant
	wall  time.Time // the same
	epoch time.Time
}

func (c *clock) set(now time.Time) {
	if c.epoch.IsZero() {
		c.epoch = now.Add(-time.Second)
	}
	c.wall = now
	c.now = max(c.now, instant(now.Sub(c.epoch)))
}

// in returns the instant after a time from now.
func (c *clock) in(d time.Duration) instant { return c.now + instant(d) }

// wall returns the caller's time of an instant, zero for never.
func (m *Machine) wall(at instant) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return m.time.wall.Add(time.Duration(at - m.time.now))
}

func (at instant) add(d time.Duration) instant { return at + instant(d) }

// wake is something to look at again when its time has come; it may have lost
// its meaning by then.
type wake struct {
	what  what
	place place  // of wakeSlot; the app of wakeCrashes
	name  string // of wakeMemory
}

// what a wake is for.
type what uint8

const (
	wakeSlot    what = iota // the rules look at an index again
	wakeCrashes             // old lines of a crash table go
	wakeMemory              // what is remembered of an app without a row goes
)

func (m *Machine) wakeAt(at instant, w wake) { m.wheel.Add(m.wall(at), w) }

func (m *Machine) due(w wake) {
	switch w.what {
	case wakeSlot:
		if s := m.slots[w.place]; s != nil && s.wake != 0 && s.wake <= m.time.now {
			s.wake = 0
			m.mark(w.place)
		}
	case wakeCrashes:
		m.pruneCrashes(m.app(w.place.app()))
	case wakeMemory:
		m.forgetMemory(w.name)
	}
}

// wakeSlotAt has an index looked at again at that time, or before.
func (m *Machine) wakeSlotAt(s *slot, at instant) {
	if at == 0 || s.wake != 0 && s.wake <= at {
		return
	}
	s.wake = at
	m.wakeAt(at, wake{what: wakeSlot, place: s.place()})
}
