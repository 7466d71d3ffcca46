package apps

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
)

// verdictRules decide what a desired index should be. All of them run each time.
var verdictRules = [...]func(*evaluation){
	(*evaluation).missing,      // no copy of the live version: start
	(*evaluation).evacuation,   // a copy will end: start another, then stop it
	(*evaluation).extraVersion, // copies of other versions, once the live one runs: stop
	(*evaluation).duplicates,   // several copies of the live version: stop all but one, one by one
	(*evaluation).readiness,    // none of them is ready: reported after a while
}

// startRules decide what the start of an index waits for. The first rule that holds counts.
var startRules = [...]holdRule{
	{always, (*evaluation).updateRequired}, // the row is older than the app
	{always, (*evaluation).incomplete},     // the expected state is incomplete, and the index did not run before
	{always, (*evaluation).updateStart},    // an earlier version serves it, and other indices change first

	{waiting, (*evaluation).packageState}, // the package cannot be started
	{waiting, (*evaluation).giveUp},       // it crashed too often
	{waiting, (*evaluation).flapping},     // it crashed repeatedly: delay
	{always, (*evaluation).keepAlive},     // the start was sent
	{waiting, (*evaluation).grace},        // the controller acts first
}

// stopRules decide what the stop of a copy waits for. The first rule that holds counts.
var stopRules = [...]holdRule{
	{judging, (*evaluation).unlisted},      // its node does not list it now
	{always, (*evaluation).unplaced},       // whether it is there is unknown
	{always, (*evaluation).updateRequired}, // the row is older than the app

	{always, (*evaluation).rowsGone},    // too many rows, or copies, lost their row at once
	{always, (*evaluation).rowsStopped}, // too many rows lost their instances at once

	{always, (*evaluation).wholeApp},   // the controller would stop the whole app
	{waiting, (*evaluation).extraApp},  // its row may still come
	{waiting, (*evaluation).duplicate}, // not all duplicates are proven to run

	{always, (*evaluation).lastCopy},        // it serves, and no other copy is confirmed
	{always, (*evaluation).keepAliveOfStop}, // the stop was sent

	{sending, (*evaluation).unlisted}, // as above; after duplicate, which must count the listing
}

// holdRule is a rule that may hold a nudge, and the phases in which it applies.
type holdRule struct {
	when  phase
	holds func(*evaluation) (hold, bool)
}

// phase is the step of a nudge for which rules are evaluated.
type phase uint8

// The phases of a nudge, as bits.
const (
	judging    phase = 1 << iota // it enters the queue
	sending                      // it leaves the queue
	explaining                   // for Explain
	confirming                   // it is published, perhaps long after it left the queue

	waiting = judging | sending | explaining
	always  = waiting | confirming
)

// hold is why a nudge waits: the rule, and when to evaluate again. Until 0: when something
// changes. If rule is empty, there is nothing to report.
type hold struct {
	rule  api.AppRule
	why   api.AppReason
	until instant
}

// category is what an index counts as. Each index has exactly one.
type category uint8

const (
	undesired  category = iota // not desired, or its row is unreadable
	running                    // it has a copy of the live version
	missing                    // no such copy
	crashed                    // no such copy; the last one crashed
	flapping                   // the same, with more crashes than FlappingDeath
	done                       // work that ended with exit code 0
	failed                     // work that ends, and is not started again
	categories                 // number of categories
)

// verdict is what an index should be: its category, the rule that requests a start, and the
// copies that should not run.
type verdict struct {
	category   category
	start      api.AppRule // "": no start
	why        api.AppReason
	surplus    []surplus
	liveCopies []known.Copy  // duplicates, the survivor first
	redundant  int           // copies that should not run
	unready    bool          // copies of the live version run, and none of them is ready
	again      time.Duration // evaluate again after this time; 0: when something changes
}

// surplus is a copy that should not run.
type surplus struct {
	copy known.Copy
	rule api.AppRule
	why  api.AppReason
}

func (v *verdict) troubled() bool {
	return v.start != "" || len(v.surplus) > 0 || v.again > 0 || v.category == done || v.unready
}

// evaluation is one index of an app, as the rules read it, and their verdict.
type evaluation struct {
	cfg      *Config
	clock    *clock
	known    *known.Store
	source   *source
	rowLoss  *rowLoss
	rowStops *rowStops
	apps     *inventory

	app        *app
	index      int
	slot       *slot        // nil: the index had no trouble so far
	copies     []known.Copy // the copies for which runs is true
	copyCounts copyCounts   // of a desired index
	verdict

	// Input of the hold rules.
	when  phase
	stop  surplus
	sent  extra // earlier nudges for a stop
	alone bool  // set by lastCopy: the stop waits, or waited, only for another index
	lists int   // number of copies that the stop lists; 1 until it is known

	confirmed    int // confirmed copies of the live version on the index, or unknown
	standInCount standInCount
}

