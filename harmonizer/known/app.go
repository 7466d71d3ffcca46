package known

import (
	"iter"
	"maps"
	"slices"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// AppID is the number of an app's name. Numbers are dense. A number is stable while the app
// has copies or is held.
type AppID uint32

// app is one app name, and the head of the list of its copies.
type app struct {
	name    packed
	form    message.Form
	removed bool   // the number is free
	waits   bool   // in the backlog of idle apps
	spread  bool   // its copies are listed by index; see apps.spread
	first   uint32 // first copy; none if spread
	copies  uint32
	refs    uint32
	want    uint32 // indices below it are wanted; see Store.Want
	covered uint32 // wanted indices with a listed copy that is not CRASHED
	awaited bool   // see Store.AwaitCovered
}

// apps numbers the names of apps, and lists the copies of each app. An app keeps its number
// while it has copies or is held.
type apps struct {
	texts  *texts
	copies *copies
	reader *message.Heartbeats // provides the hash

	items  []app
	byName table
	spread map[AppID]map[uint32]uint32 // of apps with many copies: index -> head of its list
	free   []uint32
	idle   backlog

	filled func(AppID) // called when the last wanted index of an awaited app is covered
}

// listLimit is the number of an app's copies that are searched linearly.
const listLimit = 8

func (a *app) id() message.ID { return message.ID{Hi: a.name.hi, Lo: a.name.lo, Form: a.form} }

// App returns the number of an app, a new one for an unknown name. The next Heartbeat, Exit,
// Connected or Tick may remove an app without copies and holds.
func (s *Store) App(name string) AppID { return s.apps.number(message.PackText([]byte(name))) }

// Lookup returns the number of an app that has one.
func (s *Store) Lookup(name string) (AppID, bool) {
	a := s.apps.find(message.PackText([]byte(name)))
	return a, a != AppID(none)
}

// Name returns the name of an app, "" if it was removed. It allocates.
func (s *Store) Name(a AppID) string {
	if int(a) >= len(s.apps.items) || s.apps.items[a].removed {
		return ""
	}
	return s.texts.string(s.apps.items[a].id())
}

// Hold keeps an app's number until the same number of Drop calls.
func (s *Store) Hold(a AppID) { s.apps.items[a].refs++ }

// Drop ends a Hold.
func (s *Store) Drop(a AppID) {
	s.apps.items[a].refs--
	s.apps.check(a)
}

// Copies yields the copies of an app at an index, without hidden ones. The order depends only on the input of the
// store. The store must not change meanwhile.
func (s *Store) Copies(a AppID, index int) iter.Seq[Copy] {
	return func(yield func(Copy) bool) {
		for slot := s.apps.head(a, uint32(index)); slot != none; {
			r := s.copies.recordAt(slot)
			if r.index == uint32(index) && !r.has(flagHidden) && !yield(Copy{s, slot}) {
				return
			}
			slot = r.next
		}
	}
}

// Indices yields the indices at which an app has a copy, ascending.
func (s *Store) Indices(a AppID) iter.Seq[int] {
	if s.apps.items[a].spread {
		indices := make([]int, 0, len(s.apps.spread[a]))
		for index := range s.apps.spread[a] {
			indices = append(indices, int(index))
		}
		slices.Sort(indices)
		return slices.Values(indices)
	}
	indices := make([]int, 0, listLimit)
	for r := range s.apps.chainOf(s.apps.items[a].first) {
		indices = append(indices, int(r.index))
	}
	slices.Sort(indices)
	return slices.Values(slices.Compact(indices))
}

// CopiesOf returns the number of copies of an app.
func (s *Store) CopiesOf(a AppID) int { return int(s.apps.items[a].copies) }

// Running returns how many copies of each version are RUNNING.
func (s *Store) Running(a AppID) map[string]int {
	out := map[string]int{}
	count := func(first uint32) {
		for r := range s.apps.chainOf(first) {
			if r.state == stateRunning && !r.has(flagHidden) {
				out[s.texts.string(r.versionOf())]++
			}
		}
	}
	count(s.apps.items[a].first)
	for first := range maps.Values(s.apps.spread[a]) {
		count(first)
	}
	return out
}

// find returns the number of an app, none for an unknown name.
func (s *apps) find(name message.Text) AppID {
	id, ok := s.texts.findID(name)
	if !ok {
		return AppID(none)
	}
	for p := s.byName.probe(s.reader.Hash(id)); ; {
		n, ok := s.byName.next(&p)
		if !ok {
			return AppID(none)
		}
		if s.items[n].id() == id {
			return AppID(n)
		}
	}
}

// number returns the number of an app, a new one for an unknown name.
func (s *apps) number(name message.Text) AppID {
	if a := s.find(name); a != AppID(none) {
		return a
	}
	if len(s.free) == 0 {
		s.items = append(s.items, app{})
		s.free = append(s.free, uint32(len(s.items)-1))
	}
	a := AppID(s.free[len(s.free)-1])
	s.free = s.free[:len(s.free)-1]
	id := s.texts.holdID(name)
	s.items[a] = app{name: packed{id.Hi, id.Lo}, form: id.Form, first: none}
	s.byName.addNumber(s.reader.Hash(id), uint32(a))
	s.check(a)
	return a
}

// check queues an app without copies and holds for removal.
func (s *apps) check(a AppID) {
	if p := &s.items[a]; p.copies == 0 && p.refs == 0 && !p.waits {
		p.waits = true
		s.idle.putNumber(uint32(a))
	}
}

// forget frees an idle app's number, unless the app has copies or holds again.
func (s *apps) forget(a AppID) {
	p := &s.items[a]
	p.waits = false
	if p.copies > 0 || p.refs > 0 {
		return
	}
	s.byName.remove(s.reader.Hash(p.id()), uint32(a))
	s.texts.dropID(p.id())
	*p = app{removed: true}
	s.free = append(s.free, uint32(a))
}

// head returns the first copy of the list that has the copies at the index.
func (s *apps) head(a AppID, index uint32) uint32 {
	if !s.items[a].spread {
		return s.items[a].first
	}
	if slot, ok := s.spread[a][index]; ok {
		return slot
	}
	return none
}

func (s *apps) setHead(a AppID, index, slot uint32) {
	switch {
	case !s.items[a].spread:
		s.items[a].first = slot
	case slot == none:
		delete(s.spread[a], index)
	default:
		s.spread[a][index] = slot
	}
}

func (s *apps) link(slot uint32, r *record) {
	a := &s.items[r.app]
	if a.copies >= listLimit && !a.spread {
		s.spreadOut(r.app)
	}
	a.copies++
	s.chain(slot, r)
	if r.covers() {
		s.cover(r)
	}
}

// chain puts a copy at the head of the list for its index.
func (s *apps) chain(slot uint32, r *record) {
	r.prev, r.next = none, s.head(r.app, r.index)
	if r.next != none {
		s.copies.recordAt(r.next).prev = slot
	}
	s.setHead(r.app, r.index, slot)
}

func (s *apps) unlink(r *record) {
	if r.covers() {
		s.uncover(r)
	}
	if r.prev == none {
		s.setHead(r.app, r.index, r.next)
	} else {
		s.copies.recordAt(r.prev).next = r.next
	}
	if r.next != none {
		s.copies.recordAt(r.next).prev = r.prev
	}
	a := &s.items[r.app]
	if a.copies--; a.copies == 0 {
		if a.spread {
			a.spread, a.first = false, none
			delete(s.spread, r.app)
		}
		s.check(r.app)
	}
}

// spreadOut gives each index of an app its own list.
func (s *apps) spreadOut(a AppID) {
	slot := s.items[a].first
	s.items[a].spread, s.items[a].first = true, none
	s.spread[a] = make(map[uint32]uint32, 2*listLimit)
	for slot != none {
		r := s.copies.recordAt(slot)
		next := r.next
		s.chain(slot, r)
		slot = next
	}
}

func (s *apps) chainOf(first uint32) iter.Seq[*record] {
	return func(yield func(*record) bool) {
		for slot := first; slot != none; {
			r := s.copies.recordAt(slot)
			if !yield(r) {
				return
			}
			slot = r.next
		}
	}
}
