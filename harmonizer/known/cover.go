package known

// A wanted index is covered while the latest heartbeat of a node lists a copy of it, of any
// version and in any state but CRASHED. The counts follow each change of a copy, so Uncovered
// is cheap:
//
//	covered = number of indices < want with a copy that covers

// Want sets the wanted indices of an app: those below n. Its work is proportional to the app's
// copies.
func (s *Store) Want(a AppID, n int) {
	p := &s.apps.items[a]
	if p.want == uint32(n) {
		return
	}
	p.want, p.covered = uint32(n), 0
	for index, first := range s.apps.spread[a] {
		p.covered += covered(index < p.want && s.apps.covering(first, index, nil))
	}
	for slot := p.first; slot != none; { // a short list: only the last copy that covers an index counts
		r := s.copies.recordAt(slot)
		slot = r.next
		p.covered += covered(r.index < p.want && r.covers() && !s.apps.covering(slot, r.index, nil))
	}
}

func covered(yes bool) uint32 {
	if yes {
		return 1
	}
	return 0
}

// Uncovered returns how many of an app's wanted indices are not covered.
func (s *Store) Uncovered(a AppID) int {
	p := &s.apps.items[a]
	return int(p.want - p.covered)
}

// AwaitCovered requests one Change of kind Covered. It is added when a change of a copy leaves
// no wanted index of the app uncovered. Want adds none.
func (s *Store) AwaitCovered(a AppID) { s.apps.items[a].awaited = true }

// covers reports whether the copy covers its index.
func (r *record) covers() bool { return r.state != stateCrashed && !r.has(flagAbsent|flagHidden) }

// covering reports whether a copy in a list, other than one, covers an index.
func (s *apps) covering(first, index uint32, other *record) bool {
	for r := range s.chainOf(first) {
		if r != other && r.index == index && r.covers() {
			return true
		}
	}
	return false
}

// cover counts a copy that now covers its index.
func (s *apps) cover(r *record) {
	p := &s.items[r.app]
	if r.index >= p.want || s.covering(s.head(r.app, r.index), r.index, r) {
		return
	}
	if p.covered++; p.covered == p.want && p.awaited {
		p.awaited = false
		s.filled(r.app)
	}
}

// uncover counts a copy that no longer covers its index.
func (s *apps) uncover(r *record) {
	if p := &s.items[r.app]; r.index < p.want && !s.covering(s.head(r.app, r.index), r.index, r) {
		p.covered--
	}
}

// recount updates the counts after a change of a copy. covered is the state before.
func (s *apps) recount(r *record, covered bool) {
	switch covers := r.covers(); {
	case covers && !covered:
		s.cover(r)
	case covered && !covers:
		s.uncover(r)
	}
}
