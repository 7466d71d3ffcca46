package apps

import (
	"maps"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
)

// oneShot is the state of work that ends: which indices of the live version are done. It is saved, so that no work is done again
// after a restart of the harmonizer.
type oneShot struct {
	done map[int]bool
}

// finish records that the work of an index is done.
func (m *Machine) finish(a *app, e api.Exited) {
	if a.oneShot.done == nil {
		a.oneShot.done = map[int]bool{}
	}
	a.oneShot.done[e.Index] = true
	s := m.apps.slot(a, e.Index)
	s.backoff = backoff{}
	m.memory.markChanged(a)
	m.backlog.mark(s.indexKey())
	m.journal.addIndexFinding(s, api.AppFinding{Kind: api.AppFindingDone, Why: api.WhyDone, Version: e.Version, Instance: e.Instance, Rule: api.AppRuleOneShot})
}

// keep keeps the done indices of the same work: the version has not changed, and the row still has the index.
func (o *oneShot) keep(same bool, instances int) {
	if !same {
		o.done = nil
	}
	maps.DeleteFunc(o.done, func(index int, _ bool) bool { return index >= instances })
}

// spans returns the indices as spans, from the first to the last index of each.
func (o *oneShot) spans() (all [][2]int) {
	for _, index := range slices.Sorted(maps.Keys(o.done)) {
		if n := len(all); n > 0 && all[n-1][1] == index-1 {
			all[n-1][1] = index
		} else {
			all = append(all, [2]int{index, index})
		}
	}
	return all
}

// mergeDone adds what another harmonizer found to be done.
func (m *memory) mergeDone(a *app, spans [][2]int) {
	if !a.want.OneShot {
		return
	}
	for _, span := range spans {
		for index := max(span[0], 0); index <= span[1] && index < a.want.Instances; index++ {
			if a.oneShot.done == nil {
				a.oneShot.done = map[int]bool{}
			}
			a.oneShot.done[index] = true
			m.apps.backlog.mark(at(a.id, index))
		}
	}
}
