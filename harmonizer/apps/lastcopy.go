package apps

import (
	"cmp"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// lastCopy implements rule last_copy. It applies to a ready or EVACUATING copy of an app
// that has a row, wants instances, and serves without an end. The copy is stopped only while both conditions hold:
//
//  1. Another copy is confirmed. On a desired index: a copy of the live version on the
//     same index. Beyond the desired indices: a copy of any version on a desired index.
//     A copy is confirmed if it is ready, its placer has put it on its node, and the latest heartbeat of its node lists
//     it. That heartbeat is at most 1.5 periods old, and came since the bus came back.
//     No stop of the copy is under way. Its index is likely to keep running
//     (backoff.runsOn): an index that crashes repeatedly runs briefly each time.
//  2. No desired index is without a copy. Here a copy counts in any version and any
//     state but CRASHED, if the latest heartbeat of its node lists it. A stop that
//     waited only for this condition continues after stopPatience. Beyond the desired
//     indices it continues only while at least as many other copies there are
//     confirmed as indices are without a copy.
//
// A stop is under way until its keep-alive ends, even if the copy should run again by then.
func (l *evaluation) lastCopy() (hold, bool) {
	if c := l.stop.copy; l.app.expected() == 0 || l.app.want.OneShot || !c.Ready() && c.State() != api.CopyEvacuating {
		return hold{}, false
	}
	if !l.anotherConfirmed() {
		l.evaluateWithin(l.cfg.HeartbeatPeriod / 4) // no event follows when a node lists the copy again
		return hold{api.AppRuleLastCopy, api.WhyUnconfirmed, 0}, true
	}
	without := l.known.Uncovered(l.app.id)
	if without == 0 {
		return hold{}, false
	}
	l.alone = true
	switch until := cmp.Or(l.sent.alone, l.clock.now).add(l.cfg.stopPatience()); {
	case until > l.clock.now:
		return hold{api.AppRuleLastCopy, api.WhyOtherMissing, until}, true
	case !l.app.desires(l.index) && l.standIns() < without:
		l.evaluateWithin(l.cfg.DropletLost)
		return hold{api.AppRuleLastCopy, api.WhyReplacesMissing, 0}, true
	}
	return hold{}, false
}

// stopPatience returns how long a stop waits for a desired index without a copy.
func (c Config) stopPatience() time.Duration { return 10 * c.DropletLost }

// anotherConfirmed is the first condition of rule last_copy.
func (l *evaluation) anotherConfirmed() bool {
	if !l.app.desires(l.index) {
		return l.desiredConfirmed()
	}
	if l.confirmed == unknown {
		l.confirmed = 0
		for _, c := range l.copies {
			l.confirmed += count(c.OfVersion(l.app.want.Version) && l.confirms(c))
		}
	}
	c := l.stop.copy
	return l.confirmed > count(c.OfVersion(l.app.want.Version) && l.confirms(c))
}

// desiredConfirmed reports whether a copy on a desired index is confirmed. It starts at the
// index that the last call found. If it finds none, it searches only once in each turn: within
// a turn only stops are sent, so no further copy becomes confirmed.
func (l *evaluation) desiredConfirmed() bool {
	a := l.app
	if a.unconfirmed == l.clock.turn {
		return false
	}
	for i := range a.expected() {
		index := (a.confirmed + i) % a.expected()
		for c := range l.known.Copies(a.id, index) {
			if l.confirms(c) {
				a.confirmed = index
				return true
			}
		}
	}
	a.unconfirmed = l.clock.turn
	return false
}

// standIns returns how many copies beyond the desired indices are confirmed, without the copy
// to stop.
func (l *evaluation) standIns() int {
	if l.standInCount.app != l.app || l.standInCount.turn != l.clock.turn {
		l.standInCount = standInCount{app: l.app, turn: l.clock.turn}
		for index := range l.known.Indices(l.app.id) {
			if l.app.desires(index) {
				continue
			}
			for c := range l.known.Copies(l.app.id, index) {
				l.standInCount.n += count(l.confirms(c))
			}
		}
	}
	return l.standInCount.n - count(l.confirms(l.stop.copy))
}

// standInCount caches the result of standIns, until a stop is sent.
type standInCount struct {
	app  *app
	turn uint64
	n    int
}

// confirms reports whether a copy is confirmed, as rule last_copy defines it.
func (l *evaluation) confirms(c known.Copy) bool {
	if !c.Ready() || !c.Placed() || !listed(c) || c.Silence(l.clock.wall) > liveness.ConfirmedFor(l.cfg.HeartbeatPeriod) {
		return false
	}
	s := l.apps.slots[at(c.App(), c.Index())]
	return s == nil || s.runsOn(l.cfg, l.clock.now) && !l.stopUnderWay(s, c)
}

func (l *evaluation) stopUnderWay(s *slot, c known.Copy) bool {
	x := s.find(c.ID())
	return x != nil && x.until > l.clock.now
}
