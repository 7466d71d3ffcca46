package apps

import (
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/queue"
	"github.com/weirkeeper/weirkeeper/harmonizer/wheel"
)

// Machine holds the expected and the known state of all apps, and decides. Its parts
// own the state of their rules; a part points to those it needs, never to the Machine.
// Make it with NewMachine.
type Machine struct {
	cfg    Config
	clock  clock
	limits limits

	// What parts write to.
	journal journal
	wakes   wakes
	backlog backlog

	known    *known.Store // the known state
	bus      bus
	rows     rows // the expected state
	apps     inventory
	limit    disruptionLimit
	rowLoss  rowLoss
	rowStops rowStops
	rules    rules
	gate     gate
	dispatch dispatch
	memory   memory
	lost     map[string]time.Time // nodes that no heartbeat came from since they were lost
}

// NewMachine returns an empty machine that follows, with the bus down. The configuration must be valid.
func NewMachine(cfg Config) *Machine {
	m := &Machine{
		cfg: cfg,
		known: known.New(known.Config{
			DropletLost:     cfg.DropletLost,
			HeartbeatPeriod: cfg.HeartbeatPeriod,
			Partition:       cfg.Partition,
			Partial:         cfg.Partial,
		}),
		limits: limits{perStep, perSweep}, lost: map[string]time.Time{},
	}
	m.journal = journal{clock: &m.clock}
	m.apps = newInventory(&m.clock, m.known, &m.rows.source, &m.backlog)
	m.limit = disruptionLimit{cfg: &m.cfg, clock: &m.clock, known: m.known, journal: &m.journal}
	m.rowLoss = rowLoss{cfg: &m.cfg, clock: &m.clock, source: &m.rows.source, journal: &m.journal, apps: &m.apps}
	m.rowStops = rowStops{cfg: &m.cfg, clock: &m.clock, source: &m.rows.source, journal: &m.journal, apps: &m.apps}
	m.rules = rules{look{
		cfg: &m.cfg, clock: &m.clock, known: m.known, source: &m.rows.source, rowLoss: &m.rowLoss, rowStops: &m.rowStops,
		apps: &m.apps,
	}}
	m.dispatch = dispatch{
		cfg: &m.cfg, clock: &m.clock, known: m.known, apps: &m.apps, rules: &m.rules, rows: &m.rows,
		gate: &m.gate, memory: &m.memory, journal: &m.journal, wakes: &m.wakes,
		starts: queue.New[place](cfg.rate()), stops: queue.New[stopKey](cfg.rate()), out: map[*app]*parcel{},
	}
	m.rows = rows{
		source: source{why: "not read yet"}, sweeping: noSweep,
		cfg: &m.cfg, clock: &m.clock, apps: &m.apps, loss: &m.rowLoss, stops: &m.rowStops, memory: &m.memory, starts: m.dispatch.starts,
	}
	m.gate = gate{limit: &m.limit, rowLoss: &m.rowLoss, backlog: &m.backlog}
	m.memory = memory{
		cfg: &m.cfg, clock: &m.clock, source: &m.rows.source, apps: &m.apps, wakes: &m.wakes,
		remembered: map[string]remembered{}, changed: map[string]bool{}, kept: map[string]bool{},
	}
	m.wakes = wakes{&m.clock, wheel.New[wake](100 * time.Millisecond)}
	return m
}

// Step takes in one event and returns what is to be sent, checked against all
// that is known at that moment, and what was found. Both are the caller's;
// nudges are in order of app and index. now never goes back.
//
// A Step takes in a bounded amount of what an event brings, and nudges nothing
// before all of it was taken in: while Busy, the next Step goes on.
func (m *Machine) Step(now time.Time, ev Event) ([]Nudge, []Finding) {
	m.clock.set(now)
	m.journal.found = nil
	busy := m.Busy()
	m.rows.source.expire(m.clock.now)
	m.take(ev)                    // the event goes to the part that it concerns
	changes := m.collect("")      // copies that came, changed or ended go to the backlog
	m.freshness()                 // while a state is incomplete nothing leaves
	if changes <= m.limits.step { // more are enough for one Step
		m.proceed() // verdictRules for each marked index, startRules and stopRules for what they want
	}
	m.watchLosses()                          // many lost at once hold what leaves
	nudges := m.dispatch.send(m.limits.step) // each is judged again first
	if busy && !m.Busy() {
		m.apps.revision++ // counts are whole again
	}
	return nudges, m.journal.found
}

// Confirm reports, right before a nudge of an earlier Step is sent, which may have
// waited since, whether it is still right, all of it, and no repeat of one that was
// sent while it waited. If so, its keep-alive counts from now, and not from its Step.
// Of a nudge that is not right, NotSent nudges again what is.
func (m *Machine) Confirm(now time.Time, n Nudge) bool {
	m.clock.set(now)
	return m.dispatch.confirm(n)
}

