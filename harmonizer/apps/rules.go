package apps

import (
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// verdictRules decide what a desired index should be: all of them, each time.
var verdictRules = [...]func(*look){
	(*look).missing,      // no copy of the live version: start
	(*look).evacuation,   // a copy will end: start another, then stop it
	(*look).extraVersion, // copies of other versions, once the live one runs: stop
	(*look).duplicates,   // several copies of the live version: stop all but one, one by one
}

// startRules decide what the start of an index waits for: the first rule that holds.
var startRules = [...]holdRule{
	{always, (*look).updateRequired}, // the row is older than the app
	{always, (*look).incomplete},     // the expected state is incomplete, and it did not run
	{waiting, (*look).packageState},  // the package cannot be started
	{waiting, (*look).giveUp},        // it crashed too often
	{waiting, (*look).flapping},      // it crashed often: a delay
	{always, (*look).keepAlive},      // the start was sent
	{waiting, (*look).grace},         // the controller has its turn first
}

// stopRules decide what the stop of a copy waits for: the first rule that holds.
var stopRules = [...]holdRule{
	{judging, (*look).unlisted},       // its node does not list it now
	{always, (*look).updateRequired},  // the row is older than the app
	{always, (*look).rowsGone},        // too many rows, or copies, lost their row at once
	{always, (*look).rowsStopped},     // too many rows want no instance at once
	{always, (*look).wholeApp},        // the controller would stop the whole app
	{waiting, (*look).extraApp},       // its row may be on its way
	{waiting, (*look).duplicate},      // not all of the duplicates are sure to run
	{always, (*look).lastCopy},        // it serves, and no other copy is sure to
	{always, (*look).keepAliveOfStop}, // the stop was sent
	{sending, (*look).unlisted},       // as above; here duplicate counts the listing first
}

// holdRule is a rule that may hold a nudge, and when it applies.
type holdRule struct {
	when  phase
	holds func(*look) (hold, bool)
}

// phase is the step of a nudge for which a rule is asked.
type phase uint8

// The phases of a nudge, as bits.
const (
	judging    phase = 1 << iota // it enters the queue
	sending                      // it leaves the queue
	explaining                   // a person asks why it waits
	confirming                   // it is published, which may be long after it left the queue

	waiting = judging | sending | explaining
	always  = waiting | confirming
)

// hold is why a nudge waits: the rule, and when to judge it again. Until 0 means: when
// something changes. Without a rule there is nothing to report.
type hold struct {
	rule  Rule
	why   Why
	until instant
}

// category is what an index counts as: exactly one.
type category uint8

const (
	undesired  category = iota // or its row cannot be read
	running                    // a copy of the live version takes it
	missing                    // no such copy
	crashed                    // no such copy, the last one crashed
	flapping                   // the same, and more often than FlappingDeath
	categories                 // how many there are
)

// verdict is what an index should be: its category, the rule that wants a start, and
// the copies that should not run there.
type verdict struct {
	category  category
	start     Rule // "": no start
	why       Why
	surplus   []surplus
	twins     []known.Copy  // duplicates, the survivor first
	redundant int           // copies that should not run
	again     time.Duration // to be judged again after that; 0: when something changes
}

// surplus is a copy that should not run.
type surplus struct {
	copy known.Copy
	rule Rule
	why  Why
}

func (v *verdict) troubled() bool { return v.start != "" || len(v.surplus) > 0 || v.again > 0 }

// look is one index of an app: what the rules read, and their verdict.
type look struct {
	cfg      *Config
	clock    *clock
	known    *known.Store
	source   *source
	rowLoss  *rowLoss
	rowStops *rowStops
	apps     *inventory

	app    *app
	index  int
	slot   *slot        // nil for an index without trouble so far
	copies []known.Copy // those that run there, see runs
	census census       // of a desired index
	verdict

	// What the hold rules judge.
	when  phase
	stop  surplus
	sent  extra // what was sent for stop before
	alone bool  // stop waits, or waited, for another index alone: of lastCopy
	lists int   // copies that the stop lists; 1 until it is known

	confirmed int // copies of the live version on the index that are confirmed, or unknown
	standing  standing
}

// unknown is a count that was not made yet.
const unknown = -1

// lookAgain has the index judged again, after that at the latest.
func (l *look) lookAgain(after time.Duration) {
	if l.again == 0 || after < l.again {
		l.again = after
	}
}

// census counts the copies on an index that run.
type census struct {
	serving    int // of the live version, not EVACUATING
	running    int // of these, RUNNING
	twins      int // of serving, RUNNING or STARTING
	leaving    int // of the live version, EVACUATING
	evacuating int // of any version
	others     int // of other versions, not EVACUATING
}

// rules judge indices. They change nothing but the proof that duplicates run.
type rules struct {
	look look // reused: rules are called by a list, so that a look of its own would escape
}

// judge returns an index and its verdict; s is its slot, or nil. Both are valid until
// the next call.
func (r *rules) judge(a *app, index int, s *slot) *look {
	l := &r.look
	l.app, l.index, l.slot, l.copies = a, index, s, l.copies[:0]
	for c := range l.known.Copies(a.id, index) {
		if runs(c.State()) {
			l.copies = append(l.copies, c)
		}
	}
	l.judge()
	return l
}

func (l *look) judge() {
	l.confirmed = unknown
	l.verdict = verdict{surplus: l.surplus[:0], twins: l.twins[:0]}
	switch {
	case l.app.row == rowUnreadable: // what should run is unknown
	case l.app.desires(l.index):
		l.count()
		for _, rule := range verdictRules {
			rule(l)
		}
	default:
		l.undesired()
	}
}

func (l *look) count() {
	l.census = census{}
	n := &l.census
	for _, c := range l.copies {
		state, live := c.State(), c.OfVersion(l.app.want.Version)
		switch {
		case state == message.Evacuating:
			n.evacuating++
			n.leaving += count(live)
		case !live:
			n.others++
		default:
			n.serving++
			n.twins += count(state == message.Running || state == message.Starting)
			n.running += count(state == message.Running)
		}
	}
}

func (l *look) holdStart(when phase) (hold, bool) { return l.hold(startRules[:], when) }

// holdStop returns the first rule that holds the stop of a copy: the one answer to
// whether it may be stopped. x is what was sent for it before, nil for nothing.
func (l *look) holdStop(c *surplus, x *extra, when phase) (hold, bool) {
	return l.holdStopOf(1, c, x, when)
}

// holdStopOf is holdStop for a copy whose stop lists so many.
func (l *look) holdStopOf(lists int, c *surplus, x *extra, when phase) (hold, bool) {
	if l.stop, l.sent, l.alone, l.lists = *c, (extra{}), false, lists; x != nil {
		l.sent = *x
	}
	return l.hold(stopRules[:], when)
}

func (l *look) hold(list []holdRule, when phase) (hold, bool) {
	l.when = when
	for i := range list {
		if list[i].when&when == 0 {
			continue
		}
		if h, held := list[i].holds(l); held {
			return h, true
		}
	}
	return hold{}, false
}

// surplusOf returns a copy's part of the verdict, nil if the copy should run.
func (l *look) surplusOf(c known.Copy) *surplus {
	for i := range l.surplus {
		if l.surplus[i].copy == c {
			return &l.surplus[i]
		}
	}
	return nil
}

// updateRequired is the rule update_required: the row is older than the app.
func (l *look) updateRequired() (hold, bool) {
	return hold{RuleUpdateRequired, WhyUpdated, 0}, l.app.stale
}

// runs reports whether a copy in that state takes its index. A copy in an unknown
// state does: its node lists it.
func runs(s message.State) bool { return s != message.Crashed }

// listed reports whether the copy's node still lists it. A node without a heartbeat
// since the bus came back may be lost.
func listed(c known.Copy) bool {
	_, absent := c.Absent()
	return !absent && c.Heard()
}

// serves reports whether a copy of the live version that stays runs on an index.
func serves(k *known.Store, a *app, index int) bool {
	for c := range k.Copies(a.id, index) {
		if s := c.State(); runs(s) && s != message.Evacuating && c.OfVersion(a.want.Version) {
			return true
		}
	}
	return false
}
