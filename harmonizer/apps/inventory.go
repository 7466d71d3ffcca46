package apps

import (
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
)

// inventory has all apps that are desired or reported, the slots of their indices, and the
// sums.
type inventory struct {
	clock   *clock
	known   *known.Store
	source  *source  // gives a new app its time without a row
	backlog *backlog // receives the indices to evaluate

	list     []*app // by known.AppID; nil: free number
	slots    map[indexKey]*slot
	first    *slot // of all, in order of creation
	last     *slot
	pools    map[string]*pool
	total    api.PoolTotals  // of all apps
	unread   map[string]bool // apps in rowUnreadable
	revision uint64          // of changes to the counts of all pools
}

func newInventory(c *clock, k *known.Store, s *source, b *backlog) inventory {
	return inventory{
		clock: c, known: k, source: s, backlog: b,
		slots:  map[indexKey]*slot{},
		pools:  map[string]*pool{},
		unread: map[string]bool{},
	}
}

// app returns the app with a number, nil for a free number.
func (in *inventory) app(id known.AppID) *app {
	if int(id) >= len(in.list) {
		return nil
	}
	return in.list[id]
}

// lookup returns the app with a name, nil for an unknown name.
func (in *inventory) lookup(name string) *app {
	id, ok := in.known.Lookup(name)
	if !ok {
		return nil
	}
	return in.app(id)
}

// nameOf returns the name of an index's app, "" if the app is gone.
func (in *inventory) nameOf(p indexKey) string {
	if a := in.app(p.app()); a != nil {
		return a.name()
	}
	return ""
}

// ensure returns the app with a number and name. It adds the app if needed.
func (in *inventory) ensure(id known.AppID, name string) *app {
	if a := in.app(id); a != nil {
		return a
	}
	for int(id) >= len(in.list) {
		in.list = append(in.list, nil)
	}
	a := &app{id: id, want: api.App{Name: name}, seen: in.clock.now, rowlessAt: in.source.trust(in.clock.now)}
	in.list[id] = a
	in.known.Hold(id)
	return a
}

// remove removes an app without a slot or a copy.
func (in *inventory) remove(a *app) {
	in.recount(a, func() { a.crashes = nil })
	in.leave(a)
	in.list[a.id] = nil
	in.known.Drop(a.id)
}

// slot returns the slot of an index. It adds the slot if needed.
func (in *inventory) slot(a *app, index int) *slot {
	key := at(a.id, index)
	if s := in.slots[key]; s != nil {
		return s
	}
	s := &slot{app: a, index: index, cause: api.WhyNew}
	if a.desires(index) {
		s.category = running
	}
	in.slots[key] = s
	if s.next = a.slots; s.next != nil {
		s.next.prev = s
	}
	a.slots = s
	if s.before = in.last; s.before != nil {
		s.before.after = s
	} else {
		in.first = s
	}
	in.last = s
	return s
}

// drop removes a slot. Its index must count as running or undesired.
func (in *inventory) drop(s *slot) {
	delete(in.slots, s.indexKey())
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		s.app.slots = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	if s.before != nil {
		s.before.after = s.after
	} else {
		in.first = s.after
	}
	if s.after != nil {
		s.after.before = s.before
	} else {
		in.last = s.before
	}
}

func (in *inventory) join(a *app, name string) {
	p := in.pools[name]
	if p == nil {
		p = &pool{}
		in.pools[name] = p
	}
	if a.pool == p {
		return
	}
	in.leave(a)
	a.pool, a.at = p, len(p.apps)
	p.apps = append(p.apps, a)
	addTotals(&p.total, a.totals(), 1)
	p.revision++
}

func (in *inventory) leave(a *app) {
	p := a.pool
	if p == nil {
		return
	}
	last := p.apps[len(p.apps)-1]
	p.apps[a.at], last.at = last, a.at
	p.apps[len(p.apps)-1] = nil
	p.apps = p.apps[:len(p.apps)-1]
	addTotals(&p.total, a.totals(), -1)
	p.revision++
	a.pool = nil
}

// recount runs change, which changes the app's counts, and adds the difference to the sums.
func (in *inventory) recount(a *app, change func()) {
	before := a.totals()
	change()
	after := a.totals()
	if before == after {
		return
	}
	addTotals(&in.total, before, -1)
	addTotals(&in.total, after, 1)
	if a.pool != nil {
		addTotals(&a.pool.total, before, -1)
		addTotals(&a.pool.total, after, 1)
		a.pool.revision++
	}
}

// setHalted sets the halted update of an app; nil: none.
func (in *inventory) setHalted(a *app, h *api.HaltedUpdate) {
	in.recount(a, func() { a.update.halted = h })
}

// count sets an index's category and its number of extra copies. The running indices are the
// rest of the desired ones.
func (in *inventory) count(s *slot, c category, extra int) {
	if s.category == c && s.extra == extra {
		return
	}
	a := s.app
	in.recount(a, func() {
		a.tally[s.category]--
		a.tally[c]++
		a.tally[undesired], a.tally[running] = 0, 0
		a.extra += int32(extra - s.extra)
	})
	s.category, s.extra = c, extra
}

// recountUndesired updates the categories after a change of the desired indices. So the parts
// of an app's count always add up.
func (in *inventory) recountUndesired(a *app) {
	for s := a.slots; s != nil; s = s.next {
		if !a.desires(s.index) && s.category != undesired {
			in.count(s, undesired, s.extra)
		} else if a.desires(s.index) && s.category == undesired {
			in.count(s, running, s.extra)
		}
	}
}

// setRow sets the state of the app's row. An unreadable row affects also the counts of other
// pools.
func (in *inventory) setRow(a *app, row rowState) {
	a.row = row
	if in.unread[a.name()] == (row == rowUnreadable) {
		return
	}
	in.revision++
	if row == rowUnreadable {
		in.unread[a.name()] = true
	} else {
		delete(in.unread, a.name())
	}
}

// markAll marks every index of an app that has a copy or a slot.
func (in *inventory) markAll(a *app) {
	for s := a.slots; s != nil; s = s.next {
		in.backlog.mark(s.indexKey())
	}
	for index := range in.known.Indices(a.id) {
		in.backlog.mark(at(a.id, index))
	}
	in.backlog.mark(at(a.id, 0)) // an app without any index is removed when index 0 is evaluated
}

// markExtras marks every index of an app with copies that should not run.
func (in *inventory) markExtras(id known.AppID) {
	if a := in.app(id); a != nil {
		for s := a.slots; s != nil; s = s.next {
			if len(s.extras) > 0 {
				in.backlog.mark(s.indexKey())
			}
		}
	}
}

func (in *inventory) markTrouble() {
	for s := in.first; s != nil; s = s.after {
		in.backlog.mark(s.indexKey())
	}
}
