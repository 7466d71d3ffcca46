package apps

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/harmonizer/queue"
	"github.com/weirkeeper/weirkeeper/harmonizer/wheel"
)

// Machine has the expected and the known state of all apps, and decides. Its parts own the
// state of their rules. A part points to other parts, never to the Machine. NewMachine makes
// it.
type Machine struct {
	cfg    Config
	clock  clock
	limits limits

	// Outputs of the parts.
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
	senders  senders
	updates  updates

	placements placements
	lost       map[message.Node]time.Time // lost nodes that sent no heartbeat since
}

// NewMachine returns an empty machine that follows, with the bus down. The configuration must
// be valid.
func NewMachine(cfg Config) *Machine {
	m := &Machine{
		cfg: cfg,
		known: known.New(known.Config{
			DropletLost:     cfg.DropletLost,
			HeartbeatPeriod: cfg.HeartbeatPeriod,
			Partition:       cfg.Partition,
			Partial:         cfg.Partial,
			Places:          cfg.Places,
		}),
		limits: limits{perStep, perSweep}, lost: map[message.Node]time.Time{},
	}
	m.journal = journal{clock: &m.clock}
	m.senders = senders{clock: &m.clock, journal: &m.journal, wrong: map[sender]*wrongSender{}}
	m.placements = placements{clock: &m.clock, requests: map[string]*placementRequest{}, exits: map[message.Node]int{}}
	m.apps = newInventory(&m.clock, m.known, &m.rows.source, &m.backlog)
	m.limit = disruptionLimit{cfg: &m.cfg, clock: &m.clock, known: m.known, journal: &m.journal}
	m.rowLoss = rowLoss{cfg: &m.cfg, clock: &m.clock, source: &m.rows.source, journal: &m.journal, apps: &m.apps}
	m.rowStops = rowStops{cfg: &m.cfg, clock: &m.clock, source: &m.rows.source, journal: &m.journal, apps: &m.apps}
	m.rules = rules{evaluation{
		cfg: &m.cfg, clock: &m.clock, known: m.known, source: &m.rows.source, rowLoss: &m.rowLoss, rowStops: &m.rowStops,
		apps: &m.apps,
	}}
	m.dispatch = dispatch{
		cfg: &m.cfg, clock: &m.clock, known: m.known, apps: &m.apps, rules: &m.rules, rows: &m.rows,
		gate: &m.gate, memory: &m.memory, journal: &m.journal, wakes: &m.wakes, updates: &m.updates,
		starts: queue.New[indexKey](cfg.rate()), stops: queue.New[stopKey](cfg.rate()), out: map[*app]*appNudges{},
	}
	m.rows = rows{
		source: source{why: "not read yet"}, sweeping: noSweep,
		cfg: &m.cfg, clock: &m.clock, apps: &m.apps, loss: &m.rowLoss, stops: &m.rowStops, memory: &m.memory, starts: m.dispatch.starts,
	}
	m.gate = gate{limit: &m.limit, rowLoss: &m.rowLoss, backlog: &m.backlog}
	m.memory = memory{
		cfg: &m.cfg, clock: &m.clock, source: &m.rows.source, apps: &m.apps, wakes: &m.wakes,
		rowlessMemory: map[string]rowlessMemory{}, changed: map[string]bool{}, saved: map[string]bool{},
		reread: func(a *app) { m.rows.change(a, a.given) },
	}
	m.updates = updates{clock: &m.clock, known: m.known, apps: &m.apps, rows: &m.rows, memory: &m.memory, journal: &m.journal}
	m.wakes = wakes{&m.clock, wheel.New[wake](100 * time.Millisecond)}
	return m
}

// Step processes one event. It returns the nudges to send, checked against the current state,
// and the findings. The caller owns both. Nudges are in order of app and index. now must not
// go back.
//
// A Step processes a bounded part of an event, and sends no nudge before all of it is
// processed. While Busy, the next Step continues.
func (m *Machine) Step(now time.Time, ev Event) ([]Nudge, []api.AppFinding) {
	m.clock.set(now)
	m.journal.found = nil
	busy := m.Busy()
	m.rows.source.expire(m.clock.now)
	m.processEvent(ev)       // passes the event to the part that it concerns
	changes := m.collect("") // new, changed and ended copies go to the backlog
	m.freshness()            // while a state is incomplete, nothing leaves

	if changes <= m.limits.step { // a larger number is enough for one Step
		m.processBacklog() // verdictRules for each marked index, then startRules and stopRules
	}

	m.watchLosses()                          // a mass loss holds what leaves
	nudges := m.dispatch.send(m.limits.step) // each is evaluated again first
	if busy && !m.Busy() {
		m.apps.revision++ // counts are complete again
	}
	return nudges, m.journal.found
}

