package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// breakers block repairs while too many nodes of the pool, or of a zone, are unhealthy.
type breakers struct {
	rules  *rules
	census census
	pool   breaker
	zones  map[string]*zone
	names  []string // names of the zones, sorted
}

func newBreakers(r *rules) breakers {
	return breakers{rules: r, pool: breaker{Breaker: api.Breaker{Pool: true}}, zones: map[string]*zone{}}
}

// census counts nodes.
type census struct{ listed, eligible, unhealthy, noData, partly int }

func (c *census) addTally(t tally, by int) {
	c.listed += one(t.listed, by)
	c.noData += one(t.noData, by)
	c.partly += one(t.partly, by)
	c.eligible += one(t.eligible, by)
	c.unhealthy += one(t.unhealthy, by)
}

// tally is how a node is counted.
type tally struct {
	zone                                        string
	listed, eligible, unhealthy, noData, partly bool
}

func (bs *breakers) count(was *tally, t tally) {
	if t == *was {
		return
	}
	bs.addTally(*was, -1)
	bs.addTally(t, 1)
	*was = t
}

func (bs *breakers) addTally(t tally, by int) {
	if t == (tally{}) {
		return
	}
	bs.census.addTally(t, by)
	bs.zone(t.zone).addTally(t, by)
}

// zone returns the zone of that name. It adds a missing zone.
func (bs *breakers) zone(name string) *zone {
	z, ok := bs.zones[name]
	if !ok {
		z = &zone{breaker: breaker{Breaker: api.Breaker{Zone: name}}}
		bs.zones[name] = z
		i, _ := slices.BinarySearch(bs.names, name)
		bs.names = slices.Insert(bs.names, i, name)
	}
	return z
}

func one(is bool, by int) int {
	if is {
		return by
	}
	return 0
}

type zone struct {
	breaker
	census
}

// breaker blocks repairs while too many nodes are unhealthy.
//
//	closed ── sick > limit ──► open ── sick ≤ healed for a while, or released ──► closed
type breaker struct {
	api.Breaker
	wasReleased bool // it is released
}

func (b *breaker) release() { b.wasReleased = b.Open }

// excuse closes an open breaker whose trip had another cause.
func (b *breaker) excuse() {
	if b.Open && len(b.Trips) > 0 {
		b.Trips = b.Trips[:len(b.Trips)-1]
	}
	b.release()
}

// step opens or closes b, and returns that as a finding.
func (b *breaker) step(now time.Time, r *rules, unhealthy, eligible int, limit Limit) []api.HealthFinding {
	opened, closed := api.HealthZoneFrozen, api.HealthZoneThawed
	if b.Pool {
		opened, closed = api.HealthBreakerOpened, api.HealthBreakerClosed
	}
	if !b.Open {
		if b.Allowed = min(b.Allowed, unhealthy); unhealthy <= max(limit.Of(eligible), b.Allowed) {
			return nil
		}
		b.Trips = append(slices.DeleteFunc(slices.Clone(b.Trips), func(t time.Time) bool { return now.Sub(t) >= r.window }), now)
		b.Open, b.Since, b.Healed, b.wasReleased = true, now, time.Time{}, false
		b.Manual = len(b.Trips) >= r.trips
		b.Why = fmt.Sprintf("%d of %d nodes are unhealthy, limit %d", unhealthy, eligible, limit.Of(eligible))
		b.CloseAt, b.CloseAfter = min(r.recovered.Of(eligible), limit.Of(eligible)), r.recoveredFor
		return []api.HealthFinding{{Event: opened, Zone: b.Zone, Why: b.Why}}
	}
	b.CloseAt, b.CloseAfter = min(r.recovered.Of(eligible), limit.Of(eligible)), r.recoveredFor
	switch {
	case unhealthy > b.CloseAt:
		b.Healed = time.Time{}
	case b.Healed.IsZero():
		b.Healed = now
	}
	over := !b.Healed.IsZero() && now.Sub(b.Healed) >= r.recoveredFor && !b.Manual
	if !over && !b.wasReleased {
		return nil
	}
	b.Allowed = unhealthy
	b.Open, b.wasReleased, b.Healed, b.Why = false, false, time.Time{}, ""
	b.CloseAt, b.CloseAfter = 0, 0
	return []api.HealthFinding{{Event: closed, Zone: b.Zone, Why: fmt.Sprintf("%d of %d nodes are unhealthy", unhealthy, eligible)}}
}

