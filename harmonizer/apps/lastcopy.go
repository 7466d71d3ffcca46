package apps

import (
	"cmp"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// lastCopy is the rule last_copy. A copy that is RUNNING or EVACUATING, of an app with a
// row that wants instances, is stopped only while both hold:
//
//  1. Another copy is confirmed. On a desired index: a copy of the live version on the
//     same index. Beyond the desired indices: a copy of any version on a desired index.
//     Confirmed is: RUNNING, listed by the latest heartbeat of its node, that heartbeat
//     at most 1.5 periods old and since the bus came back, no stop of it under way, and
//     its index is likely to run on (backoff.runsOn): one that crashes again and again
//     runs for a moment each time.
//  2. No desired index is without a copy. With a copy is: of any version, in any state
//     but CRASHED, listed by the latest heartbeat of its node. A stop that waited for
//     that alone for patience goes on; beyond the desired indices, while as many other
//     copies there are confirmed as indices are without a copy.
//
// A stop of a copy is under way until its keep-alive ends, also if the copy should run
// again by then.
func (l *look) lastCopy() (hold, bool) {
	state := l.stop.copy.State()
	if l.app.expected() == 0 || state != message.Running && state != message.Evacuating {
		return hold{}, false
	}
	if !l.anotherConfirmed() {
		l.lookAgain(l.cfg.HeartbeatPeriod / 4) // no event follows when a node lists it again
		return hold{RuleLastCopy, WhyUnconfirmed, 0}, true
	}
	without := l.known.Uncovered(l.app.id)
	if without == 0 {
		return hold{}, false
	}
	l.alone = true
	switch until := cmp.Or(l.sent.alone, l.clock.now).add(l.cfg.patience()); {
	case until > l.clock.now:
		return hold{RuleLastCopy, WhyOtherMissing, until}, true
	case !l.app.desires(l.index) && l.standIns() < without:
		l.lookAgain(l.cfg.DropletLost)
		return hold{RuleLastCopy, WhyStandsIn, 0}, true
	}
	return hold{}, false
}

// patience is how long a stop waits for a desired index without a copy.
func (c Config) patience() time.Duration { return 10 * c.DropletLost }

// anotherConfirmed is the first half of rule last_copy.
func (l *look) anotherConfirmed() bool {
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

// desiredConfirmed reports whether a copy on a desired index is confirmed. It starts
// where the latest call found one, and looks once in each turn if there is none: within
// a turn stops are sent, so that a copy only ceases to be confirmed.
func (l *look) desiredConfirmed() bool {
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

// standIns returns how many copies beyond the desired indices are confirmed, beside the
// one to stop.
func (l *look) standIns() int {
	if l.standing.app != l.app || l.standing.turn != l.clock.turn {
		l.standing = standing{app: l.app, turn: l.clock.turn}
		for index := range l.known.Indices(l.app.id) {
			if l.app.desires(index) {
				continue
			}
			for c := range l.known.Copies(l.app.id, index) {
				l.standing.n += count(l.confirms(c))
			}
		}
	}
	return l.standing.n - count(l.confirms(l.stop.copy))
}

// standing is the result of standIns, until a stop is sent.
type standing struct {
	app  *app
	turn uint64
	n    int
}

// confirms reports whether a copy is sure to run on.
func (l *look) confirms(c known.Copy) bool {
	if c.State() != message.Running || !listed(c) || c.Silence(l.clock.wall) > liveness.ConfirmedFor(l.cfg.HeartbeatPeriod) {
		return false
	}
	s := l.apps.slots[at(c.App(), c.Index())]
	return s == nil || s.runsOn(l.cfg, l.clock.now) && !l.stopUnderWay(s, c)
}

func (l *look) stopUnderWay(s *slot, c known.Copy) bool {
	x := s.find(c.ID())
	return x != nil && x.until > l.clock.now
}