// Busy reports whether the backlog or a sweep is left: until then, counts are not
// complete and nothing is nudged. The next Step goes on.
func (m *Machine) Busy() bool { return m.backlog.pending() || m.rows.sweeping != noSweep }

// View returns what can be read of the machine.
func (m *Machine) View() View { return View{m} }

func (m *Machine) take(ev Event) {
	switch ev := ev.(type) {
	case Heartbeat:
		m.heartbeat(ev)
	case Exit:
		m.exit(ev.Exited)
	case ExpectedBegin, ExpectedRows, ExpectedUnreadable, ExpectedGone, ExpectedComplete, ExpectedFailed, ExpectedLost, Updated:
		m.rows.take(ev)
	case BusUp:
		m.bus.connect(m.clock.now)
		m.known.Hearing(m.clock.wall)
	case BusDown:
		m.bus.disconnect()
	case Canary:
		m.limit.probed = true
	case Lead:
		m.lead(ev)
	case Follow:
		m.gate.leading = false
		clear(m.memory.kept) // another harmonizer stores from now on
	case Nudged:
		m.dispatch.sentByOther(ev.Nudge)
	case NotSent:
		m.dispatch.notSent(ev)
	case Release:
		m.rowLoss.release()
		m.rowStops.release()
		m.limit.release(m.apps.slots)
	case Retry:
		m.retry(ev)
	case Tick:
		m.tick()
	}
}

// tick handles what is due. While the bus is down nothing is: silence means
// nothing then.
func (m *Machine) tick() {
	if !m.bus.up {
		return
	}
	if m.clock.now >= m.bus.hearing.add(m.cfg.startIn()) {
		m.bus.fresh = true
	}
	m.loseAwaited()
	m.known.Tick(m.clock.wall)
	m.limit.expect()
	m.wakes.wheel.Due(m.clock.wall, m.due)
}

// watchLosses counts what is lost at once. While the backlog grows no nudge leaves,
// so the count can wait.
func (m *Machine) watchLosses() {
	if m.backlog.pending() {
		return
	}
	m.rowStops.settle()
	m.rowLoss.settle()
	m.limit.watch(m.apps.total.Running, m.apps.slots)
	m.dispatch.starts.Scale(m.limit.share())
	if m.gate.leading && m.gate.acting && !m.Busy() {
		m.rowLoss.watchCopies(m.known.Len())
	}
}

// Memories returns the memory of each app of which it changed since the last
// call, in order of name.
func (m *Machine) Memories() []Memory { return m.memory.take() }

// lead begins to nudge, with what the harmonizer that led before remembered.
func (m *Machine) lead(ev Lead) {
	m.gate.leading, m.rowLoss.untested = true, true
	m.memory.restore(ev.Memories)
	if !m.bus.up || m.clock.now <= m.bus.hearing.add(m.cfg.DropletLost) {
		m.bus.await(ev.Nodes, m.known)
	}
	m.apps.markTrouble()
}

// freshness is the rule of the same name: it notes when the two states become complete
// together, or no longer are. While the expected state alone is incomplete, and once was
// complete, the last complete one counts for the starts of what ran: see startRules.
func (m *Machine) freshness() {
	complete, why := m.View().Complete()
	repairing := m.View().Repairing()
	if complete == m.gate.acting && repairing == m.gate.repairing {
		return
	}
	m.gate.acting, m.gate.repairing = complete, repairing
	m.apps.revision++
	switch {
	case complete:
		m.journal.find(Finding{Kind: KindComplete, Rule: RuleFreshness})
	case repairing:
		m.journal.find(Finding{Kind: KindIncomplete, Rule: RuleFreshness, Detail: why + "; only what ran before is started"})
	default:
		m.journal.find(Finding{Kind: KindIncomplete, Rule: RuleFreshness, Detail: why})
	}
	if repairing {
		m.apps.markTrouble()
	}
}

func (m *Machine) due(w wake) {
	switch w.what {
	case wakeSlot:
		if s := m.apps.slots[w.place]; s != nil && s.wake != 0 && s.wake <= m.clock.now {
			s.wake = 0
			m.backlog.mark(w.place)
		}
	case wakeCrashes:
		m.pruneCrashes(m.apps.app(w.place.app()))
	case wakeMemory:
		m.memory.forget(w.name)
	}
}

func (m *Machine) dropIfEmpty(a *app) {
	if a.slots != nil || a.has() || m.rowLoss.doubts(a) || m.apps.app(a.id) != a {
		return
	}
	for range m.known.Indices(a.id) {
		return
	}
	m.memory.gone(a)
	m.apps.remove(a)
}
