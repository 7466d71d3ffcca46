package apps

import (
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// rowState is what is known of an app's row.
//
//	unknown ──► present ◄──► vanished
//	   ▲         ▲   ▲
//	   │         │   └─────► deleted
//	   ▼         │              ▲
//	   unreadable ◄─────────────┘
type rowState uint8

const (
	rowUnknown    rowState = iota // never read, or gone before it could be read
	rowUnreadable                 // there is a row, and none that could be read counts
	rowPresent                    // read
	rowDeleted                    // its deletion was reported
	rowVanished                   // not among the rows of a complete source
)

// app is one application, desired or only seen. Its healthy indices cost nothing
// here: only those in trouble have a slot.
type app struct {
	id   known.AppID
	row  rowState
	want message.App // the last row that could be read; its Name always

	pass      uint32  // in which the row was last read
	outdated  uint32  // in which Updated came
	stale     bool    // Updated came, and no row of a later pass
	seen      instant // first; without a row, or since it vanished
	rowlessAt instant // the same, by the clock of source.trust: for rule extra_app
	grace     instant // until then the controller has its turn: rule reset_grace
	renewed   uint32  // how often all began anew

	stopped     instant // its row wants no instance since then, and rowStops may hold that; 0: it may not
	stoppedPass uint32  // in which it turned

	// What rule last_copy looked for last.
	confirmed   int    // a desired index with a confirmed copy
	unconfirmed uint64 // the turn in which no desired index had one

	pool    *pool // nil until a row was read
	at      int   // in the pool's apps
	slots   *slot // the first one
	tally   [categories]int32
	extra   int32 // copies that should not run
	crashes crashTable
}

// pool is the apps of one pool.
type pool struct {
	apps     []*app
	total    Totals
	revision uint64
}

// rowless reports whether the app has no row and was not deleted: its row may be on its
// way.
func (a *app) rowless() bool { return a.row == rowUnknown || a.row == rowVanished }

func (a *app) name() string { return a.want.Name }

func (a *app) expected() int {
	if a.row != rowPresent || a.want.State == message.AppStopped {
		return 0
	}
	return a.want.Instances
}

func (a *app) desires(index int) bool { return index < a.expected() }

// has reports whether the app has a row, readable or not.
func (a *app) has() bool { return a.row == rowPresent || a.row == rowUnreadable }

// place is an index of an app: the app's number, then the index.
type place uint64

func at(id known.AppID, index int) place { return place(id)<<32 | place(uint32(index)) }

func (p place) app() known.AppID { return known.AppID(p >> 32) }
func (p place) index() int       { return int(uint32(p)) }

// perExits is how many exits of an index are remembered, so that a repeated exit counts
// once.
const perExits = 8

// slot is an index of an app that is, or was lately, in trouble. A desired index
// without one runs, one copy of the live version.
type slot struct {
	app   *app
	index int

	category category // as counted
	extra    int      // as counted: copies that should not run

	cause   Why     // of its last loss
	start   Rule    // that wants a start
	why     Why     // of it
	missing instant // since then; 0: it is not
	pending instant // a start was nudged: not again before
	sent    instant // the same, of one that was confirmed; 0: none, or it was answered
	grace   instant // it was stopped: not started before
	hold    Rule    // the latest rule noted that it waits for
	silent  instant // lost by silence then; 0: it is not. Of disruptionLimit

	backoff
	exited []string // instances of the latest exits, the newest last

	extras []extra // copies that should not run
	twins  twins

	wake   instant // when it has a deadline
	note   *Finding
	noteAt instant

	prev, next    *slot // of the app
	before, after *slot // of the machine
}

// extra is a copy that should not run, or whose stop is under way: one that should run
// again, or one that another harmonizer stopped.
type extra struct {
	id    string
	rule  Rule // "": it should run, as far as this machine knows
	why   Why
	hold  Rule    // the latest rule noted that it waits for
	until instant // its stop was nudged: not again before
	sent  instant // the same, of one that was confirmed
	alone instant // since then its stop waits for another index alone; 0: it does not
}

// stopKey is a copy whose stop waits for its turn.
type stopKey struct {
	place place
	id    string
}

func (s *slot) place() place { return at(s.app.id, s.index) }

// lastExit is the instance of the latest exit, "" if there was no exit.
func (s *slot) lastExit() string {
	if len(s.exited) == 0 {
		return ""
	}
	return s.exited[len(s.exited)-1]
}

func (s *slot) find(id string) *extra {
	for i := range s.extras {
		if s.extras[i].id == id {
			return &s.extras[i]
		}
	}
	return nil
}

func (s *slot) renew() {
	s.cause, s.crashes, s.givenUp = WhyNew, 0, false
	s.pending, s.sent, s.restart, s.grace, s.healthy = 0, 0, 0, 0, 0
	s.hold = ""
}
