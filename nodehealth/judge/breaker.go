package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// breakers bar repairs while too many nodes of the pool, or of a zone, are sick.
type breakers struct {
	rules  *rules
	census census
	pool   breaker
	zones  map[string]*zone
	names  []string // of the zones, in order
}

// census counts the pool.
type census struct{ listed, eligible, sick, blind int }

// tally is what a node is counted as.
type tally struct {
	zone                          string
	listed, eligible, sick, blind bool
}

// count replaces what a node was counted as.
func (bs *breakers) count(was *tally, t tally) {
	if t == *was {
		return
	}
	bs.add(*was, -1)
	bs.add(t, 1)
	*was = t
}

func (bs *breakers) add(t tally, by int) {
	if t == (tally{}) {
		return
	}
	z := bs.zone(t.zone)
	c := &bs.census
	c.listed += one(t.listed, by)
	c.blind += one(t.blind, by)
	c.eligible += one(t.eligible, by)
	c.sick += one(t.sick, by)
	z.eligible += one(t.eligible, by)
	z.sick += one(t.sick, by)
}

// zone returns the zone of that name; it adds a new one.
func (bs *breakers) zone(name string) *zone {
	z, ok := bs.zones[name]
	if !ok {
		z = &zone{}
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

// zone counts one zone.
type zone struct {
	breaker
	eligible, sick int
}

// breaker bars repairs while too many are sick.
//
//	closed ── sick > limit ──► open ── sick ≤ healed, for a while, or released ──► closed
type breaker struct {
	Open   bool
	Since  time.Time   // of Open
	Healed time.Time   // since then few enough are sick; zero: they are not
	Trips  []time.Time // within the window
	Why    string
	manual bool // it waits for a release
	let    bool // it was released
	// allowed is how many were sick when it was released: so many may be, until fewer are.
	allowed int
}

func (b *breaker) release() { b.let = b.Open }

// excuse closes an open breaker whose trip was for something else.
func (b *breaker) excuse() {
	if b.Open && len(b.Trips) > 0 {
		b.Trips = b.Trips[:len(b.Trips)-1]
	}
	b.release()
}

// step opens or closes b, and reports whether it did.
func (b *breaker) step(now time.Time, r *rules, sick, eligible int, limit Limit) bool {
	if !b.Open {
		if b.allowed = min(b.allowed, sick); sick <= max(limit.Of(eligible), b.allowed) {
			return false
		}
		b.Trips = append(slices.DeleteFunc(slices.Clone(b.Trips), func(t time.Time) bool { return now.Sub(t) >= r.window }), now)
		b.Open, b.Since, b.Healed, b.let = true, now, time.Time{}, false
		b.manual = len(b.Trips) >= r.trips
		b.Why = fmt.Sprintf("%d of %d nodes are sick, %d may be", sick, eligible, limit.Of(eligible))
		return true
	}
	switch {
	case sick > min(r.healed.Of(eligible), limit.Of(eligible)):
		b.Healed = time.Time{}
	case b.Healed.IsZero():
		b.Healed = now
	}
	over := !b.Healed.IsZero() && now.Sub(b.Healed) >= r.healedFor && !b.manual
	if over || b.let {
		b.allowed = sick
		b.Open, b.let, b.Healed, b.Why = false, false, time.Time{}, ""
		return true
	}
	return false
}

// until returns when b closes if nothing more happens; zero: nobody knows.
func (b *breaker) until(r *rules) time.Time {
	if b.Healed.IsZero() || b.manual {
		return time.Time{}
	}
	return b.Healed.Add(r.healedFor)
}

// step opens and closes the breakers of the zones, then that of the pool. A single
// frozen zone is left out of the pool's count.
func (bs *breakers) step(now time.Time) []Finding {
	found, frozen, only := bs.stepZones(now)
	sick, eligible := bs.census.sick, bs.census.eligible
	if frozen == 1 {
		sick, eligible = sick-only.sick, eligible-only.eligible
		if only.Since.Equal(now) && sick <= min(bs.rules.healed.Of(eligible), bs.rules.sick.Of(eligible)) {
			bs.pool.excuse() // what opened it was the zone
		}
	}
	switch changed := bs.pool.step(now, bs.rules, sick, eligible, bs.rules.sick); {
	case changed && bs.pool.Open:
		found = append(found, Finding{Event: BreakerOpened, Why: bs.pool.Why})
	case changed:
		found = append(found, Finding{Event: BreakerClosed, Why: fmt.Sprintf("%d of %d nodes are sick", sick, eligible)})
	}
	return found
}

// stepZones returns how many zones are frozen, and the last of them. Where all nodes
// are in one zone the pool's breaker stands for it.
func (bs *breakers) stepZones(now time.Time) (found []Finding, frozen int, last *zone) {
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
		switch changed := z.step(now, bs.rules, z.sick, z.eligible, limit); {
		case changed && z.Open:
			found = append(found, Finding{Event: ZoneFrozen, Zone: name, Why: z.Why})
		case changed:
			found = append(found, Finding{Event: ZoneThawed, Zone: name, Why: fmt.Sprintf("%d of %d nodes are sick", z.sick, z.eligible)})
		}
		if z.Open {
			frozen, last = frozen+1, z
		}
	}
	return found, frozen, last
}

// release closes every breaker at the next step. The nodes of zones that were frozen
// count for the pool's breaker from then on. It does not open for them.
func (bs *breakers) release() {
	bs.pool.release()
	for _, z := range bs.zones {
		if z.Open {
			bs.pool.allowed = bs.census.sick
		}
		z.release()
	}
}

// causes returns an alarm's cause for each frozen zone.
func (bs *breakers) causes() []cause {
	var out []cause
	for _, name := range bs.names {
		if z := bs.zones[name]; z.Open {
			out = append(out, cause{"zone:" + name, fmt.Sprintf("zone %s: %s: no repairs there", cmp.Or(name, "without a name"), z.Why)})
		}
	}
	return out
}

// records returns the breakers for the State that opened within the window.
func (bs *breakers) records() []Breaker {
	var out []Breaker
	add := func(pool bool, zone string, b *breaker) {
		if b.Open || len(b.Trips) > 0 {
			out = append(out, Breaker{pool, zone, b.Open, b.Since, b.Healed, slices.Clone(b.Trips), b.manual, b.Why, b.allowed})
		}
	}
	add(true, "", &bs.pool)
	for _, name := range bs.names {
		add(false, name, &bs.zones[name].breaker)
	}
	return out
}

// restore takes the breakers of a State.
func (bs *breakers) restore(now time.Time, records []Breaker) {
	for _, r := range records {
		b := breaker{Open: r.Open, Since: earlier(r.Since, now), Healed: earlier(r.Healed, now), Trips: allEarlier(r.Trips, now), Why: r.Why, manual: r.Manual, allowed: r.Allowed}
		if r.Pool {
			bs.pool = b
		} else {
			bs.zone(r.Zone).breaker = b
		}
	}
}