// until returns when b closes if nothing else changes; zero: unknown.
func (b *breaker) until(r *rules) time.Time {
	if b.Healed.IsZero() || b.Manual {
		return time.Time{}
	}
	return b.Healed.Add(r.recoveredFor)
}

// step opens and closes the breakers of the zones, then the breaker of the pool. A single frozen
// zone is left out of the pool's count.
func (bs *breakers) step(now time.Time) []api.HealthFinding {
	found, frozen, only := bs.stepZones(now)
	unhealthy, eligible := bs.census.unhealthy, bs.census.eligible
	if frozen == 1 {
		unhealthy, eligible = unhealthy-only.unhealthy, eligible-only.eligible
		if only.Since.Equal(now) && unhealthy <= min(bs.rules.recovered.Of(eligible), bs.rules.unhealthy.Of(eligible)) {
			bs.pool.excuse() // the zone caused the pool's trip
		}
	}
	return append(found, bs.pool.step(now, bs.rules, unhealthy, eligible, bs.rules.unhealthy)...)
}

// stepZones returns how many zones are frozen, and the last of them. If all nodes are in one zone,
// the pool's breaker covers it.
func (bs *breakers) stepZones(now time.Time) (found []api.HealthFinding, frozen int, last *zone) {
	zones := 0
	for _, z := range bs.zones {
		zones += one(z.eligible > 0, 1)
	}
	for _, name := range bs.names {
		z := bs.zones[name]
		limit := bs.rules.zone
		if zones < 2 {
			limit = Limit{Value: float64(z.eligible)}
		}
		if z.eligible == 0 && !z.Open {
			continue
		}
		found = append(found, z.step(now, bs.rules, z.unhealthy, z.eligible, limit)...)
		if z.Open {
			frozen, last = frozen+1, z
		}
	}
	return found, frozen, last
}

// release closes every breaker at the next step. From then on, the nodes of frozen zones count for
// the pool's breaker, which does not open because of them.
func (bs *breakers) release() {
	bs.pool.release()
	for _, z := range bs.zones {
		if z.Open {
			bs.pool.Allowed = bs.census.unhealthy
		}
		z.release()
	}
}

func (bs *breakers) causes() []cause {
	var out []cause
	for _, name := range bs.names {
		if z := bs.zones[name]; z.Open {
			out = append(out, cause{"zone:" + name, fmt.Sprintf("zone %s: %s: no repairs there", cmp.Or(name, "without name"), z.Why)})
		}
	}
	return out
}

// records returns the breakers that are open or tripped within the window, for the State.
func (bs *breakers) records() []api.Breaker {
	all := []api.Breaker{bs.pool.Breaker}
	for _, name := range bs.names {
		all = append(all, bs.zones[name].Breaker)
	}
	all = slices.DeleteFunc(all, func(b api.Breaker) bool { return !b.Open && len(b.Trips) == 0 })
	for i := range all {
		all[i].Trips = slices.Clone(all[i].Trips)
	}
	return all
}

func (bs *breakers) restore(now time.Time, records []api.Breaker) {
	for _, r := range records {
		b := &bs.pool
		if !r.Pool {
			b = &bs.zone(r.Zone).breaker
		}
		r.Since, r.Healed, r.Trips = earlier(r.Since, now), earlier(r.Healed, now), allEarlier(r.Trips, now)
		b.Breaker = r
	}
}
