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
	if n == 0 {
		return
	}
	for index := range s.Indices(a) {
		if index < n && s.apps.covering(a, uint32(index), nil) {
			p.covered++
		}
	}
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

// covering reports whether a copy on an index covers it, other than one.
func (s *apps) covering(a AppID, index uint32, other *record) bool {
	for r := range s.chainOf(s.head(a, index)) {
		if r != other && r.index == index && r.covers() {
			return true
		}
	}
	return false
}

// cover counts a copy that covers its index from now on.
func (s *apps) cover(r *record) {
	p := &s.items[r.app]
	if r.index >= p.want || s.covering(r.app, r.index, r) {
		return
	}
	if p.covered++; p.covered == p.want && p.awaited {
		p.awaited = false
		s.filled(r.app)
	}
}

// uncover counts a copy that covered its index until now.
func (s *apps) uncover(r *record) {
	if p := &s.items[r.app]; r.index < p.want && !s.covering(r.app, r.index, r) {
		p.covered--
	}
}
