package web

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// store has what the pages show. One mutex guards all of it: readers copy what they draw.
type store struct {
	keep time.Duration

	mu    sync.Mutex
	pools map[Name]*entry
	away  string    // why the source is away; empty: it answers
	since time.Time // of away
}

// entry is one pool.
type entry struct {
	facts   condition.Facts
	ring    *series.Ring
	last    *api.Summary // of the ring; nil: it has no tick
	changed bool         // since the last call of store.changes
	read    bool         // its past is in the ring; before, no page shows the pool, as it would show no tick
}

func newStore(keep time.Duration) *store {
	return &store{keep: keep, pools: map[Name]*entry{}, away: "the pages have not read the source yet"}
}

// maxTicks bounds the ticks of a pool in memory: more than a day of ticks of 2 s.
const maxTicks = 50_000

// set replaces the list of pools. It returns those whose past is not read.
func (s *store) set(pools []Pool) (unread []Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed := map[Name]bool{}
	for _, p := range pools {
		listed[p.Name] = true
		e, ok := s.pools[p.Name]
		if !ok {
			e = &entry{}
			s.pools[p.Name] = e
		}
		if !e.read {
			unread = append(unread, p.Name)
		}
		e.facts, e.changed = p.Facts, true
	}
	for name := range s.pools {
		if !listed[name] {
			delete(s.pools, name)
		}
	}
	return unread
}

// show lets the pages show a pool, whose past is read.
func (s *store) show(name Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.pools[name]
	e.read, e.changed = true, true
}

// add adds a tick of a pool. facts reports whether the present facts hold at that tick. Dry runs are no ticks.
func (s *store) add(name Name, tick api.Summary, facts bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.pools[name]
	if !ok || tick.DryRun {
		return
	}
	if e.ring == nil {
		e.ring = newRing(tick, s.keep)
	}
	f := condition.Facts{}
	if facts {
		f = e.facts
	}
	if e.ring.Add(series.Reduce(tick, f)) {
		e.changed, e.last = true, &tick
	}
}

// newRing returns a ring for a time of ticks like the first one.
func newRing(first api.Summary, keep time.Duration) *series.Ring {
	every := cmp.Or(max(first.Every, 0), time.Minute)
	return series.NewRing(int(min(keep/every+1, maxTicks)))
}

// setAway records whether the source answers.
func (s *store) setAway(why string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if (s.away == "") != (why == "") {
		s.since = now
	}
	s.away = why
}

// awayNow returns why the source is away, and since when.
func (s *store) awayNow() (string, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away, s.since
}

// last returns the time of the last tick of a pool; zero without one.
func (s *store) last(name Name) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.pools[name]; e != nil && e.ring != nil {
		return e.ring.Last()
	}
	return time.Time{}
}

// changes returns the pools that changed since the last call, in order.
func (s *store) changes() (out []Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range s.pools {
		if e.read && e.changed {
			e.changed = false
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b Name) int { return cmp.Compare(a.String(), b.String()) })
	return out
}

// names returns all pools that the pages show, in order.
func (s *store) names() (out []Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, e := range s.pools {
		if e.read {
			out = append(out, name)
		}
	}
	slices.SortFunc(out, func(a, b Name) int { return cmp.Compare(a.String(), b.String()) })
	return out
}

// known are the facts of a pool beside its ring.
type known struct {
	condition.Facts
	last *api.Summary // its last tick; nil without one
}

// read calls use with a pool. It reports whether the pages show the pool. use must not keep the ring, and
// must not call the store.
func (s *store) read(name Name, use func(r *series.Ring, k known)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.pools[name]
	if e == nil || !e.read {
		return false
	}
	ring := e.ring
	if ring == nil {
		ring = series.NewRing(1)
	}
	use(ring, known{e.facts, e.last})
	return true
}
