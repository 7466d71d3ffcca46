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
	rowUnknown    rowState = iota // never told, or gone before it could be read
	rowUnreadable                 // told, and none that could be read stands
	rowPresent                    // told
	rowDeleted                    // its deletion was told
	rowVanished                   // not among the rows of a complete source
)

// app is one application, desired or only seen. Its healthy indices cost nothing
// here: only those in trouble have a slot.
type app struct {
	id   known.AppID
	row  rowState
	want message.App // the last row that could be read; its Name always

	pass     uint32  // in which the row was last told
	outdated uint32  // in which Updated was told
	stale    bool    // Updated was told, and no row of a later pass
	seen     instant // first; without a row, or since it vanished
	untold   instant // the same, by the clock of source.trust: for rule extra_app
	grace    instant // until then the controller has its turn: rule reset_grace
	renewed  uint32  // how often all began anew

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

// rowless reports whether the app may have a row that nobody told.
func (a *app) rowless() bool { return a.row == rowUnknown || a.row == rowVanished }

func (a *app) name() string { return a.want.Name }

// expected is the number of instances that should run.
func (a *app) expected() int {
	if a.row != rowPresent || a.want.State == message.AppStopped {
		return 0
	}
	return a.want.Instances
}

func (a *app) desires(index int) bool { return index < a.expected() }

// has reports whether the app has a row, readable or not.
func (a *app) has() bool { return a.row == rowPresent || a.row == rowUnreadable }

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
