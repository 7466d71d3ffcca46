// Package liveness has the one rule for the liveness of nodes, by their heartbeats, and of
// autoscalers, by their ticks. A node is classified by the age of its latest heartbeat:
//
//	age                     the node is
//	up to 1.5 periods       confirmed: no heartbeat is missing
//	up to 2.5 periods       late: one heartbeat is missing
//	beyond                  silent: two are missing, and what it runs is unknown
//	beyond 3 periods        lost, unless a setting is longer: its work moves to other nodes
//
// No part uses the facts of a silent node. The half period
// allows for heartbeats in transit. A node publishes its period with its facts. A reader that
// receives only heartbeats has the period as a setting.
//
// An autoscaler is overdue after two ticks, and at least 5 s, without a tick. It hangs after ten
// ticks, and at least 30 s, without a sign of life. Then its supervisor restarts it.
//
// The package is pure.
package liveness

import "time"

const (
	leastOverdue = 5 * time.Second
	leastHung    = 30 * time.Second // no step of a tick may take longer
)

const (
	// DefaultPeriod is the period of a node that does not publish one.
	DefaultPeriod = 10 * time.Second
	// MaxPeriod bounds a published period, and with it the time that old facts count as fresh.
	MaxPeriod = 2 * time.Minute
)

// Period returns the period that a node published, at most MaxPeriod. Without one it returns
// DefaultPeriod.
func Period(published time.Duration) time.Duration {
	if published <= 0 {
		return DefaultPeriod
	}
	return min(published, MaxPeriod)
}

// ConfirmedFor returns the maximum age at which a heartbeat confirms the copies that it lists.
func ConfirmedFor(period time.Duration) time.Duration { return missing(1, period) }

// SilentAfter returns the age of the latest heartbeat after which the node is silent.
func SilentAfter(period time.Duration) time.Duration { return missing(2, period) }

// LostAfter returns the age after which a silent node is lost by default.
func LostAfter(period time.Duration) time.Duration { return 3 * period }

// Silent reports whether a node is silent.
func Silent(now, latest time.Time, period time.Duration) bool {
	return now.Sub(latest) > SilentAfter(period)
}

// OverdueAfter returns the time without a tick after which an autoscaler is overdue.
func OverdueAfter(tick time.Duration) time.Duration { return max(2*tick, leastOverdue) }

// Overdue reports whether a pool's last tick is too old: the next one is overdue, and what the tick found is not of now. every is the time
// from one tick to the next, and took that of the tick.
func Overdue(now, at time.Time, every, took time.Duration) bool {
	return now.Sub(at) > OverdueAfter(max(every, took))
}

// HungAfter returns the time without a sign of life after which an autoscaler hangs.
func HungAfter(tick time.Duration) time.Duration { return max(10*tick, leastHung) }

// missing returns the age at which n heartbeats in a row are certainly missing.
func missing(n int, period time.Duration) time.Duration {
	return time.Duration(n)*period + period/2
}
