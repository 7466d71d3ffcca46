package apps

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// MaxStops bounds the stops in one app's memory. The latest are kept.
const MaxStops = 10_000

// Memory is the part of one app's state that survives a restart of the harmonizer.
type Memory struct {
	App     string        `json:"app"`
	Version string        `json:"version,omitempty"` // the live version
	Indices []IndexMemory `json:"indices,omitempty"` // in order of index
	Stops   []StopMemory  `json:"stops,omitempty"`   // in order of index and instance, at most MaxStops

	// Of an update that is not complete:
	Complete string            `json:"complete,omitempty"` // the last complete version
	Crashes  int               `json:"crashes,omitempty"`  // of the live version
	Halted   *api.HaltedUpdate `json:"halted,omitempty"`

	// Done are the indices whose work is done, as spans from the first to the last index.
	Done [][2]int `json:"done,omitempty"`
}

// Empty reports whether there is nothing to save.
func (m Memory) Empty() bool { return len(m.Indices)+len(m.Stops) == 0 && !m.lasts() }

// lasts reports whether there is more than what ends by itself.
func (m Memory) lasts() bool { return m.Complete != "" || m.Halted != nil || len(m.Done) > 0 }

// IndexMemory is the saved state of one index. Times are on the caller's clock; the harmonizer
// that restores them bounds them.
type IndexMemory struct {
	Index     int       `json:"index"`
	Crashes   int       `json:"crashes,omitempty"`
	CrashedAt time.Time `json:"crashed_at,omitzero"`
	Restart   time.Time `json:"restart,omitzero"` // no start before this time
	Pending   time.Time `json:"pending,omitzero"` // a start was sent: no further start before this time
	GivenUp   bool      `json:"given_up,omitempty"`
	// Ended is how the last copy of the given-up index ended; nil: unknown, or the app has many later ones.
	Ended *api.AppCrash `json:"ended,omitempty"`
}

// StopMemory is a copy whose stop was sent. Its time is like those of IndexMemory.
type StopMemory struct {
	Instance string    `json:"instance"`
	Index    int       `json:"index"`
	Pending  time.Time `json:"pending"` // no further stop before this time
}

// rowlessMemory is the memory of an app without a row, without its stops.
type rowlessMemory struct {
	Memory
	until instant
}

// memory tracks which apps' memory changed. It stores the memory of an app without a row for a
// while, in case the row comes back.
type memory struct {
	cfg    *Config
	clock  *clock
	source *source
	apps   *inventory
	wakes  *wakes

	rowlessMemory map[string]rowlessMemory // of apps without a row
	reread        func(*app)               // after a change of what counts of its row
	changed       map[string]bool          // changed since take last returned it
	saved         map[string]bool          // apps whose memory take returned
}

func (m *memory) markChanged(a *app) { m.changed[a.name()] = true }

// takeChanged returns the memory of each app whose memory changed since the last call, in order of
// name.
func (m *memory) takeChanged() []Memory {
	if len(m.changed) == 0 {
		return nil
	}
	var out []Memory
	for _, name := range slices.Sorted(maps.Keys(m.changed)) {
		mem := m.memoryOf(name)
		if mem.Empty() && !m.saved[name] {
			continue
		}
		if m.saved[name] = true; mem.Empty() {
			delete(m.saved, name)
		}
		out = append(out, mem)
	}
	clear(m.changed)
	return out
}

func (m *memory) memoryOf(name string) Memory {
	mem, a := Memory{App: name}, m.apps.lookup(name)
	if r, ok := m.rowlessMemory[name]; ok {
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
	mem := Memory{App: a.name(), Version: a.want.Version, Crashes: a.update.crashes, Halted: a.update.halted, Done: a.oneShot.spans()}
	if a.update.complete != a.given.Version {
		mem.Complete = a.update.complete
	}
	ends := a.ends()
	ends = ends[max(0, len(ends)-maxEnded):]
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
			if s.givenUp && s.ended != nil && slices.ContainsFunc(ends, func(c api.AppCrash) bool { return c.Index == s.index }) {
				mem.Indices[len(mem.Indices)-1].Ended = s.ended
			}
		}
	}
	slices.SortFunc(mem.Indices, func(a, b IndexMemory) int { return cmp.Compare(a.Index, b.Index) })
	return mem
}

// stops returns the stops of an app whose keep-alive lasts.
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

// stored converts an instant to a time without a monotonic clock reading, for other processes.
func (m *memory) stored(at instant) time.Time { return m.clock.time(at).Round(0) }

// restored converts a stored time to an instant between least and most from now.
func (m *memory) restored(t time.Time, least, most time.Duration) instant {
	if t.IsZero() {
		return 0
	}
	return m.clock.in(min(max(t.Sub(m.clock.wall.Round(0)), least), most))
}

// restore adds the memories of the previous leader.
func (m *memory) restore(memories []Memory) {
	for _, mem := range memories {
		m.saved[mem.App] = true
		m.changed[mem.App] = true
		if a := m.apps.lookup(mem.App); a != nil && a.row == rowPresent {
			m.merge(a, mem)
		} else if len(mem.Indices) > 0 || mem.lasts() {
			m.keepRowless(mem)
		}
		m.mergeStops(mem)
	}
}

