package harmonizer

import "time"

// publications decides when the counts of each pool are published: after a change, once the
// pool's gap has passed, and each pool once in a period.
type publications struct {
	period time.Duration
	last   map[string]publication // by pool
}

// publication is the last publication of a pool's counts.
type publication struct {
	at       time.Time
	whole    time.Time // last publication because of the period, not of a change
	revision uint64
	gap      time.Duration // shortest time until the next change is published
}

const (
	smallPool = 200   // apps; changes are published at once
	largePool = 10000 // apps; above it, changes are published less often than once a second
)

// due reports whether to publish the counts of a pool now, and whether this is the publication
// of the period.
func (p *publications) due(now time.Time, pool string, revision uint64) (due, whole bool) {
	last := p.last[pool]
	whole = now.Sub(last.whole) >= p.period
	return whole || last.revision != revision && now.Sub(last.at) >= last.gap, whole
}

func (p *publications) record(now time.Time, pool string, revision uint64, apps int, whole bool) {
	next := publication{at: now, whole: p.last[pool].whole, revision: revision, gap: gap(apps)}
	if whole {
		next.whole = now
	}
	p.last[pool] = next
}

// gap returns the shortest time between two publications of a pool. It grows with the apps,
// because the cost does.
func gap(apps int) time.Duration {
	if apps <= smallPool {
		return 0
	}
	return max(time.Second, time.Second*time.Duration(apps)/largePool)
}
