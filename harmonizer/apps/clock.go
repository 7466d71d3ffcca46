package apps

import (
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/wheel"
)

// instant is a point in time as the machine keeps it: nanoseconds since a second
// before its first Step. 0 is never.
type instant int64

// clock turns what the caller calls now into instants.
type clock struct {
	now   instant
	wall  time.Time // the same
	epoch time.Time
	turn  uint64 // number of the present Step, Confirm or Explain
}

func (c *clock) set(now time.Time) {
	if c.epoch.IsZero() {
		c.epoch = now.Add(-time.Second)
	}
	c.wall = now
	c.turn++
	c.now = max(c.now, instant(now.Sub(c.epoch)))
}

func (c *clock) in(d time.Duration) instant { return c.now + instant(d) }

// time returns the caller's time of an instant, zero for never.
func (c *clock) time(at instant) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return c.wall.Add(time.Duration(at - c.now))
}

func (at instant) add(d time.Duration) instant { return at + instant(d) }

// wake is a deadline of an index, of an app's crash table or of a memory. It may
// have lost its meaning when it is due.
type wake struct {
	what  what
	place place  // of wakeSlot; the app of wakeCrashes
	name  string // of wakeMemory
}

// what a wake is for.
type what uint8

const (
	wakeSlot    what = iota // the rules judge an index again
	wakeCrashes             // old lines of a crash table go
	wakeMemory              // the memory of an app without a row goes
)

// wakes holds the deadlines.
type wakes struct {
	clock *clock
	wheel *wheel.Wheel[wake]
}

func (w *wakes) add(at instant, k wake) { w.wheel.Add(w.clock.time(at), k) }

// slot makes an index due at that time, unless it is due before.
func (w *wakes) slot(s *slot, at instant) {
	if at == 0 || s.wake != 0 && s.wake <= at {
		return
	}
	s.wake = at
	w.add(at, wake{what: wakeSlot, place: s.place()})
}
