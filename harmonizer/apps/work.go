package apps

import (
	"cmp"
	"slices"
)

const (
	perStep  = 1000   // indices that one Step takes in, and nudges
	perSweep = 10_000 // apps that one Step looks at for their row
	noSweep  = -1
)

// limits bounds what one Step does.
type limits struct{ step, sweep int }

// work is what was heard and is not taken in yet: each Step takes in a bounded
// part, in order.
type work struct {
	endings []ending
	ended   int // endings before that are done
	dirty   []place
	done    int // dirty before that is done
	sweep   int // of m.apps, or noSweep
	batch   []place
}

// ending is a copy that runs no more.
type ending struct {
	app      *app
	who      *who // nil for one that was lost by silence
	why      Why
	index    int32
	renewed  uint32
	serving  bool // it was of the live version, on a desired index
	unlisted bool // no node ever listed it
}

// who is the copy of an ending.
type who struct{ id, version, node string }

// Busy reports whether not all that was heard is taken in: until then, counts
// are not complete and nothing is nudged. The next Step goes on.
func (m *Machine) Busy() bool {
	return m.pending() || m.work.sweep != noSweep
}

// pending reports whether there are endings or indices to take in.
func (m *Machine) pending() bool {
	return m.work.ended < len(m.work.endings) || m.work.done < len(m.work.dirty)
}

func (m *Machine) mark(p place) { m.work.dirty = append(m.work.dirty, p) }

// proceed takes in a part of the work. No index is judged before the endings that
// it is to be judged by.
func (m *Machine) proceed() {
	w := &m.work
	if w.sweep != noSweep {
		m.sweep()
	}
	budget := m.limits.step
	for ; budget > 0 && w.ended < len(w.endings); budget-- {
		e := w.endings[w.ended]
		w.endings[w.ended] = ending{}
		w.ended++
		m.ended(e)
	}
	if w.ended == len(w.endings) {
		w.endings, w.ended = emptied(w.endings), 0
		m.judgeSome(budget)
	}
}

// judgeSome judges up to n indices, in order of app and index.
func (m *Machine) judgeSome(n int) {
	w := &m.work
	n = min(n, len(w.dirty)-w.done)
	w.batch = append(w.batch[:0], w.dirty[w.done:w.done+n]...)
	if w.done += n; w.done == len(w.dirty) {
		w.dirty, w.done = emptied(w.dirty), 0
	}
	slices.Sort(w.batch)
	w.batch = slices.Compact(w.batch)
	slices.SortStableFunc(w.batch, func(a, b place) int {
		if a.app() == b.app() {
			return 0
		}
		return cmp.Compare(m.nameOf(a), m.nameOf(b))
	})
	for _, p := range w.batch {
		m.judge(p)
	}
}

// emptied is the list without its elements, and without its memory if that was
// much.
func emptied[T any](list []T) []T {
	if cap(list) > 16*perStep {
		return nil
	}
	return list[:0]
}

func (m *Machine) nameOf(p place) string {
	if a := m.app(p.app()); a != nil {
		return a.name()
	}
	return ""
}