// merge adds the memory of an app: the larger number of crashes and the later times.
func (m *memory) merge(a *app, mem Memory) {
	m.markChanged(a)
	m.mergeUpdate(a, mem)
	if mem.Version != a.want.Version {
		return
	}
	m.mergeDone(a, mem.Done)
	for _, i := range mem.Indices {
		if i.Index < 0 || !a.desires(i.Index) {
			continue
		}
		s := m.apps.slot(a, i.Index)
		s.nudged, s.pending = m.clock.now, max(s.pending, m.restored(i.Pending, 0, m.cfg.startKeepAlive()))
		if i.Crashes > 0 {
			m.mergeCrashes(s, i)
		}
		m.apps.backlog.mark(s.indexKey())
	}
}

// mergeUpdate adds the state of an update.
func (m *memory) mergeUpdate(a *app, mem Memory) {
	a.update.complete = cmp.Or(mem.Complete, a.update.complete)
	if mem.Version == a.want.Version {
		a.update.crashes = max(a.update.crashes, mem.Crashes)
	}
	if h := mem.Halted; h != nil && a.update.halted == nil && h.Version == a.given.Version {
		m.apps.setHalted(a, h)
		m.reread(a)
	}
}

// mergeCrashes adds the crashes of an index, unless they are too old to count. Those of work that ends always count.
func (m *memory) mergeCrashes(s *slot, i IndexMemory) {
	oldest := -m.cfg.FlappingTimeout
	b := backoff{
		crashes:   i.Crashes,
		crashedAt: m.restored(i.CrashedAt, oldest-time.Second, 0),
		restart:   m.restored(i.Restart, 0, m.cfg.MaxRestartDelay+*m.cfg.DelayTimeNoise),
		givenUp:   i.GivenUp,
	}
	if !s.app.want.OneShot && b.crashedAt < m.clock.in(oldest) && b.restart <= m.clock.now && !i.GivenUp {
		return
	}
	down := !serves(m.apps.known, s.app, s.index)
	s.backoff.merge(b, down)
	if i.Ended != nil && s.ended == nil && s.givenUp {
		end := *i.Ended
		if now := m.clock.wall.Round(0); end.At.After(now) {
			end.At = now
		}
		s.ended = &end
	}
	if down {
		s.cause = api.WhyCrashed
	}
}

// mergeStops adds the stops that were sent. Heartbeats decide whether their copies still run
// and are extra.
func (m *memory) mergeStops(mem Memory) {
	for _, stop := range mem.Stops[:min(len(mem.Stops), MaxStops)] {
		until := m.restored(stop.Pending, 0, m.cfg.NudgeKeepAlive)
		if until > m.clock.now && stop.Index >= 0 && stop.Index < message.MaxInstances {
			a := m.apps.ensure(m.apps.known.App(mem.App), mem.App)
			m.stopByOther(m.apps.slot(a, stop.Index), stop.Instance, until)
		}
	}
}

// stopByOther adds a stop that another harmonizer sent.
func (m *memory) stopByOther(s *slot, id string, until instant) {
	if x := s.find(id); x != nil {
		x.until = max(x.until, until)
	} else {
		s.extras = append(s.extras, extra{id: id, until: until})
	}
	m.markChanged(s.app)
	m.apps.backlog.mark(s.indexKey())
}

// keepRowless stores the memory of an app without a row. Its stops stay with its copies.
func (m *memory) keepRowless(mem Memory) {
	mem.Stops = nil
	r := rowlessMemory{mem, m.clock.in(*m.cfg.DropletGCGracePeriod)}
	m.rowlessMemory[mem.App] = r
	m.wakes.add(r.until, wake{what: wakeMemory, name: mem.App})
}

// rowLost stores the memory of an app whose row is about to be removed.
func (m *memory) rowLost(a *app) {
	if mem := m.memoryOf(a.name()); len(mem.Indices) > 0 || mem.lasts() {
		m.keepRowless(mem)
	}
}

// rowBack restores the stored memory of an app that has a row again.
func (m *memory) rowBack(a *app) {
	if r, ok := m.rowlessMemory[a.name()]; ok {
		delete(m.rowlessMemory, a.name())
		m.merge(a, r.Memory)
	}
}

// forget deletes the memory of an app without a row. It keeps the memory until its time has
// passed, and while the source is incomplete, because the app may have a row then.
func (m *memory) forget(name string) {
	r, ok := m.rowlessMemory[name]
	if !ok {
		return
	}
	a := m.apps.lookup(name)
	if (a == nil || a.row != rowDeleted) && (r.until > m.clock.now || !m.source.isComplete) {
		m.wakes.add(max(r.until, m.clock.in(m.cfg.HeartbeatPeriod)), wake{what: wakeMemory, name: name})
		return
	}
	delete(m.rowlessMemory, name)
	if m.saved[name] {
		m.changed[name] = true
	} else if a == nil {
		delete(m.changed, name)
	}
}

// gone removes the entry of a removed app, if nothing of the app is or will be saved.
func (m *memory) gone(a *app) {
	if _, ok := m.rowlessMemory[a.name()]; !ok && !m.saved[a.name()] {
		delete(m.changed, a.name())
	}
}
