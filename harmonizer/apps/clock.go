package apps

import (
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/wheel"
)

// instant is a time on the machine's clock: nanoseconds since one second before its first
// Step. 0 means never.
type instant int64

// clock converts the caller's times to instants. It never goes back.
type clock struct {
	now   instant
	wall  time.Time // now as the caller's time
	epoch time.Time
	turn  uint64 // number of the current Step, Confirm or Explain
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

// wake is a deadline of an index, of an app's crash table or of a memory. It may be obsolete
// when it is due.
type wake struct {
	what     what
	indexKey indexKey // of wakeSlot; of wakeCrashes: the app
	name     string   // of wakeMemory
}

// what is the purpose of a wake.
type what uint8

const (
	wakeSlot    what = iota // the rules evaluate an index again
	wakeCrashes             // old lines of a crash table are deleted
	wakeMemory              // the memory of an app without a row is deleted
)

// wakes has the deadlines.
type wakes struct {
	clock *clock
	wheel *wheel.Wheel[wake]
}

func (w *wakes) add(at instant, k wake) { w.wheel.Add(w.clock.time(at), k) }

// addIndex adds a deadline of an index, unless it has an earlier one.
func (w *wakes) addIndex(s *slot, at instant) {
	if at == 0 || s.wake != 0 && s.wake <= at {
		return
	}
	s.wake = at
	w.add(at, wake{what: wakeSlot, indexKey: s.indexKey()})
}
