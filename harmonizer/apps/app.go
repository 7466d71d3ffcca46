package apps

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
)

// rowState is the state of an app's row.
//
//	unknown ──► present ◄──► vanished
//	   ▲         ▲   ▲
//	   │         │   └─────► deleted
//	   ▼         │              ▲
//	   unreadable ◄─────────────┘
type rowState uint8

const (
	rowUnknown    rowState = iota // never read, or gone before it was readable
	rowUnreadable                 // the row exists, but no valid content is known
	rowPresent                    // read
	rowDeleted                    // its deletion was reported
	rowVanished                   // missing from the rows of a complete source
)

// app is one application, desired or only reported by nodes. Healthy indices use no memory
// here; only indices in trouble have a slot.
type app struct {
	id   known.AppID
	row  rowState
	want api.App // the last readable row, with the version that counts; its Name is always set

	given   api.App // the last readable row
	update  updateState
	oneShot oneShot

	pass      uint32  // pass in which the row was last read
	outdated  uint32  // pass in which Updated came
	stale     bool    // Updated came, and no row of a later pass
	seen      instant // first seen; without a row: when the row disappeared
	rowlessAt instant // the same on the clock of source.trust: for rule extra_app
	grace     instant // rule reset_grace: the controller starts the app until then
	renewed   uint32  // how often all indices were reset

	stopped     instant // since then its row requests no instance, and rowStops may hold that; 0: not
	stoppedPass uint32  // pass in which it turned

	// Result of the last search of rule last_copy.
	confirmed   int    // a desired index with a confirmed copy
	unconfirmed uint64 // turn in which no desired index had a confirmed copy

	pool    *pool // nil until a row was read
	at      int   // position in the pool's apps
	slots   *slot // first of the list
	tally   [categories]int32
	extra   int32 // copies that should not run
	crashes crashTable
}

// pool has the apps of one pool.
type pool struct {
	apps     []*app
	total    api.PoolTotals
	revision uint64
}

// rowless reports whether the app has no row and was not deleted. Its row may still come.
func (a *app) rowless() bool { return a.row == rowUnknown || a.row == rowVanished }

func (a *app) name() string { return a.want.Name }

func (a *app) expected() int {
	if a.row != rowPresent || a.want.State == api.AppStopped {
		return 0
	}
	return a.want.Instances
}

func (a *app) desires(index int) bool { return index < a.expected() }

// isDone reports whether the work of an index is done.
func (a *app) isDone(index int) bool { return a.oneShot.done[index] }

// finishes reports whether an exit makes the work of its index done.
func (a *app) finishes(e api.Exited) bool {
	return a != nil && a.row == rowPresent && a.want.OneShot && e.Version == a.want.Version && a.desires(e.Index) && !a.isDone(e.Index) &&
		e.Reason == api.ExitCrashed && e.Status != nil && *e.Status == 0
}

// wasMissed reports whether a repeated exit tells something new. One from before the row was set is of earlier work.
func (a *app) wasMissed(e api.Exited) bool {
	return a.finishes(e) && !time.Unix(e.CrashedAt, 0).Before(a.want.Updated.Truncate(time.Second))
}

// has reports whether the app has a row, readable or not.
func (a *app) has() bool { return a.row == rowPresent || a.row == rowUnreadable }

// indexKey identifies an index of an app: app number << 32 | index.
type indexKey uint64

func at(id known.AppID, index int) indexKey { return indexKey(id)<<32 | indexKey(uint32(index)) }

func (p indexKey) app() known.AppID { return known.AppID(p >> 32) }
func (p indexKey) index() int       { return int(uint32(p)) }

// perExits bounds the remembered exits of an index. They make a repeated exit count once.
const perExits = 8

// slot is an index of an app that is, or recently was, in trouble. A desired index without a
// slot runs one copy of the live version.
type slot struct {
	app   *app
	index int

	category category // as counted in the sums
	extra    int      // as counted in the sums: copies that should not run

	cause   api.AppReason // of its last loss
	start   api.AppRule   // rule that requests a start
	why     api.AppReason // reason of the start
	missing instant       // missing since; 0: not missing
	served  bool          // while it is missing, an earlier version serves it
	pending instant       // a start was sent: no further start before this time
	sent    instant       // the same for a confirmed start; 0: none, or it was answered
	nudged  instant       // the latest start left the queue
	noRoom  instant       // pending by the latest report that the start waits at its scheduler
	grace   instant       // it was stopped: no start before this time
	hold    api.AppRule   // the latest reported rule that it waits for
	unready instant       // since then its copies run and none is ready; 0: not
	slow    bool          // that is reported
	silent  instant       // when it was lost with a silent node; 0: not. Owned by disruptionLimit

	backoff
	exited []string      // instances of the latest exits, newest last
	ended  *api.AppCrash // how the last copy of a given-up index ended; nil: unknown

	extras     []extra // copies that should not run
	liveCopies liveCopies

	wake   instant // its next deadline
	note   *api.AppFinding
	noteAt instant

	prev, next    *slot // of the app's list
	before, after *slot // of the machine's list
}

// extra is a copy that should not run, or a copy with a stop under way. The second kind may be
// one that should run again, or one that another harmonizer stopped.
type extra struct {
	id    string
	rule  api.AppRule // empty: it should run, by the state of this machine
	why   api.AppReason
	hold  api.AppRule // the latest reported rule that it waits for
	until instant     // a stop was sent: no further stop before this time
	sent  instant     // the same for a confirmed stop
	alone instant     // since then its stop waits only for another index; 0: not
}

// stopKey is a copy with a queued stop.
type stopKey struct {
	indexKey indexKey
	id       string
}

func (s *slot) indexKey() indexKey { return at(s.app.id, s.index) }

// lastExit returns the instance of the latest exit, "" if there was no exit.
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
	s.cause, s.crashes, s.givenUp, s.ended = api.WhyNew, 0, false, nil
	s.pending, s.sent, s.restart, s.grace, s.healthy = 0, 0, 0, 0, 0
	s.hold = ""
}

// ends returns how the last copies of the given-up indices ended, oldest first.
func (a *app) ends() (out []api.AppCrash) {
	for s := a.slots; s != nil; s = s.next {
		if s.givenUp && s.ended != nil {
			out = append(out, *s.ended)
		}
	}
	slices.SortFunc(out, func(a, b api.AppCrash) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Index, b.Index)) })
	return out
}
