package known

import "github.com/weirkeeper/weirkeeper/harmonizer/message"

// chunk is the number of records in one allocation.
const chunk = 512

// copies has the records of all copies, by slot and by id. A removed record keeps its slot
// while changes may refer to it.
type copies struct {
	texts  *texts
	reader *message.Heartbeats // provides the hash

	chunks []*[chunk]record
	used   uint32 // slots that were ever used
	free   []uint32
	byID   table // including removed records that keep their slot
	len    int
	gone   backlog // slots
}

func (s *copies) recordAt(slot uint32) *record { return &s.chunks[slot/chunk][slot%chunk] }

// takeSlot returns a slot. Its record still has old content.
func (s *copies) takeSlot() uint32 {
	if n := len(s.free); n > 0 {
		slot := s.free[n-1]
		s.free = s.free[:n-1]
		return slot
	}
	if s.used%chunk == 0 {
		s.chunks = append(s.chunks, new([chunk]record))
	}
	s.used++
	return s.used - 1
}

// find returns the slot of the copy with this id, none for an unknown id.
func (s *copies) find(id message.Text) uint32 {
	kept, ok := s.texts.findID(id)
	if !ok {
		return none
	}
	for p := s.byID.probe(s.reader.Hash(kept)); ; {
		slot, ok := s.byID.next(&p)
		if !ok {
			return none
		}
		if r := s.recordAt(slot); r.idOf() == kept && !r.has(flagGone) {
			return slot
		}
	}
}

// addRecord returns the slot of a new record with the listed ids, index and state.
func (s *copies) addRecord(l *message.Listing) uint32 {
	slot := s.takeSlot()
	r := s.recordAt(slot)
	id, version := s.texts.holdID(l.Instance), s.texts.holdID(l.Version)
	*r = record{
		id: packed{id.Hi, id.Lo}, idForm: id.Form, version: packed{version.Hi, version.Lo}, versionForm: version.Form,
		index: l.Index, place: none, state: s.texts.state(l.State), flags: r.flags & flagTimed,
	}
	r.setUnready(l.Unready)
	s.byID.addNumber(s.reader.Hash(id), slot)
	s.len++
	return slot
}

// retire removes a record. Its slot is not free yet.
func (s *copies) retire(slot uint32) {
	s.recordAt(slot).flags |= flagGone
	s.len--
	s.gone.putNumber(slot)
}

func (s *copies) release() {
	for _, slot := range s.gone.takeReleased() {
		s.drop(slot)
	}
}

func (s *copies) drop(slot uint32) {
	r := s.recordAt(slot)
	s.byID.remove(s.reader.Hash(r.idOf()), slot)
	s.texts.dropID(r.idOf())
	s.texts.dropID(r.versionOf())
	s.texts.dropState(r.state)
	r.state = stateRunning // for an outdated handle
	r.idForm, r.versionForm = 0, 0
	s.free = append(s.free, slot)
}
