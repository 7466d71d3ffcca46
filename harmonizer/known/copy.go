package known

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Copy is one copy of an app in a store: a handle, comparable with ==. It follows the copy
// until the copy is lost. A lost copy returns its last values until its Change was taken and
// the next Heartbeat, Exit, Connected or Tick begins. After that the handle is invalid; use the
// ID and Find.
type Copy struct {
	s    *Store
	slot uint32
}

func (c Copy) record() *record { return c.s.copies.recordAt(c.slot) }

// ID returns the copy's id. It allocates.
func (c Copy) ID() string { return c.s.texts.string(c.record().idOf()) }

// App returns the number of its app.
func (c Copy) App() AppID { return c.record().app }

// Index returns its index, from 0 to message.MaxInstances-1.
func (c Copy) Index() int { return int(c.record().index) }

// Node returns its node.
func (c Copy) Node() message.Node {
	if n := c.s.nodes.items[c.record().node]; n != nil {
		return n.node
	}
	return message.Node{}
}

// CheckExit returns a *message.FieldError unless the copy's end may come from the subject of the
// node `from`, or from the legacy subject if from is empty. A node reports only the ends of its own
// copies.
func (c Copy) CheckExit(from message.Node) error {
	n := c.s.nodes.items[c.record().node]
	if n != nil && (n.node.Pool != from.Pool || from.Name != "" && n.node.Name != from.Name) {
		return &message.FieldError{Field: "instance", Problem: "runs on another node than that of the subject"}
	}
	return nil
}

// Version returns its version. It allocates; OfVersion does not.
func (c Copy) Version() string { return c.s.texts.string(c.record().versionOf()) }

// OfVersion reports whether the copy has this version.
func (c Copy) OfVersion(version string) bool {
	r := c.record()
	if id := message.Pack([]byte(version)); id.Form != message.FormOther {
		return id == r.versionOf()
	}
	return r.versionForm == message.FormOther && c.s.texts.items[r.version.lo].text == version
}

// State returns the state that its node last reported.
func (c Copy) State() api.CopyState { return c.s.texts.stateOf(c.record().state) }

// Ready reports whether the copy is RUNNING and can replace another one.
func (c Copy) Ready() bool { return c.record().ready() }

// Since returns its state_timestamp, in unix seconds of the node's clock.
func (c Copy) Since() float64 { return c.record().since }

// Absent returns since when its living node does not list it, false if the node does.
func (c Copy) Absent() (time.Time, bool) {
	if r := c.record(); r.has(flagAbsent) {
		return c.s.clock.time(r.absent), true
	}
	return time.Time{}, false
}

// FirstSeen returns when a heartbeat of its node first listed it, by the receiver's clock.
func (c Copy) FirstSeen() time.Time { return c.s.clock.time(c.record().first) }

// Placed reports whether the copy is where its placer has put it, or needs no placer.
func (c Copy) Placed() bool { return c.record().has(flagPlaced) }

// Hidden reports whether the copy counts nowhere: it is not placed, and its node listed copies that were not placed there.
func (c Copy) Hidden() bool { return c.record().has(flagHidden) }

// Unread reports whether a part of its node's latest heartbeat is not readable, and the rest omits the copy.
func (c Copy) Unread() bool { return c.record().has(flagUnread) }

// Received reports whether its node sent a heartbeat since the latest Store.Connected.
func (c Copy) Received() bool {
	n := c.s.nodes.items[c.record().node]
	return n != nil && n.last >= c.s.clock.connectedAt
}

// Silence returns the age of its node's latest heartbeat at now.
func (c Copy) Silence(now time.Time) time.Duration {
	n := c.s.nodes.items[c.record().node]
	if n == nil {
		return time.Duration(maxInstant)
	}
	return now.Sub(c.s.clock.time(n.last))
}

// Beats returns how often in a row its current node listed it as RUNNING or STARTING. It
// returns 0 if the latest heartbeat did not.
func (c Copy) Beats() uint32 {
	r := c.record()
	n := c.s.nodes.items[r.node]
	if r.has(flagAbsent) || !r.runs() || n == nil {
		return 0
	}
	return n.beats - r.born
}
