package apps

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// MaxStops bounds the stops that are remembered of an app: the latest.
const MaxStops = 10_000

// Memory is what survives a restart of the harmonizer of one app.
type Memory struct {
	App     string        `json:"app"`
	Version string        `json:"version,omitempty"` // the live one
	Indices []IndexMemory `json:"indices,omitempty"` // in order
	Stops   []StopMemory  `json:"stops,omitempty"`   // in order of index and instance, at most MaxStops
}

// Empty reports whether there is nothing to remember.
func (m Memory) Empty() bool { return len(m.Indices)+len(m.Stops) == 0 }

// IndexMemory is what survives of one index. Times are those of the caller's
// clock; a reader elsewhere bounds them.
type IndexMemory struct {
	Index     int       `json:"index"`
	Crashes   int       `json:"crashes,omitempty"`
	CrashedAt time.Time `json:"crashed_at,omitzero"`
	Restart   time.Time `json:"restart,omitzero"` // no start before
	Pending   time.Time `json:"pending,omitzero"` // a start was nudged: none before
	GivenUp   bool      `json:"given_up,omitempty"`
}

// StopMemory is a copy whose stop was nudged. Its time is as those of IndexMemory.
type StopMemory struct {
	Instance string    `json:"instance"`
	Index    int       `json:"index"`
	Pending  time.Time `json:"pending"` // no other stop before
}

// remembered is the memory of an app without a row, without its stops.
type remembered struct {
	Memory
	until instant
}

// memory is what survives a restart: it says which apps' memory changed, and keeps
// that of an app without a row for a while, in case the row comes back.
type memory struct {
	cfg    *Config
	clock  *clock
	source *source
	apps   *inventory
	wakes  *wakes

	remembered map[string]remembered // of apps without a row
	changed    map[string]bool       // apps whose memory is not the one that take returned
	kept       map[string]bool       // apps of which take returned a memory
}

func (m *memory) remember(a *app) { m.changed[a.name()] = true }

// take returns the memory of each app of which it changed since the last call, in
// order of name.
func (m *memory) take() []Memory {
	if len(m.changed) == 0 {
		return nil
	}
	var out []Memory
	for _, name := range slices.Sorted(maps.Keys(m.changed)) {
		mem := m.of(name)
		if mem.Empty() && !m.kept[name] {
			continue
		}
		if m.kept[name] = true; mem.Empty() {
			delete(m.kept, name)
		}
		out = append(out, mem)
	}
	clear(m.changed)
	return out
}

func (m *memory) of(name string) Memory {
	mem, a := Memory{App: name}, m.apps.lookup(name)
	if r, ok := m.remembered[name]; ok {
		mem = r.Memory
	} else if a != nil {
		mem = m.indices(a)
	}
	if a != nil {
		mem.Stops = m.stops(a)
	}
	return mem
}

func (m *memory) indices(a *app) Memory {
	mem := Memory{App: a.name(), Version: a.want.Version}
	for s := a.slots; s != nil; s = s.next {
		if s.crashes > 0 || s.pending > m.clock.now || s.restart > m.clock.now {
			mem.Indices = append(mem.Indices, IndexMemory{
				Index:     s.index,
				Crashes:   s.crashes,
				CrashedAt: m.stored(s.crashedAt),
				Restart:   m.stored(s.restart),
				Pending:   m.stored(s.pending),
				GivenUp:   s.givenUp,
			})
		}
	}
	slices.SortFunc(mem.Indices, func(a, b IndexMemory) int { return cmp.Compare(a.Index, b.Index) })
	return mem
}

// stops returns the stops of an app whose time is not over.
func (m *memory) stops(a *app) (stops []StopMemory) {
	for s := a.slots; s != nil; s = s.next {
		for _, x := range s.extras {
			if x.until > m.clock.now {
				stops = append(stops, StopMemory{Instance: x.id, Index: s.index, Pending: m.stored(x.until)})
			}
		}
	}
	slices.SortFunc(stops, byIndex)
	if len(stops) > MaxStops {
		slices.SortStableFunc(stops, func(a, b StopMemory) int { return b.Pending.Compare(a.Pending) })
		stops = stops[:MaxStops]
		slices.SortFunc(stops, byIndex)
	}
	return stops
}

func byIndex(a, b StopMemory) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Instance, b.Instance))
}

// stored is an instant as others can read it: without our monotonic clock.
func (m *memory) stored(at instant) time.Time { return m.clock.time(at).Round(0) }

// restored is an instant that was stored, at least least and at most most from now.
func (m *memory) restored(t time.Time, least, most time.Duration) instant {
	if t.IsZero() {
		return 0
	}
	return m.clock.in(min(max(t.Sub(m.clock.wall.Round(0)), least), most))
}

