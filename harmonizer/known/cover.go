package known

// A wanted index is covered while a copy of it, of any version and in any state but
// CRASHED, is listed by the latest heartbeat of its node. An absent copy covers nothing.
// The counts follow each change of a copy, so that Uncovered costs nothing:
//
//	covered = number of indices < want with a copy that covers

// Want sets how many indices of an app are wanted: those below n. The work is in
// proportion to the app's copies.
func (s *Store) Want(a AppID, n int) {
	p := &s.apps.items[a]
	if p.want == uint32(n) {
		return
	}
	p.want, p.covered = uint32(n), 0
	for index, first := range s.apps.spread[a] {
		p.covered += covered(index < p.want && s.apps.covering(first, index, nil))
	}
	for slot := p.first; slot != none; { // a short chain: the last copy that covers an index counts
		r := s.copies.at(slot)
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

// AwaitCovered makes the next Change that leaves no wanted index of an app uncovered add
// a Change of kind Covered, once. Want adds none.
func (s *Store) AwaitCovered(a AppID) { s.apps.items[a].awaited = true }

// covers reports whether the copy covers its index.
func (r *record) covers() bool { return r.state != stateCrashed && !r.has(flagAbsent) }

// covering reports whether a copy of a chain covers an index, other than one.
func (s *apps) covering(first, index uint32, other *record) bool {
	for r := range s.chainOf(first) {
		if r != other && r.index == index && r.covers() {
			return true
		}
	}
	return false
}

// cover counts a copy that covers its index from now on.
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

// uncover counts a copy that covered its index until now.
func (s *apps) uncover(r *record) {
	if p := &s.items[r.app]; r.index < p.want && !s.covering(s.head(r.app, r.index), r.index, r) {
		p.covered--
	}
}

// recount counts what a change of a copy does to its index.
func (s *apps) recount(r *record, covered bool) {
	switch covers := r.covers(); {
	case covers && !covered:
		s.cover(r)
	case covered && !covers:
		s.uncover(r)
	}
}