// unknown marks a count that is not made yet.
const unknown = -1

// evaluateWithin makes the index be evaluated again at the latest after that time.
func (l *evaluation) evaluateWithin(after time.Duration) {
	if l.again == 0 || after < l.again {
		l.again = after
	}
}

// copyCounts counts the running copies on an index.
type copyCounts struct {
	serving    int // of the live version, not EVACUATING
	ready      int // of serving, ready, and placed on its node
	liveCopies int // of serving, RUNNING or STARTING, and placed on its node
	leaving    int // of the live version, EVACUATING
	evacuating int // of any version
	others     int // of other versions, not EVACUATING
	// earlierReady are those of others that are ready, and placed on their nodes.
	earlierReady int
}

// rules evaluate indices. They change only the proof that duplicates run.
type rules struct {
	evaluation evaluation // reused, because a local one would escape to the heap
}

// judge evaluates an index; s is its slot, or nil. The result is valid until the next call.
func (r *rules) judge(a *app, index int, s *slot) *evaluation {
	l := &r.evaluation
	l.app, l.index, l.slot, l.copies = a, index, s, l.copies[:0]
	for c := range l.known.Copies(a.id, index) {
		if runs(c.State()) {
			l.copies = append(l.copies, c)
		}
	}
	l.judge()
	return l
}

func (l *evaluation) judge() {
	l.confirmed = unknown
	l.verdict = verdict{surplus: l.surplus[:0], liveCopies: l.liveCopies[:0]}
	switch {
	case l.app.row == rowUnreadable: // what should run is unknown
	case l.app.desires(l.index) && l.app.isDone(l.index):
		l.count()
		l.done()
	case l.app.desires(l.index):
		l.count()
		for _, rule := range verdictRules {
			rule(l)
		}
	default:
		l.undesired()
	}
}

func (l *evaluation) count() {
	l.copyCounts = copyCounts{}
	n := &l.copyCounts
	for _, c := range l.copies {
		state, live := c.State(), c.OfVersion(l.app.want.Version)
		switch {
		case state == api.CopyEvacuating:
			n.evacuating++
			n.leaving += count(live)
		case !live:
			n.others++
			n.earlierReady += count(c.Placed() && c.Ready())
		default:
			n.serving++
			n.liveCopies += count(c.Placed() && (state == api.CopyRunning || state == api.CopyStarting))
			n.ready += count(c.Placed() && c.Ready())
		}
	}
}

func (l *evaluation) holdStart(when phase) (hold, bool) { return l.hold(startRules[:], when) }

// holdStop returns the first rule that holds the stop of a copy. It is the only decision on
// whether a copy may be stopped. x has the earlier nudges for it, or is nil.
func (l *evaluation) holdStop(c *surplus, x *extra, when phase) (hold, bool) {
	return l.holdStopOf(1, c, x, when)
}

// holdStopOf is holdStop for a stop that lists that many copies.
func (l *evaluation) holdStopOf(lists int, c *surplus, x *extra, when phase) (hold, bool) {
	if l.stop, l.sent, l.alone, l.lists = *c, (extra{}), false, lists; x != nil {
		l.sent = *x
	}
	return l.hold(stopRules[:], when)
}

func (l *evaluation) hold(list []holdRule, when phase) (hold, bool) {
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

// surplusOf returns the part of the verdict about a copy, nil if the copy should run.
func (l *evaluation) surplusOf(c known.Copy) *surplus {
	for i := range l.surplus {
		if l.surplus[i].copy == c {
			return &l.surplus[i]
		}
	}
	return nil
}

// updateRequired implements rule update_required: the row is older than the app.
func (l *evaluation) updateRequired() (hold, bool) {
	return hold{api.AppRuleUpdateRequired, api.WhyUpdated, 0}, l.app.stale
}

// runs reports whether a copy in that state occupies its index. A copy in an unknown state
// does, because its node lists it.
func runs(s api.CopyState) bool { return s != api.CopyCrashed }

// listed reports whether the copy's node still lists it. A node without a heartbeat since the
// bus came back may be lost. A heartbeat with an unreadable part may list it or not.
func listed(c known.Copy) bool {
	_, absent := c.Absent()
	return !absent && c.Received() && !c.Unread()
}

// serves reports whether a copy of the live version runs on an index and is not EVACUATING.
func serves(k *known.Store, a *app, index int) bool {
	for c := range k.Copies(a.id, index) {
		if s := c.State(); runs(s) && s != api.CopyEvacuating && c.OfVersion(a.want.Version) {
			return true
		}
	}
	return false
}
