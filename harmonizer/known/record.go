package known

import "github.com/weirkeeper/weirkeeper/harmonizer/message"

// record is what is known of one copy. It holds no pointer, so that a million of
// them are nothing to the garbage collector.
type record struct {
	id, version packed
	since       float64
	absent      instant // meaningful if flagAbsent
	app         AppID
	index       uint32
	node        uint32
	place       uint32 // in the node's marks, none if it is not listed
	next, prev  uint32 // of the copies of the app, or of its index
	seen        uint32 // the node's beat that last read it
	born        uint32 // the node's beat before the first that listed it in a row
	state       uint32
	idForm      message.Form
	versionForm message.Form
	flags       uint8
}

// packed is a message.ID without its form. With FormOther, lo is the number of
// a text.
type packed struct{ hi, lo uint64 }

const (
	flagAbsent = 1 << iota // its living node does not list it
	flagGone               // lost; waits for its slot to be free
	flagTimed              // the slot, whoever has it, is on the wheel
)

func (r *record) has(flag uint8) bool { return r.flags&flag != 0 }

func (r *record) idOf() message.ID { return message.ID{Hi: r.id.hi, Lo: r.id.lo, Form: r.idForm} }

func (r *record) versionOf() message.ID {
	return message.ID{Hi: r.version.hi, Lo: r.version.lo, Form: r.versionForm}
}

// runs reports whether it counts as listed running.
func (r *record) runs() bool { return r.state == stateRunning || r.state == stateStarting }

// States by number; others are texts, from firstText on.
const (
	stateStarting = iota
	stateRunning
	stateCrashed
	stateEvacuating
	firstText
)

// texts are strings that are not packed, each held once, by number.
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

// holdID returns the ID to keep for a string.
func (t *texts) holdID(s message.Text) message.ID {
	if s.ID.Form == message.FormOther {
		s.ID.Lo = uint64(t.hold(s.Raw))
	}
	return s.ID
}

// findID returns the ID that is kept for a string, false if none can be.
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

// is reports whether a kept ID stands for a string.
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

// state returns the number to keep for a state; holds a text.
func (t *texts) state(s []byte) uint32 {
	switch message.State(s) {
	case message.Running:
		return stateRunning
	case message.Starting:
		return stateStarting
	case message.Crashed:
		return stateCrashed
	case message.Evacuating:
		return stateEvacuating
	}
	return firstText + t.hold(s)
}

func (t *texts) dropState(n uint32) {
	if n >= firstText {
		t.drop(n - firstText)
	}
}

func (t *texts) stateOf(n uint32) message.State {
	switch n {
	case stateRunning:
		return message.Running
	case stateStarting:
		return message.Starting
	case stateCrashed:
		return message.Crashed
	case stateEvacuating:
		return message.Evacuating
	}
	return message.State(t.items[n-firstText].text)
}
