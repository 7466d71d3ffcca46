package apps

import "github.com/weirkeeper/weirkeeper/harmonizer/known"

// place is an index of an app: the app's number, then the index.
type place uint64

func at(id known.AppID, index int) place { return place(id)<<32 | place(uint32(index)) }

func (p place) app() known.AppID { return known.AppID(p >> 32) }
func (p place) index() int       { return int(uint32(p)) }

// perExits is how many exits of an index are remembered: a node that repeats itself
// is answered once.
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
	hold    Rule    // told that it waits for that
	silent  instant // lost by silence then, as the brake counts; 0: it is not

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

// extra is a copy that should not run, or of which another harmonizer said so.
type extra struct {
	id    string
	rule  Rule // "": another harmonizer's
	why   Why
	hold  Rule    // told that it waits for that
	until instant // its stop was nudged: not again before
	sent  instant // the same, of one that was confirmed
}

// stopKey is a copy whose stop waits for its turn.
type stopKey struct {
	place place
	id    string
}

func (s *slot) place() place { return at(s.app.id, s.index) }

// lastExit is the instance whose exit was told last, if any.
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

// renew begins anew.
func (s *slot) renew() {
	s.cause, s.crashes, s.givenUp = WhyNew, 0, false
	s.pending, s.sent, s.restart, s.grace, s.healthy = 0, 0, 0, 0, 0
	s.hold = ""
}
