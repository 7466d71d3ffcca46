package known

import (
	"errors"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Heartbeat processes a api.Heartbeat as it came from the subject of a node. An empty node
// is the legacy subject, whose nodes have no pool. A heartbeat that names another node than its subject changes nothing. The error is a *message.FieldError if a field is invalid.
//
// What cannot be read is unknown: the copies of the node that the rest omits stay as they are. A heartbeat on the subject
// of a known node proves that the node runs, whatever it contains. So does one on the legacy subject whose node is readable. Such a
// heartbeat has an error too.
//
// Most heartbeats repeat earlier content. If a message equals the node's last one, only its
// sum is computed. An object that equals the one at the same position last time is not parsed.
// A function that removes a copy from a node also removes these shortcuts, so that the same
// content can bring the copy back.
func (s *Store) Heartbeat(now time.Time, from message.Node, data []byte) error {
	sum := s.reader.Sum(data)
	s.nodes.recheck(s.clock.set(now), from)
	if n := s.nodes.withSum(from.Pool, sum); n != nil {
		if err := checkSender(from, n.node.Name); err != nil {
			return err
		}
		s.begin()
		s.reads.Same++
		s.nodes.beat(n, s.clock.set(now))
		return nil
	}
	s.nodes.from = from.Pool
	r, err := s.reader.Read(from, data, s.marks)
	if _, part := errors.AsType[*message.UnreadError](err); err != nil && !part {
		if from.Name != "" {
			r.Node = []byte(from.Name)
		}
		if s.nodes.find(from.Pool, r.Node) == nil {
			return err
		}
		r.Listings = nil
	}
	if err := checkSender(from, r.Node); err != nil {
		return err
	}
	s.begin()
	s.reads.Parsed++
	at := s.clock.set(now)
	n := s.receive(at, from.Pool, r.Node)
	s.list(n, r.Listings)
	s.unlisted(at, n, err != nil)
	s.nodes.dropSum(n)
	if !n.partial && err == nil {
		s.nodes.keepSum(n, sum)
	}
	return err
}

// receive counts a heartbeat of a node, and adds a new node.
func (s *Store) receive(at instant, pool string, name []byte) *node {
	n := s.nodes.find(pool, name)
	if n == nil {
		n = s.nodes.addNode(message.Node{Pool: pool, Name: string(name)}, at)
		n.partial = pool == "" && s.cfg.Partial != nil && s.cfg.Partial(n.node.Name)
		s.deadlines.Add(s.clock.until(at, s.cfg.DropletLost), deadline{node: n})
		s.changes = append(s.changes, Change{Kind: NodeAppeared, Node: n.node})
	}
	s.nodes.beat(n, at)
	return n
}

// list processes the listed copies, and collects the node's new marks.
func (s *Store) list(n *node, listings []message.Listing) {
	s.kept = slices.Grow(s.kept[:0], len(n.marks))[:len(n.marks)]
	clear(s.kept)
	s.listed = s.listed[:0]
	shifted := false
	for i := range listings {
		l := &listings[i]
		mark := message.Mark{Sum: l.Mark.Sum, Len: l.Mark.Len, Owner: none}
		switch {
		case l.Repeats >= 0:
			mark = s.again(n, l.Repeats)
			shifted = shifted || l.Repeats != i
		case l.Foreign:
		default:
			if mark.Owner = s.beat(n, l, i); mark.Owner == none {
				mark.Len = 0 // listed twice; it may count next time
			}
		}
		s.listed = append(s.listed, mark)
	}
	if shifted {
		for i, m := range s.listed {
			if m.Owner != none {
				s.copies.recordAt(m.Owner).place = uint32(i)
			}
		}
	}
}

// again processes an object that repeats the one at a position of the last heartbeat, and
// returns its mark. A foreign object has no owner but a length. If its copy is listed already,
// the mark has neither.
func (s *Store) again(n *node, place int) message.Mark {
	mark := n.marks[place]
	if mark.Owner == none {
		return mark
	}
	if s.kept[place] {
		return message.Mark{Owner: none}
	}
	s.kept[place] = true
	return mark
}

// beat processes a parsed object at the given position of the new marks. It returns its copy,
// or none if this heartbeat already listed that copy.
func (s *Store) beat(n *node, l *message.Listing, place int) uint32 {
	slot := s.likely(n, l, place)
	if slot != none {
		r := s.copies.recordAt(slot)
		if owner := s.nodes.items[r.node]; owner != n && (owner.node.Pool != "" || n.node.Pool != "") {
			n.refusedAt = s.clock.latest
			s.report(Elsewhere, slot, r).Node = n.node
			return none
		}
		if r.node == n.number && (r.seen == n.beats || r.place != none && s.kept[r.place]) {
			return none
		}
		if r.index != l.Index || !s.texts.is(r.versionOf(), &l.Version) || !s.texts.is(s.apps.items[r.app].id(), &l.App) {
			s.lose(slot, Moved)
			slot = none
		}
	}
	if slot == none {
		slot = s.appear(n, l)
	}
	r := s.copies.recordAt(slot)
	s.settle(n, r)
	r.place, r.seen, r.since = uint32(place), n.beats, l.Since
	s.become(slot, r, l.State, l.Unready)
	return slot
}

// likely returns the copy with the listed id, if it is known. It first tries the copy at the
// same position last time.
func (s *Store) likely(n *node, l *message.Listing, place int) uint32 {
	if place < len(n.marks) {
		if slot := n.marks[place].Owner; slot != none && s.texts.is(s.copies.recordAt(slot).idOf(), &l.Instance) {
			return slot
		}
	}
	return s.copies.find(l.Instance)
}

func (s *Store) appear(n *node, l *message.Listing) uint32 {
	slot := s.copies.addRecord(l)
	r := s.copies.recordAt(slot)
	r.app, r.node, r.born, r.first = s.apps.number(l.App), n.number, n.beats-1, s.clock.latest
	switch {
	case !s.cfg.Places || n.node.Pool == "":
		r.flags |= flagPlaced
	case n.distrusted(s.clock.latest):
		r.flags |= flagHidden
	}
	s.apps.link(slot, r)
	n.copies++
	s.report(Appeared, slot, r)
	return slot
}

// settle makes a parsed copy one that its node lists.
func (s *Store) settle(n *node, r *record) {
	if r.node != n.number {
		s.nodes.leave(s.nodes.items[r.node], r)
		r.node, r.born, r.first = n.number, n.beats-1, s.clock.latest
		n.copies++
	}
	if r.place != none {
		s.kept[r.place] = true
	}
	r.flags &^= flagUnread
	if r.has(flagAbsent) || !r.runs() {
		r.born = n.beats - 1
	}
	if was := r.covers(); r.has(flagAbsent) {
		r.flags &^= flagAbsent
		s.apps.recount(r, was)
	}
}

func (s *Store) become(slot uint32, r *record, state []byte, unready bool) {
	is := s.texts.state(state)
	was, ready := r.state, r.ready()
	r.setUnready(unready)
	covered := r.covers()
	r.state = is
	if is != was || ready != r.ready() {
		s.apps.recount(r, covered)
		s.report(BecameState, slot, r).Was = s.texts.stateOf(was)
	}
	s.texts.dropState(was)
}

// unlisted marks the copies that a heartbeat omits as absent, unless the heartbeat is partial. If a part of the heartbeat
// is not readable, they are unknown. Then it sets the new marks.
func (s *Store) unlisted(at instant, n *node, unread bool) {
	for place, m := range n.marks {
		if m.Owner == none || s.kept[place] {
			continue
		}
		r := s.copies.recordAt(m.Owner)
		if unread {
			r.flags |= flagUnread
			m.Len = 0 // its next object is parsed
		}
		if n.partial || unread {
			r.place = uint32(len(s.listed))
			r.born++ // it was not listed
			s.listed = append(s.listed, m)
			continue
		}
		covered := r.covers()
		r.place, r.absent = none, at
		r.flags |= flagAbsent
		s.apps.recount(r, covered)
		s.watch(m.Owner, r)
	}
	if c := cap(n.marks); c < len(s.listed) || c > 2*len(s.listed)+16 {
		n.marks = make([]message.Mark, 0, len(s.listed))
	}
	n.marks = append(n.marks[:0], s.listed...)
}
