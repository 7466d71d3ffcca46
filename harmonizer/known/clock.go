package known

import "time"

// instant is nanoseconds since the first time that the store received.
type instant int64

// maxInstant bounds instants, so that the sum of two does not overflow.
const maxInstant = instant(1) << 61

// clock converts times to instants, and measures silence. It never goes back.
type clock struct {
	start       time.Time // of instants
	begun       bool
	latest      instant
	connectedAt instant // silence and absence before this instant do not count
}

// set advances the clock and returns its latest instant.
func (c *clock) set(now time.Time) instant {
	if !c.begun {
		c.start, c.begun = now, true
	}
	c.latest = max(c.latest, min(instant(now.Sub(c.start)), maxInstant))
	return c.latest
}

func (c *clock) time(at instant) time.Time { return c.start.Add(time.Duration(at)) }

func (c *clock) now() time.Time { return c.time(c.latest) }

// silence returns the time since an instant, but at most since hearing.
func (c *clock) silence(last instant) time.Duration {
	return time.Duration(c.latest - max(last, c.connectedAt))
}

// until returns the first time at which the silence since an instant is longer than limit. The
// extra nanosecond makes it longer, not equal.
func (c *clock) until(last instant, limit time.Duration) time.Time {
	return c.time(max(last, c.connectedAt)).Add(limit + 1)
}