// restore adds what the harmonizer that led before remembered.
func (m *memory) restore(memories []Memory) {
	for _, mem := range memories {
		m.kept[mem.App] = true
		m.changed[mem.App] = true
		if a := m.apps.lookup(mem.App); a != nil && a.row == rowPresent {
			m.merge(a, mem)
		} else if len(mem.Indices) > 0 {
			m.keep(mem)
		}
		m.mergeStops(mem)
	}
}

// merge adds the memory of an app: of two numbers of crashes the larger, of two times
// the later.
func (m *memory) merge(a *app, mem Memory) {
	m.remember(a)
	if mem.Version != a.want.Version {
		return
	}
	for _, i := range mem.Indices {
		if i.Index < 0 || !a.desires(i.Index) {
			continue
		}
		s := m.apps.slot(a, i.Index)
		s.pending = max(s.pending, m.restored(i.Pending, 0, m.cfg.startKeepAlive()))
		if i.Crashes > 0 {
			m.mergeCrashes(s, i)
		}
		m.apps.backlog.mark(s.place())
	}
}

// mergeCrashes adds the crashes of an index, unless they are so long ago that they
// count no more.
func (m *memory) mergeCrashes(s *slot, i IndexMemory) {
	oldest := -m.cfg.FlappingTimeout
	b := backoff{
		crashes:   i.Crashes,
		crashedAt: m.restored(i.CrashedAt, oldest-time.Second, 0),
		restart:   m.restored(i.Restart, 0, m.cfg.MaxRestartDelay+*m.cfg.DelayTimeNoise),
		givenUp:   i.GivenUp,
	}
	if b.crashedAt < m.clock.in(oldest) && b.restart <= m.clock.now && !i.GivenUp {
		return
	}
	down := !serves(m.apps.known, s.app, s.index)
	s.backoff.merge(b, down)
	if down {
		s.cause = WhyCrashed
	}
}

// mergeStops adds which stops were sent. Whether their copies still run, and are extra,
// the heartbeats decide.
func (m *memory) mergeStops(mem Memory) {
	for _, stop := range mem.Stops[:min(len(mem.Stops), MaxStops)] {
		until := m.restored(stop.Pending, 0, m.cfg.NudgeKeepAlive)
		if until > m.clock.now && stop.Index >= 0 && stop.Index < message.MaxInstances {
			a := m.apps.ensure(m.apps.known.App(mem.App), mem.App)
			m.stopByOther(m.apps.slot(a, stop.Index), stop.Instance, until)
		}
	}
}

// stopByOther adds the stop of a copy that another harmonizer sent.
func (m *memory) stopByOther(s *slot, id string, until instant) {
	if x := s.find(id); x != nil {
		x.until = max(x.until, until)
	} else {
		s.extras = append(s.extras, extra{id: id, until: until})
	}
	m.remember(s.app)
	m.apps.backlog.mark(s.place())
}

// keep remembers an app without a row. Its stops stay with its copies.
func (m *memory) keep(mem Memory) {
	mem.Stops = nil
	r := remembered{mem, m.clock.in(*m.cfg.DropletGCGracePeriod)}
	m.remembered[mem.App] = r
	m.wakes.add(r.until, wake{what: wakeMemory, name: mem.App})
}

// rowLost keeps the memory of an app whose row is about to go.
func (m *memory) rowLost(a *app) {
	if mem := m.of(a.name()); len(mem.Indices) > 0 {
		m.keep(mem)
	}
}

// rowBack gives an app that has a row again what was kept of it.
func (m *memory) rowBack(a *app) {
	if r, ok := m.remembered[a.name()]; ok {
		delete(m.remembered, a.name())
		m.merge(a, r.Memory)
	}
}

// forget drops the memory of an app without a row, unless its time has not come, or
// the source is incomplete, so that the app may have a row.
func (m *memory) forget(name string) {
	r, ok := m.remembered[name]
	if !ok {
		return
	}
	a := m.apps.lookup(name)
	if (a == nil || a.row != rowDeleted) && (r.until > m.clock.now || !m.source.isComplete) {
		m.wakes.add(max(r.until, m.clock.in(m.cfg.HeartbeatPeriod)), wake{what: wakeMemory, name: name})
		return
	}
	delete(m.remembered, name)
	if m.kept[name] {
		m.changed[name] = true
	} else if a == nil {
		delete(m.changed, name)
	}
}

// gone forgets an app that is removed, if nothing of it was or is to be stored.
func (m *memory) gone(a *app) {
	if _, ok := m.remembered[a.name()]; !ok && !m.kept[a.name()] {
		delete(m.changed, a.name())
	}
}
