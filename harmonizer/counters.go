package harmonizer

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// counters count events by name.
type counters struct {
	mu sync.Mutex
	n  map[string]uint64
}

func (c *counters) add(name string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[name] += uint64(n)
}

func (c *counters) snapshot() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

// alarm wakes the waiting goroutine, once for any number of rings.
type alarm chan struct{}

func (a alarm) ring() {
	select {
	case a <- struct{}{}:
	default:
	}
}

// oncePerMinute returns a limiter for a log message that may repeat.
func oncePerMinute() *rate.Sometimes { return &rate.Sometimes{Interval: time.Minute} }
