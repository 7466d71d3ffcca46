package apps

import (
	"time"

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

// app is one application, desired or only seen.
type app struct {
	name    string
	row     rowState
	want    message.App // the last row that could be read
	pass    uint32      // in which the row was last told
	grace   time.Time   // without a row: copies are left alone until DropletLost after it
	pool    *pool       // nil until a row was read
	slots   map[int]*slot
	running map[string]int // version -> copies RUNNING
	tally   [categories]int
	extra   int
}

// pool is the apps of one pool.
type pool struct {
	apps     map[string]*app
	revision uint64
}

// slot is one index of an app.
type slot struct {
	app    *app
	index  int
	copies []*instance // of any version and state
	dirty  bool
	wake   time.Time // when it has a deadline

	category category // as counted
	extra    int      // as counted

	cause     Why       // of its last loss
	missing   time.Time // since then; zero if it is not
	pending   time.Time // a start was nudged: not again before
	restart   time.Time // crashed: not started before
	held      bool      // told that it waits for restart
	crashes   int       // that followed one another within FlappingTimeout
	crashedAt time.Time
	exited    string // instance of the last exit

	last   Finding
	lastAt time.Time
}

// instance is one copy.
type instance struct {
	id      string
	version string
	state   message.State
	since   float64 // unix seconds, as the node said
	slot    *slot
	node    *node
	beat    uint64    // the node's beat that last listed it
	absent  time.Time // since its node lists it no more; zero if it does
	waits   bool      // it has a deadline
	extra   bool
	held    bool      // told that it waits for grace
	stopped time.Time // a stop was nudged: not again before
}

// runs reports whether the copy takes its index. A state that we do not know
// does: its node lists it.
func (in *instance) runs() bool { return in.state != message.Crashed }

func (m *Machine) app(now time.Time, name string) *app {
	a := m.apps[name]
	if a == nil {
		a = &app{name: name, grace: now, slots: map[int]*slot{}, running: map[string]int{}}
		m.apps[name] = a
	}
	return a
}

// setRow changes what is known of the app's row. One that cannot be read counts
// in pools that the app is not in.
func (m *Machine) setRow(a *app, row rowState) {
	if a.row = row; m.unread[a.name] == (row == rowUnreadable) {
		return
	}
	m.revision++
	if row == rowUnreadable {
		m.unread[a.name] = true
	} else {
		delete(m.unread, a.name)
	}
}

func (a *app) slot(index int) *slot {
	s := a.slots[index]
	if s == nil {
		s = &slot{app: a, index: index, cause: WhyNew}
		a.slots[index] = s
	}
	return s
}

func (a *app) desires(index int) bool { return a.row == rowPresent && index < a.want.Instances }

func (a *app) markAll(m *Machine) {
	for _, s := range a.slots {
		m.mark(s)
	}
}

// serves reports whether a copy of the live version takes the index.
func (s *slot) serves() bool {
	for _, in := range s.copies {
		if in.runs() && in.version == s.app.want.Version {
			return true
		}
	}
	return false
}

// wakeAt has the slot looked at again at that time, or before.
func (s *slot) wakeAt(m *Machine, at time.Time) {
	if s.wake.IsZero() || at.Before(s.wake) {
		s.wake = at
		m.deadlines.add(at, s)
	}
}

func (s *slot) due(m *Machine, now time.Time) {
	if s.app.slots[s.index] != s || s.wake.IsZero() || s.wake.After(now) {
		return
	}
	s.wake = time.Time{}
	m.mark(s)
}
