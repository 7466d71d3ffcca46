package apps

import (
	"cmp"
	"slices"
)

const perStep = 1000 // indices that one Step judges, and nudges

// limits bounds what one Step does.
type limits struct{ step, sweep int }

// backlog is what is not judged yet: endings first, then the indices that they and
// other events mark. Each Step takes a bounded part, in order.
type backlog struct {
	endings []ending
	ended   int // endings before that are done
	dirty   []place
	done    int // dirty before that is done
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

func (b *backlog) pending() bool { return b.ended < len(b.endings) || b.done < len(b.dirty) }

func (b *backlog) mark(p place) { b.dirty = append(b.dirty, p) }

func (b *backlog) end(e ending) { b.endings = append(b.endings, e) }

func (b *backlog) next() (ending, bool) {
	if b.ended == len(b.endings) {
		b.endings, b.ended = emptied(b.endings), 0
		return ending{}, false
	}
	e := b.endings[b.ended]
	b.endings[b.ended] = ending{}
	b.ended++
	return e, true
}

// take takes up to n marked indices, each once, in order of app and index. They are
// valid until the next take.
func (b *backlog) take(n int, apps *inventory) []place {
	n = min(n, len(b.dirty)-b.done)
	b.batch = append(b.batch[:0], b.dirty[b.done:b.done+n]...)
	if b.done += n; b.done == len(b.dirty) {
		b.dirty, b.done = emptied(b.dirty), 0
	}
	slices.Sort(b.batch)
	b.batch = slices.Compact(b.batch)
	slices.SortStableFunc(b.batch, func(x, y place) int {
		if x.app() == y.app() {
			return 0
		}
		return cmp.Compare(apps.nameOf(x), apps.nameOf(y))
	})
	return b.batch
}

// emptied is the list without its elements, and without its memory if that was
// much.
func emptied[T any](list []T) []T {
	if cap(list) > 16*perStep {
		return nil
	}
	return list[:0]
}
