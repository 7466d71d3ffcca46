package known

import "time"

// instant is nanoseconds since the first time that the store was given.
type instant int64

// far is a bound on instants, so that sums of two do not overflow.
const far = instant(1) << 61

// clock turns times into instants, and measures silence. It never goes back.
type clock struct {
	start   time.Time // of instants
	begun   bool
	latest  instant
	hearing instant // silence and absence before this instant do not count
}

// set advances the clock and returns its latest instant.
func (c *clock) set(now time.Time) instant {
	if !c.begun {
		c.start, c.begun = now, true
	}
	c.latest = max(c.latest, min(instant(now.Sub(c.start)), far))
	return c.latest
}

func (c *clock) time(at instant) time.Time { return c.start.Add(time.Duration(at)) }

func (c *clock) now() time.Time { return c.time(c.latest) }

// silence returns how long ago an instant is, at most since hearing.
func (c *clock) silence(last instant) time.Duration {
	return time.Duration(c.latest - max(last, c.hearing))
}

// until returns the first time at which the silence since an instant is longer
// than a limit: one nanosecond is the difference between longer than and as long
// as.
func (c *clock) until(last instant, limit time.Duration) time.Time {
	return c.time(max(last, c.hearing)).Add(limit + 1)
}
