package known

import (
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Copy is one copy of an app as a store knows it: a handle, comparable with ==,
// that follows the copy until it is lost. A lost one answers as it last was
// until the next Heartbeat, Exit, Hearing or Tick after its Change was taken;
// then the handle means nothing: remember the ID, and Find it.
type Copy struct {
	s    *Store
	slot uint32
}

func (c Copy) record() *record { return c.s.copies.at(c.slot) }

// ID returns the copy's id. It allocates.
func (c Copy) ID() string { return c.s.texts.string(c.record().idOf()) }

// App returns the number of its app.
func (c Copy) App() AppID { return c.record().app }

// Index returns its index, from 0 to message.MaxInstances-1.
func (c Copy) Index() int { return int(c.record().index) }

// Node returns the name of its node.
func (c Copy) Node() string {
	if n := c.s.nodes.items[c.record().node]; n != nil {
		return n.name
	}
	return ""
}

// Version returns its version. It allocates; OfVersion does not.
func (c Copy) Version() string { return c.s.texts.string(c.record().versionOf()) }

// OfVersion reports whether this is its version.
func (c Copy) OfVersion(version string) bool {
	r := c.record()
	if id := message.Pack([]byte(version)); id.Form != message.FormOther {
		return id == r.versionOf()
	}
	return r.versionForm == message.FormOther && c.s.texts.items[r.version.lo].text == version
}

// State returns the state that its node last told.
func (c Copy) State() message.State { return c.s.texts.stateOf(c.record().state) }

// Since returns its state_timestamp, in unix seconds of the node's clock.
func (c Copy) Since() float64 { return c.record().since }

// Absent returns since when its living node does not list it, false if it does.
func (c Copy) Absent() (time.Time, bool) {
	if r := c.record(); r.has(flagAbsent) {
		return c.s.clock.time(r.absent), true
	}
	return time.Time{}, false
}

// Heard reports whether its node was heard since everything is: see Store.Hearing.
func (c Copy) Heard() bool {
	n := c.s.nodes.items[c.record().node]
	return n != nil && n.last >= c.s.clock.hearing
}

// Silence returns how long its node is silent at a time: its latest heartbeat is so old.
func (c Copy) Silence(now time.Time) time.Duration {
	n := c.s.nodes.items[c.record().node]
	if n == nil {
		return time.Duration(far)
	}
	return now.Sub(c.s.clock.time(n.last))
}

// Beats returns how often in a row its present node listed it as RUNNING or
// STARTING, 0 if it did not the last time.
func (c Copy) Beats() uint32 {
	r := c.record()
	n := c.s.nodes.items[r.node]
	if r.has(flagAbsent) || !r.runs() || n == nil {
		return 0
	}
	return n.beats - r.born
}
