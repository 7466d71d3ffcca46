package apps

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// processBacklog processes a bounded part of the backlog. Ended copies come before indices,
// because the evaluation of an index depends on them.
func (m *Machine) processBacklog() {
	m.rows.sweep(m.limits.sweep)
	budget := m.limits.step
	for e, ok := m.backlog.next(); ok; e, ok = m.backlog.next() {
		m.ended(e)
		if budget--; budget == 0 {
			return
		}
	}
	for _, p := range m.backlog.takeIndices(budget, &m.apps) {
		m.judge(p)
	}
}

// judge evaluates an index. It acts on the verdict while both states are complete, or while
// the known state is and the expected state was once.
func (m *Machine) judge(p indexKey) {
	a := m.apps.app(p.app())
	if a == nil {
		return
	}
	m.rows.refresh(a)
	s := m.apps.slots[p]
	l := m.rules.judge(a, p.index(), s)
	if m.updates.judged(l) {
		return
	}
	if s == nil {
		if !l.troubled() {
			m.dropIfEmpty(a)
			return
		}
		s = m.apps.slot(a, p.index())
		l.slot = s
	}
	m.apps.count(s, l.category, l.redundant)
	if l.start == "" {
		m.recover(s, l.category == running)
	}
	m.watchReadiness(l)
	if m.gate.acting || m.gate.repairing {
		m.dispatch.act(l)
	}
	if m.needsSlot(l) {
		return
	}
	m.dispatch.forget(s)
	m.limit.regain(s)
	m.apps.drop(s)
	m.dropIfEmpty(a)
}

// needsSlot reports whether the slot of an index is still needed. If so, it sets a deadline to
// check again.
func (m *Machine) needsSlot(l *evaluation) bool {
	if l.troubled() {
		return true
	}
	s := l.slot
	var until instant
	for _, x := range s.extras { // copies that no node listed yet
		until = max(until, x.until)
	}
	desired := l.category != undesired || l.app.row == rowUnreadable
	if desired {
		until = max(until, s.pending, s.grace)
	}
	if desired && s.note != nil { // a recent event here stays explained for a while
		until = max(until, s.noteAt.add(m.cfg.FlappingTimeout))
	}
	if until > m.clock.now {
		m.wakes.addIndex(s, until)
	}
	return until > m.clock.now || desired && s.crashes > 0
}

// recover ends what an index waited for, because the index runs or is no longer desired. If
// another harmonizer sent a nudge for an index that was never missing here, its keep-alive
// stays.
func (m *Machine) recover(s *slot, served bool) {
	if s.missing != 0 && served && !s.served {
		m.journal.addIndexFinding(s, api.AppFinding{Kind: api.AppFindingRecovered, Version: s.app.want.Version, Rule: s.start})
	}
	if s.missing != 0 || s.restart != 0 || s.givenUp || s.silent != 0 {
		m.dispatch.starts.Remove(s.indexKey())
		m.limit.regain(s)
		s.missing, s.pending, s.sent, s.restart, s.grace, s.hold, s.givenUp = 0, 0, 0, 0, 0, "", false
		m.memory.markChanged(s.app)
	}
	s.start, s.cause = "", api.WhyNew
	if served && s.crashes > 0 && !s.app.want.OneShot {
		m.decay(s)
	}
	if !served {
		s.healthy = 0
	}
}

// watchReadiness reports an index that is not ready for longer than its app allows, once, and when it is ready again.
func (m *Machine) watchReadiness(l *evaluation) {
	s := l.slot
	if !l.unready {
		if s.slow && l.category == running {
			m.journal.addIndexFinding(s, api.AppFinding{Kind: api.AppFindingReady, Version: s.app.want.Version})
		}
		s.unready, s.slow = 0, false
		return
	}
	if s.unready == 0 {
		s.unready = m.clock.now
	}
	within := time.Duration(s.app.want.Ready.WithDefaults().Within)
	switch due := s.unready.add(within); {
	case s.slow:
	case due > m.clock.now:
		m.wakes.addIndex(s, due)
	default:
		s.slow = true
		f := api.AppFinding{Kind: api.AppFindingNotReady, Version: s.app.want.Version}
		for _, c := range l.copies {
			if c.OfVersion(f.Version) {
				f.Instance, f.Detail = c.ID(), fmt.Sprintf("%s, not ready for %v", c.State(), within)
				f = onNode(f, c.Node())
				break
			}
		}
		m.journal.addIndexFinding(s, f)
	}
}

func (m *Machine) decay(s *slot) {
	if until := s.backoff.decay(&m.cfg, m.clock.now); until > m.clock.now {
		m.wakes.addIndex(s, until)
		return
	}
	m.memory.markChanged(s.app)
	m.journal.addIndexFinding(s, api.AppFinding{Kind: api.AppFindingDecayed, Version: s.app.want.Version, Rule: api.AppRuleDecay})
}

// retry ends giving up and restart delays of one index, or of all indices of an app.
func (m *Machine) retry(ev Retry) {
	a := m.apps.lookup(ev.App)
	if a == nil {
		return
	}
	for s := a.slots; s != nil; s = s.next {
		if s.crashes == 0 || ev.Index >= 0 && s.index != ev.Index {
			continue
		}
		s.backoff.retry()
		s.hold = ""
		m.memory.markChanged(a)
		m.journal.addIndexFinding(s, api.AppFinding{Kind: api.AppFindingRetried, Why: api.WhyOrdered, Version: a.want.Version, Rule: api.AppRuleGiveUp})
		m.backlog.mark(s.indexKey())
	}
}

const perStep = 1000 // bound of the indices that one Step evaluates, and of its nudges

// limits bounds the work of one Step.
type limits struct{ step, sweep int }

// backlog is what is not evaluated yet: first ended copies, then the indices that they and
// other events mark. Each Step takes a bounded part, in order.
type backlog struct {
	endings []ending
	ended   int // number of processed endings
	dirty   []indexKey
	done    int // number of processed entries of dirty
	batch   []indexKey
}

// ending is a copy that ended or was lost.
type ending struct {
	app       *app
	endedCopy *endedCopy // nil for a copy lost by silence
	why       api.AppReason
	index     int32
	renewed   uint32
	serving   bool // it was of the live version, on a desired index
	unlisted  bool // no node ever listed it
}

// endedCopy is the copy of an ending.
type endedCopy struct {
	id, version string
	node        message.Node
}

func (b *backlog) pending() bool { return b.ended < len(b.endings) || b.done < len(b.dirty) }

func (b *backlog) mark(p indexKey) { b.dirty = append(b.dirty, p) }

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

// takeIndices returns up to n marked indices, each once, in order of app and index. They are valid
// until the next call.
func (b *backlog) takeIndices(n int, apps *inventory) []indexKey {
	n = min(n, len(b.dirty)-b.done)
	b.batch = append(b.batch[:0], b.dirty[b.done:b.done+n]...)
	if b.done += n; b.done == len(b.dirty) {
		b.dirty, b.done = emptied(b.dirty), 0
	}
	slices.Sort(b.batch)
	b.batch = slices.Compact(b.batch)
	slices.SortStableFunc(b.batch, func(x, y indexKey) int {
		if x.app() == y.app() {
			return 0
		}
		return cmp.Compare(apps.nameOf(x), apps.nameOf(y))
	})
	return b.batch
}

// emptied returns the list without elements, and nil if its capacity was large.
func emptied[T any](list []T) []T {
	if cap(list) > 16*perStep {
		return nil
	}
	return list[:0]
}
