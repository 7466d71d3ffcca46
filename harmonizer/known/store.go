package known

import (
	"iter"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/harmonizer/wheel"
)

// Config is the rules of a Store.
type Config struct {
	DropletLost     time.Duration // silence, or absence, beyond which copies are lost
	HeartbeatPeriod time.Duration // of every node
	Partition       string        // beats of another cc_partition are passed over; "" is no filter
	// Partial tells the nodes that send partial heartbeats; nil is none. Its
	// answer for a node does not change.
	Partial func(node string) bool
}

// Reads counts the heartbeats that were taken.
type Reads struct {
	Same uint64 // byte for byte a node's last one
	Fast uint64 // read by template
	Slow uint64 // read by encoding/json: not in the usual form
}

// Store is what nodes say they run.
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
	due       []*node // found by the Tick that runs

	kept    []bool         // of the marks of the node that is heard: its copy is listed again
	listed  []message.Mark // its new marks
	changes []Change
	taken   bool // the changes were asked for
}

// deadline is when to look at a node, or a slot, again.
type deadline struct {
	node *node
	slot uint32 // if node is nil
}

// New returns an empty store.
func New(c Config) *Store {
	s := &Store{
		cfg:       c,
		reader:    message.NewHeartbeats(c.Partition),
		clock:     clock{hearing: -far},
		texts:     texts{numbers: map[string]uint32{}},
		nodes:     nodes{byName: map[string]uint32{}},
		deadlines: wheel.New[deadline](0),
	}
	s.copies = copies{texts: &s.texts, reader: s.reader}
	s.apps = apps{texts: &s.texts, copies: &s.copies, reader: s.reader, spread: map[AppID]map[uint32]uint32{}}
	s.apps.filled = func(a AppID) { s.changes = append(s.changes, Change{Kind: Covered, App: a}) }
	s.marks, s.onDue = s.nodes.marks, s.look
	return s
}

// begin ends the life of the changes that were taken, and frees what only they
// still needed: a share of it, so that a great loss costs no single call much.
func (s *Store) begin() {
	if s.taken {
		s.taken, s.changes = false, s.changes[:0]
		s.copies.gone.release()
		s.apps.idle.release()
		s.nodes.release()
	}
	s.copies.release()
	for _, a := range s.apps.idle.take() {
		s.apps.forget(AppID(a))
	}
}

// Changes returns what changed since the last call, in the order of happening.
// It is valid until the next Heartbeat, Exit, Hearing or Tick.
func (s *Store) Changes() []Change {
	if s.taken {
		return nil
	}
	s.taken = true
	return s.changes
}

func (s *Store) tell(kind ChangeKind, slot uint32, r *record) *Change {
	s.changes = append(s.changes, Change{Kind: kind, App: r.app, Index: int(r.index), Copy: Copy{s, slot}})
	return &s.changes[len(s.changes)-1]
}

// Exit forgets the copy that ended, if it is known under that app, and returns
// it as it last was; that is told as a Change too. It does not look at the
// partition.
func (s *Store) Exit(now time.Time, e message.Exited) (Copy, bool) {
	s.clock.set(now)
	s.begin()
	slot := s.copies.find(message.PackText([]byte(e.Instance)))
	if slot == none {
		return Copy{}, false
	}
	app := message.PackText([]byte(e.App))
	if r := s.copies.at(slot); !s.texts.is(s.apps.items[r.app].id(), &app) {
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

// lose takes a copy out of the known state.
func (s *Store) lose(slot uint32, why Why) {
	r := s.copies.at(slot)
	s.nodes.leave(s.nodes.items[r.node], r)
	s.bury(slot, why)
}

// bury is lose without a word to the node.
func (s *Store) bury(slot uint32, why Why) {
	r := s.copies.at(slot)
	c := s.tell(Lost, slot, r)
	c.Why, c.Node, c.Was = why, s.nodes.items[r.node].name, s.texts.stateOf(r.state)
	s.apps.unlink(r)
	s.copies.bury(slot)
}

// Nodes yields each node and how many copies it has, in an order that depends
// only on what was told. The store must not change meanwhile.
func (s *Store) Nodes() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for _, n := range s.nodes.items {
			if n != nil && !n.lost && !yield(n.name, int(n.copies)) {
				return
			}
		}
	}
}

// Overdue is a node without a recent heartbeat.
type Overdue struct {
	Node   string
	Copies int
	Since  time.Time // of its latest heartbeat, or since when heartbeats count if that is later
}

// Overdue yields, in the order of Nodes, the nodes that are silent for longer than that,
// and not lost yet. The store must not change meanwhile.
func (s *Store) Overdue(silence time.Duration) iter.Seq[Overdue] {
	return func(yield func(Overdue) bool) {
		for _, n := range s.nodes.items {
			if n == nil || n.lost || s.clock.silence(n.last) <= silence {
				continue
			}
			if !yield(Overdue{n.name, int(n.copies), s.clock.time(max(n.last, s.clock.hearing))}) {
				return
			}
		}
	}
}

// Speaker returns the node whose heartbeat was taken last.
func (s *Store) Speaker() string { return s.nodes.speaker }

// Len returns the number of copies.
func (s *Store) Len() int { return s.copies.len }

// Reads returns how heartbeats were read so far.
func (s *Store) Reads() Reads { return s.reads }
