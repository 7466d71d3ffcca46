package fit

import (
	"slices"
	"sort"

	"github.com/weirkeeper/weirkeeper/api"
)

// keepHeadroom shortens the list of candidates until the pool without them still has its free places, as the next answer would count
// them. A plan may have a place for all of them that the next answer does not find. Then the pool would end machines, order others for
// the headroom, and so on.
func (s *solver) keepHeadroom() {
	free := func(h api.PlacesHeadroom) bool { return h.Free > 0 }
	if len(s.answer.Leave) == 0 || !slices.ContainsFunc(s.answer.Headroom, free) {
		return
	}
	all := s.answer.Leave
	enough := sort.Search(len(all), func(n int) bool { return s.keepsHeadroom(all[:len(all)-n]) })
	s.answer.Leave = all[:len(all)-enough]
	for _, id := range all[len(all)-enough:] {
		s.stay(id, "the headroom would not have its places without it", nil)
	}
}

// keepsHeadroom reports whether the pool has as many free places without these candidates.
func (s *solver) keepsHeadroom(leave []string) bool {
	if len(leave) == 0 {
		return true
	}
	leaves := make(map[string]bool, len(leave))
	for _, id := range leave {
		leaves[id] = true
	}
	w := s.World
	w.Question.Aside = slices.Concat(s.Question.Aside, leave)
	w.Question.Leave = nil
	w.Waiting = slices.Clone(s.Waiting)
	for i, id := range s.Question.Leave {
		if !leaves[id] {
			w.Question.Leave = append(w.Question.Leave, id)
		} else if n := s.candidates[i]; n != nil {
			w.Waiting = append(w.Waiting, n.Copies...)
		}
	}
	after := newSolver(w, byRoom) // the next question may have other candidates
	after.placeAll()
	for i, h := range after.answer.Headroom {
		if h.Free < s.answer.Headroom[i].Free {
			return false
		}
	}
	return true
}
