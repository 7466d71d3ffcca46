package known

import (
	"iter"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/harmonizer/wheel"
)

// Config configures a Store.
type Config struct {
	DropletLost     time.Duration // silence or absence after which copies are lost
	HeartbeatPeriod time.Duration // of every node
	// Places: a copy on a node with a pool counts only after Place. Until then it is unplaced.
	Places    bool
	Partition string // heartbeats of another cc_partition are ignored; "": no filter
	// Partial reports whether a legacy DEA sends partial heartbeats; nil: none does. Its answer
	// for a DEA does not change.
	Partial func(node string) bool
}

// Reads counts the processed heartbeats.
type Reads struct {
	Same   uint64 // equal to the node's last one
	Parsed uint64
}

// Store has what nodes report that they run.
type Store struct {
	cfg    Config
	reader *message.Heartbeats
	marks  func(node []byte) []message.Mark
	clock  clock
	reads  Reads
	texts  texts

	copies copies
	apps   apps
	nodes  nodes

	deadlines *wheel.Wheel[deadline]
	onDue     func(deadline)
	due       []*node // lost nodes of the current Tick

	kept    []bool         // by position in the old marks: the copy is listed again
	listed  []message.Mark // new marks of the node
	changes []Change
	taken   bool // Changes was called
}

// deadline is when to check a node, or a slot, again.
type deadline struct {
	node *node
	slot uint32 // used if node is nil
}

// New returns an empty store.
func New(c Config) *Store {
	s := &Store{
		cfg:       c,
		reader:    message.NewHeartbeats(c.Partition),
		clock:     clock{connectedAt: -maxInstant},
		texts:     texts{numbers: map[string]uint32{}},
		nodes:     nodes{byName: map[message.Node]uint32{}},
		deadlines: wheel.New[deadline](0),
	}
	s.copies = copies{texts: &s.texts, reader: s.reader}
	s.apps = apps{texts: &s.texts, copies: &s.copies, reader: s.reader, spread: map[AppID]map[uint32]uint32{}}
	s.apps.filled = func(a AppID) { s.changes = append(s.changes, Change{Kind: Covered, App: a}) }
	s.marks, s.onDue = s.nodes.marks, s.check
	return s
}

// begin removes the changes that were taken, and frees what only they needed. It frees a part
// in each call, so that no call after a great loss is slow.
func (s *Store) begin() {
	if s.taken {
		s.taken, s.changes = false, s.changes[:0]
		s.copies.gone.release()
		s.apps.idle.release()
		s.nodes.release()
	}
	s.copies.release()
	for _, a := range s.apps.idle.takeReleased() {
		s.apps.forget(AppID(a))
	}
}

// Changes returns the changes since the last call, in order. The result is valid until the
// next Heartbeat, Exit, Connected or Tick.
func (s *Store) Changes() []Change {
	if s.taken {
		return nil
	}
	s.taken = true
	return s.changes
}

func (s *Store) report(kind ChangeKind, slot uint32, r *record) *Change {
	s.changes = append(s.changes, Change{Kind: kind, App: r.app, Index: int(r.index), Copy: Copy{s, slot}})
	return &s.changes[len(s.changes)-1]
}

// Exit removes the copy that ended, if it is known under that app, and returns it with its
// last values. It also adds a Change. It does not check the partition.
func (s *Store) Exit(now time.Time, e api.Exited) (Copy, bool) {
	s.clock.set(now)
	s.begin()
	slot := s.copies.find(message.PackText([]byte(e.Instance)))
	if slot == none {
		return Copy{}, false
	}
	app := message.PackText([]byte(e.App))
	if r := s.copies.recordAt(slot); !s.texts.is(s.apps.items[r.app].id(), &app) {
		return Copy{}, false
	}
	s.lose(slot, Exited)
	return Copy{s, slot}, true
}

// Find returns the copy with this id.
func (s *Store) Find(id string) (Copy, bool) {
	slot := s.copies.find(message.PackText([]byte(id)))
	return Copy{s, slot}, slot != none
}

// lose removes a copy from the known state.
func (s *Store) lose(slot uint32, why Why) {
	r := s.copies.recordAt(slot)
	s.nodes.leave(s.nodes.items[r.node], r)
	s.retire(slot, why)
}

// retire is lose without removing the copy from its node.
func (s *Store) retire(slot uint32, why Why) {
	r := s.copies.recordAt(slot)
	c := s.report(Lost, slot, r)
	c.Why, c.Node, c.Was = why, s.nodes.items[r.node].node, s.texts.stateOf(r.state)
	s.apps.unlink(r)
	s.copies.retire(slot)
}

// Nodes yields each node with its number of copies. The order depends only on the input of the
// store. The store must not change meanwhile.
func (s *Store) Nodes() iter.Seq2[message.Node, int] {
	return func(yield func(message.Node, int) bool) {
		for _, n := range s.nodes.items {
			if n != nil && !n.lost && !yield(n.node, int(n.copies)) {
				return
			}
		}
	}
}

// Overdue is a node without a recent heartbeat.
type Overdue struct {
	Node   message.Node
	Copies int
	Since  time.Time // of its latest heartbeat, or of the latest Connected if that is later
}

// Overdue yields, in the order of Nodes, the nodes that are silent for longer than silence and
// not lost yet. The store must not change meanwhile.
func (s *Store) Overdue(silence time.Duration) iter.Seq[Overdue] {
	return func(yield func(Overdue) bool) {
		for _, n := range s.nodes.items {
			if n == nil || n.lost || s.clock.silence(n.last) <= silence {
				continue
			}
			if !yield(Overdue{n.node, int(n.copies), s.clock.time(max(n.last, s.clock.connectedAt))}) {
				return
			}
		}
	}
}

// Sender returns the node of the latest heartbeat.
func (s *Store) Sender() message.Node { return s.nodes.sender }

// Len returns the number of copies.
func (s *Store) Len() int { return s.copies.len }

// Reads returns how many heartbeats were processed, by kind.
func (s *Store) Reads() Reads { return s.reads }
