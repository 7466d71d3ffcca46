package judge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// census counts the pool.
type census struct{ listed, eligible, sick, blind int }

// tally is what a node is counted as.
type tally struct {
	zone                          string
	listed, eligible, sick, blind bool
}

// tally returns what the node is to be counted as.
func (j *Judge) tally(now time.Time, n *node) tally {
	t := tally{zone: n.Zone}
	t.listed = !n.unlisted && n.missing == 0 && !n.replaced && n.State != Leaving
	t.eligible = t.listed && n.State != Spot && n.state != Quarantined &&
		(n.state != Fresh || !j.young(now, n)) && len(j.pauses[n.ID]) == 0
	t.sick = t.eligible && (n.state == Suspect || n.state.unfit()) && !n.wished()
	t.blind = t.eligible && n.blind
	t.eligible = t.eligible && !n.blind // who is not seen says nothing of how many are fit
	return t
}

// count replaces what the node is counted as.
func (c *census) count(zones map[string]*zone, n *node, t tally) {
	if t == n.counted {
		return
	}
	for _, change := range [...]struct {
		t  tally
		by int
	}{{n.counted, -1}, {t, 1}} {
		if change.t == (tally{}) {
			continue
		}
		z, ok := zones[change.t.zone]
		if !ok {
			z = &zone{}
			zones[change.t.zone] = z
		}
		c.listed += one(change.t.listed, change.by)
		c.blind += one(change.t.blind, change.by)
		c.eligible += one(change.t.eligible, change.by)
		c.sick += one(change.t.sick, change.by)
		z.eligible += one(change.t.eligible, change.by)
		z.sick += one(change.t.sick, change.by)
	}
	n.counted = t
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

// breakers looks at the zones, then at the pool. A single frozen zone is left out of
// the pool's count.
func (j *Judge) breakers(now time.Time) {
	frozen, only := j.stepZones(now)
	sick, eligible := j.census.sick, j.census.eligible
	if frozen == 1 {
		sick, eligible = sick-only.sick, eligible-only.eligible
		if only.Since.Equal(now) && sick <= min(j.healed.Of(eligible), j.sick.Of(eligible)) {
			j.breaker.excuse() // what opened it was the zone
		}
	}
	if !j.breaker.step(now, &j.rules, sick, eligible, j.sick) {
		return
	}
	if j.breaker.Open {
		j.journal.find(Finding{Event: BreakerOpened, Why: j.breaker.Why})
		return
	}
	j.journal.find(Finding{Event: BreakerClosed, Why: fmt.Sprintf("%d of %d nodes are sick", sick, eligible)})
}

// stepZones returns how many zones are frozen, and the last of them. Where all nodes are
// in one zone the pool's breaker stands for it.
func (j *Judge) stepZones(now time.Time) (frozen int, last *zone) {
	zones := 0
	for _, z := range j.zones {
		if z.eligible > 0 {
			zones++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.zones)) {
		z := j.zones[name]
		limit := j.zone
		if zones < 2 {
			limit = Limit{Value: float64(z.eligible)}
		}
		if z.eligible == 0 && !z.Open {
			continue
		}
		if z.step(now, &j.rules, z.sick, z.eligible, limit) {
			event := Finding{Event: ZoneFrozen, Zone: name, Why: z.Why}
			if !z.Open {
				event.Event, event.Why = ZoneThawed, fmt.Sprintf("%d of %d nodes are sick", z.sick, z.eligible)
			}
			j.journal.find(event)
		}
		if z.Open {
			frozen, last = frozen+1, z
		}
	}
	return frozen, last
}

// alarm tells people of what goes on for longer than a moment: one thing, the
// gravest, so that a pool that fails as a whole is not told zone by zone.
type alarm struct {
	Since time.Time
	Told  bool
	why   string
	fresh bool
}

// alarm orders what is due.
func (j *Judge) alarm(now time.Time) {
	for _, a := range j.alarms {
		a.fresh = false
	}
	j.causes(now)
	wait := max(j.interval, j.silence)
	for _, key := range slices.Sorted(maps.Keys(j.alarms)) {
		a := j.alarms[key]
		switch {
		case !a.fresh:
			delete(j.alarms, key)
		case !a.Told && now.Sub(a.Since) >= wait:
			a.Told = true
			j.journal.order(Order{Kind: OrderAlarm, Alarm: key, Why: a.why})
		}
	}
}

// causes notes what there is to alarm about.
func (j *Judge) causes(now time.Time) {
	lost := j.beat >= 0 && j.census.listed > 0 && !j.path.up
	switch {
	case j.breaker.Open:
		j.cause(now, "breaker", j.breaker.Why+": no repairs")
		return
	case lost:
		j.cause(now, "path", "the path of the heartbeats is not proven: silence of nodes is unknown, and repairs nothing")
	case j.census.blind > 0:
		j.cause(now, "unknown", fmt.Sprintf("nothing is known of %d of %d nodes for %v", j.census.blind, j.census.eligible+j.census.blind, j.blind))
	}
	for name, z := range j.zones {
		if z.Open {
			j.cause(now, "zone:"+name, fmt.Sprintf("zone %s: %s: no repairs there", cmp.Or(name, "without a name"), z.Why))
		}
	}
}

func (j *Judge) cause(now time.Time, key, why string) {
	a, ok := j.alarms[key]
	if !ok {
		a = &alarm{Since: now}
		j.alarms[key] = a
	}
	a.why, a.fresh = why, true
}
