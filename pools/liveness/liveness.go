// Package liveness is the one rule by which every part judges a node by its heartbeats, and
// an autoscaler by its ticks. Of a node by the age of its latest heartbeat:
//
//	age                     the node is
//	up to 1.5 periods       confirmed: no heartbeat is missing
//	up to 2.5 periods       late: one heartbeat is missing
//	beyond                  silent: two are missing, and what it runs is unknown
//	beyond 3 periods        lost, unless a setting gives it longer: its work goes elsewhere
//
// The autoscaler and the drains still use the last facts of a silent node for a while.
// The half period is for heartbeats that are on their way. A node publishes its period with
// its facts; a reader of heartbeats alone has the period as a setting.
//
// An autoscaler is overdue without a tick for two ticks, and at least 5 s. An autoscaler
// without a sign of life for ten ticks, and at least 30 s, hangs: its supervisor starts it again.
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
	// MaxPeriod bounds a published period, as it bounds how long old facts count as fresh.
	MaxPeriod = 2 * time.Minute
)

// Period returns the period that a node published, or the default without one. Beyond
// MaxPeriod it is MaxPeriod.
func Period(published time.Duration) time.Duration {
	if published <= 0 {
		return DefaultPeriod
	}
	return min(published, MaxPeriod)
}

// ConfirmedFor returns the age up to which a heartbeat confirms what it lists.
func ConfirmedFor(period time.Duration) time.Duration { return missing(1, period) }

// SilentAfter returns the age of the latest heartbeat beyond which the node is silent.
func SilentAfter(period time.Duration) time.Duration { return missing(2, period) }

// LostAfter returns the age beyond which a silent node is lost without a setting.
func LostAfter(period time.Duration) time.Duration { return 3 * period }

// Silent reports whether a node is silent.
func Silent(now, latest time.Time, period time.Duration) bool {
	return now.Sub(latest) > SilentAfter(period)
}

// OverdueAfter returns the time without a tick after which an autoscaler is overdue.
func OverdueAfter(tick time.Duration) time.Duration { return max(2*tick, leastOverdue) }

// HungAfter returns the time without a sign of life after which an autoscaler hangs.
func HungAfter(tick time.Duration) time.Duration { return max(10*tick, leastHung) }

// missing returns the age at which n heartbeats in a row are missing for sure.
func missing(n int, period time.Duration) time.Duration {
	return time.Duration(n)*period + period/2
}
