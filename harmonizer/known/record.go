package known

import (
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// record is the state of one copy. It has no pointer, so that a million of them cost the
// garbage collector nothing.
type record struct {
	id, version packed
	since       float64
	first       instant // when a heartbeat of its node first listed it
	absent      instant // valid if flagAbsent
	app         AppID
	index       uint32
	node        uint32
	place       uint32 // position in the node's marks, none if not listed
	next, prev  uint32 // in the list of the app, or of its index

	seen        uint32 // the node's heartbeat that last parsed it
	born        uint32 // the node's heartbeat before the first of the current row of listings
	state       uint32
	idForm      message.Form
	versionForm message.Form
	flags       uint8
}

// packed is a message.ID without its form. With FormOther, lo is the number of a text.
type packed struct{ hi, lo uint64 }

const (
	flagAbsent  = 1 << iota // its living node does not list it
	flagGone                // lost; its slot is not free yet
	flagTimed               // the slot has a deadline on the wheel
	flagPlaced              // it is where its placer has put it, or needs no placer
	flagUnread              // the readable part of its node's latest heartbeat omits it
	flagHidden              // not placed, on a node that listed copies which were not placed there: it counts nowhere
	flagUnready             // it is not ready to replace another copy
)

func (r *record) has(flag uint8) bool { return r.flags&flag != 0 }

func (r *record) idOf() message.ID { return message.ID{Hi: r.id.hi, Lo: r.id.lo, Form: r.idForm} }

func (r *record) versionOf() message.ID {
	return message.ID{Hi: r.version.hi, Lo: r.version.lo, Form: r.versionForm}
}

// ready reports whether the copy can replace another one.
func (r *record) ready() bool { return r.state == stateRunning && !r.has(flagUnready) }

func (r *record) setUnready(unready bool) {
	r.flags &^= flagUnready
	if unready {
		r.flags |= flagUnready
	}
}

// runs reports whether the copy counts as running.
func (r *record) runs() bool { return r.state == stateRunning || r.state == stateStarting }

// Numbers of states. Unknown states are texts, from firstText on.
const (
	stateStarting = iota
	stateRunning
	stateCrashed
	stateEvacuating
	firstText
)

// texts has strings that are not packed, each stored once, by number.
type texts struct {
	numbers map[string]uint32
	items   []counted
	free    []uint32
}

type counted struct {
	text string
	refs int
}

func (t *texts) find(s []byte) uint32 {
	if n, ok := t.numbers[string(s)]; ok {
		return n
	}
	return none
}

func (t *texts) hold(s []byte) uint32 {
	n := t.find(s)
	if n == none {
		if len(t.free) == 0 {
			t.items = append(t.items, counted{})
			t.free = append(t.free, uint32(len(t.items)-1))
		}
		n = t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
		t.items[n] = counted{text: string(s)}
		t.numbers[t.items[n].text] = n
	}
	t.items[n].refs++
	return n
}

func (t *texts) drop(n uint32) {
	it := &t.items[n]
	if it.refs--; it.refs == 0 {
		delete(t.numbers, it.text)
		*it = counted{}
		t.free = append(t.free, n)
	}
}

// holdID returns the ID to store for a string.
func (t *texts) holdID(s message.Text) message.ID {
	if s.ID.Form == message.FormOther {
		s.ID.Lo = uint64(t.hold(s.Raw))
	}
	return s.ID
}

// findID returns the stored ID of a string, false if it is missing.
func (t *texts) findID(s message.Text) (message.ID, bool) {
	if s.ID.Form != message.FormOther {
		return s.ID, true
	}
	n := t.find(s.Raw)
	s.ID.Lo = uint64(n)
	return s.ID, n != none
}

func (t *texts) dropID(id message.ID) {
	if id.Form == message.FormOther {
		t.drop(uint32(id.Lo))
	}
}

// is reports whether a stored ID is that of a string.
func (t *texts) is(id message.ID, s *message.Text) bool {
	if id.Form == message.FormOther && s.ID.Form == message.FormOther {
		return t.items[id.Lo].text == string(s.Raw)
	}
	return id == s.ID
}

func (t *texts) string(id message.ID) string {
	if id.Form == message.FormOther {
		return t.items[id.Lo].text
	}
	return id.String()
}

// state returns the number to store for a state. It may add a text.
func (t *texts) state(s []byte) uint32 {
	switch api.CopyState(s) {
	case api.CopyRunning:
		return stateRunning
	case api.CopyStarting:
		return stateStarting
	case api.CopyCrashed:
		return stateCrashed
	case api.CopyEvacuating:
		return stateEvacuating
	}
	return firstText + t.hold(s)
}

func (t *texts) dropState(n uint32) {
	if n >= firstText {
		t.drop(n - firstText)
	}
}

func (t *texts) stateOf(n uint32) api.CopyState {
	switch n {
	case stateRunning:
		return api.CopyRunning
	case stateStarting:
		return api.CopyStarting
	case stateCrashed:
		return api.CopyCrashed
	case stateEvacuating:
		return api.CopyEvacuating
	}
	return api.CopyState(t.items[n-firstText].text)
}
