package harmonizer

import "time"

// publications decides when the counts of each pool go out: a pool that changed
// once its gap has passed, and every pool once a period.
type publications struct {
	period time.Duration
	last   map[string]publication // by pool
}

// publication is when a pool's counts went out, and which.
type publication struct {
	at       time.Time
	whole    time.Time // when they went out because it was time, not because of a change
	revision uint64
	gap      time.Duration // before the next change may go out
}

const (
	smallPool = 200   // apps: changes go out at once
	largePool = 10000 // apps: more go out less often than each second
)

// due reports whether the counts of a pool go out now, and whether that is the
// publication of the period.
func (p *publications) due(now time.Time, pool string, revision uint64) (due, whole bool) {
	last := p.last[pool]
	whole = now.Sub(last.whole) >= p.period
	return whole || last.revision != revision && now.Sub(last.at) >= last.gap, whole
}

func (p *publications) add(now time.Time, pool string, revision uint64, apps int, whole bool) {
	next := publication{at: now, whole: p.last[pool].whole, revision: revision, gap: gap(apps)}
	if whole {
		next.whole = now
	}
	p.last[pool] = next
}

// gap between two tellings of a pool: what they cost is in proportion to its apps.
func gap(apps int) time.Duration {
	if apps <= smallPool {
		return 0
	}
	return max(time.Second, time.Second*time.Duration(apps)/largePool)
}