// Confirm is called right before a nudge of an earlier Step is sent. It reports whether all of
// the nudge is still right, and does not repeat one sent meanwhile. If so, its keep-alive
// starts now. Otherwise the caller sends NotSent, which queues again what is still right.
func (m *Machine) Confirm(now time.Time, n Nudge) bool {
	m.clock.set(now)
	return m.dispatch.confirm(n)
}

// Busy reports whether a backlog or a sweep is left. Until then counts are incomplete and no
// nudge is sent. The next Step continues.
func (m *Machine) Busy() bool { return m.backlog.pending() || m.rows.sweeping != noSweep }

// View returns the read methods of the machine.
func (m *Machine) View() View { return View{m} }

func (m *Machine) processEvent(ev Event) {
	switch ev := ev.(type) {
	case Heartbeat:
		m.heartbeat(ev)
	case Exit:
		m.exit(ev)
	case ExpectedBegin, ExpectedRows, ExpectedUnreadable, ExpectedGone, ExpectedComplete, ExpectedFailed, ExpectedLost, Updated:
		m.rows.processEvent(ev)
	case BusUp:
		m.bus.connect(m.clock.now)
		m.known.Connected(m.clock.wall)
	case BusDown:
		m.bus.disconnect()
	case Placed:
		m.placed(ev)
	case SenderLimited:
		m.senders.add(sender{ev.Node, ev.Writer, api.WhySendsTooMuch}, ev.Lost, "")
	case LoopbackProbe:
		m.limit.probed = true
	case Lead:
		m.lead(ev)
	case Follow:
		m.gate.leading = false
		clear(m.memory.saved) // another harmonizer saves from now on
	case Nudged:
		m.dispatch.sentByOther(ev.Nudge)
	case Confirmed:
		m.dispatch.waiting(ev.Pool, ev.Waiting)
	case NotSent:
		m.dispatch.notSent(ev)
	case Release:
		m.rowLoss.release()
		m.rowStops.release()
		m.limit.release(m.apps.slots)
	case Retry:
		m.retry(ev)
	case Configured:
		m.cfg.follow(ev.Config)
		m.journal.addFinding(api.AppFinding{Kind: api.AppFindingConfiguration, Detail: ev.What})
	case Tick:
		m.tick()
	}
}

// tick processes the due work. While the bus is down nothing is due, because silence then means
// nothing.
func (m *Machine) tick() {
	if !m.bus.up {
		return
	}
	if m.clock.now >= m.bus.connectedAt.add(m.cfg.freshAfter()) {
		m.bus.fresh = true
	}
	m.senders.expire()
	m.loseAwaited()
	m.known.Tick(m.clock.wall)
	m.limit.expect()
	m.wakes.wheel.Due(m.clock.wall, m.due)
}

// watchLosses checks for a mass loss. It waits until the backlog is empty; until then no nudge
// leaves.
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

// Memories returns the memory of each app whose memory changed since the last call, in order
// of name.
func (m *Machine) Memories() []Memory { return m.memory.takeChanged() }

// lead begins to send nudges, with the memories of the previous leader.
func (m *Machine) lead(ev Lead) {
	m.gate.leading, m.rowLoss.copiesUncounted = true, true
	m.memory.restore(ev.Memories)
	if !m.bus.up || m.clock.now <= m.bus.connectedAt.add(m.cfg.DropletLost) {
		m.bus.await(ev.Nodes, m.known)
	}
	m.apps.markTrouble()
}

// freshness implements rule freshness: it reports when the two states become complete or
// incomplete. If only the expected state is incomplete, and it was complete once, the last
// complete state counts for starts of what ran; see startRules.
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
		m.journal.addFinding(api.AppFinding{Kind: api.AppFindingComplete, Rule: api.AppRuleFreshness})
	case repairing:
		m.journal.addFinding(api.AppFinding{Kind: api.AppFindingIncomplete, Rule: api.AppRuleFreshness, Detail: why + "; only instances that ran before are started"})
	default:
		m.journal.addFinding(api.AppFinding{Kind: api.AppFindingIncomplete, Rule: api.AppRuleFreshness, Detail: why})
	}
	if repairing {
		m.apps.markTrouble()
	}
}

func (m *Machine) due(w wake) {
	switch w.what {
	case wakeSlot:
		if s := m.apps.slots[w.indexKey]; s != nil && s.wake != 0 && s.wake <= m.clock.now {
			s.wake = 0
			m.backlog.mark(w.indexKey)
		}
	case wakeCrashes:
		m.pruneCrashes(m.apps.app(w.indexKey.app()))
	case wakeMemory:
		m.memory.forget(w.name)
	}
}

func (m *Machine) dropIfEmpty(a *app) {
	if a.slots != nil || a.has() || m.rowLoss.rowGone(a) || m.apps.app(a.id) != a {
		return
	}
	for range m.known.Indices(a.id) {
		return
	}
	m.memory.gone(a)
	m.apps.remove(a)
}
