package known

import "github.com/weirkeeper/weirkeeper/harmonizer/message"

// ChangeKind is what happened.
type ChangeKind uint8

// Kinds of Change.
const (
	_           ChangeKind = iota
	Appeared               // a copy is known now: Copy, App, Index
	BecameState            // a copy has another state: Copy, App, Index, Was
	Lost                   // a copy is known no more: Copy, App, Index, Was, Why
	NodeHeard              // a node is known now: Node; before its copies appear
	NodeLost               // a node is silent for too long: Node; before its copies are lost
	Covered                // each wanted index of an app is covered: App; see Store.AwaitCovered
)

func (k ChangeKind) String() string {
	return [...]string{"unknown", "appeared", "became_state", "lost", "node_heard", "node_lost", "covered"}[min(k, Covered)]
}

// Why is how a copy was lost.
type Why uint8

// Causes of Lost.
const (
	_         Why = iota
	Silent        // its node was lost
	NotListed     // its node lives, and listed it no more
	Moved         // its id is another app's, index's or version's now
	Exited        // its exit was told
)

func (w Why) String() string {
	return [...]string{"unknown", "silent", "not_listed", "moved", "exited"}[min(w, Exited)]
}

// Change is one difference between what was known and what is. Copy answers for
// a lost copy as it last was.
type Change struct {
	Kind  ChangeKind
	Why   Why // of Lost
	App   AppID
	Index int
	Copy  Copy
	Node  string        // the node's name; of a lost copy, where it was
	Was   message.State // BecameState: the state before; Lost: the last one
}
