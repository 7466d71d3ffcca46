package known

import (
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// ChangeKind is the kind of a Change.
type ChangeKind uint8

const (
	_            ChangeKind = iota
	Appeared                // a new copy: Copy, App, Index
	BecameState             // a copy has another state, or became ready or unready: Copy, App, Index, Was
	Lost                    // a copy was lost: Copy, App, Index, Was, Why
	NodeAppeared            // a new node: Node; before its copies appear
	NodeLost                // a node is silent for too long: Node; before its copies are lost
	Refused                 // a copy that was not placed on its node was removed: Copy, App, Index, Node
	Elsewhere               // a node lists a copy of another node: Node, Copy
	Covered                 // each wanted index of an app is covered: App; see Store.AwaitCovered
)

func (k ChangeKind) String() string {
	return [...]string{"unknown", "appeared", "became_state", "lost", "node_heard", "node_lost", "refused", "elsewhere", "covered"}[min(k, Covered)]
}

// Why is why a copy was lost.
type Why uint8

const (
	_         Why = iota
	Silent        // its node was lost
	NotListed     // its node lives, but omits it
	Moved         // its id now belongs to another app, index or version
	Exited        // its exit was reported
)

func (w Why) String() string {
	return [...]string{"unknown", "silent", "not_listed", "moved", "exited"}[min(w, Exited)]
}

// Change is one change of the known state. The Copy of a lost copy returns its last values.
type Change struct {
	Kind  ChangeKind
	Why   Why // of Lost
	App   AppID
	Index int
	Copy  Copy
	Node  message.Node  // the node; of a lost copy: its last node
	Was   api.CopyState // BecameState: the state before; Lost: the last one
}
