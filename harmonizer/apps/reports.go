package apps

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

func (m *Machine) heartbeat(ev Heartbeat) {
	err := m.known.Heartbeat(m.clock.wall, ev.Node, ev.Data)
	if err != nil {
		m.refuse(ev.Node, err)
	}
	if _, part := errors.AsType[*message.UnreadError](err); err == nil || part {
		m.limit.heartbeat(m.known.Sender())
	}
}

// collect processes the changes of the known state and returns their number. reason is that of
// an exit, "" without an exit.
func (m *Machine) collect(reason api.AppReason) int {
	changes := m.known.Changes()
	if len(changes) > perStep { // grows once instead of by doubling
		m.backlog.endings = slices.Grow(m.backlog.endings, len(changes))
	}
	for i := range changes {
		m.takeChange(&changes[i], reason)
	}
	return len(changes)
}

func (m *Machine) takeChange(c *known.Change, reason api.AppReason) {
	switch c.Kind {
	case known.NodeAppeared:
		delete(m.bus.awaited, c.Node)
		delete(m.lost, c.Node)
	case known.NodeLost:
		if len(m.lost) >= maxLost {
			maps.DeleteFunc(m.lost, func(_ message.Node, at time.Time) bool { return m.clock.wall.Sub(at) > lostFor })
		}
		if len(m.lost) < maxLost {
			m.lost[c.Node] = m.clock.wall
		}
		m.journal.addFinding(onNode(api.AppFinding{Kind: api.AppFindingNodeLost}, c.Node))
		m.limit.loseNode(c.Node)
	case known.Covered:
		m.apps.markExtras(c.App)
	case known.Appeared:
		a := m.apps.app(c.App)
		if a == nil {
			a = m.apps.ensure(c.App, m.known.Name(c.App))
		}
		if !c.Copy.Placed() {
			m.placements.addCopy(c.Copy, m.known.Name(c.App))
		}
		m.enterCopy(a, c.Copy)
		m.updates.becameReady(a, c.Copy)
		m.backlog.mark(at(c.App, c.Index))
	case known.Refused:
		m.backlog.mark(at(c.App, c.Index))
	case known.Elsewhere:
		m.senders.note(c.Node, api.WhyNotPlaced, 1, fmt.Sprintf("lists %.80s, which runs on node %v", c.Copy.ID(), c.Copy.Node()))
	case known.BecameState:
		a := m.apps.app(c.App)
		m.enterCopy(a, c.Copy)
		m.updates.becameReady(a, c.Copy)
		if !c.Copy.Placed() || !runs(c.Was) || runs(c.Copy.State()) || !m.ends(a, c, api.WhyCrashed) {
			m.backlog.mark(at(c.App, c.Index))
		}
	case known.Lost:
		if c.Why == known.Exited {
			m.dispatch.ended(at(c.App, c.Index), c.Copy)
		}
		if !c.Copy.Placed() {
			m.placements.lost(c.Copy.ID())
		}
		// Unknown copies that are lost with their nodes count for the disruption limit: most of them ran.
		counts := c.Copy.Placed() || c.Why == known.Silent && !c.Copy.Hidden()
		if !counts || !runs(c.Was) || !m.ends(m.apps.app(c.App), c, whyLost(c.Why, reason)) {
			m.backlog.mark(at(c.App, c.Index))
		}
	}
}

// How long, and at most how many, lost nodes are still reported as silent.
const (
	lostFor = 10 * time.Minute
	maxLost = 1000
)

func whyLost(w known.Why, reason api.AppReason) api.AppReason {
	switch w {
	case known.Silent:
		return api.WhyNodeLost
	case known.NotListed:
		return api.WhyNotListed
	case known.Moved:
		return api.WhyMoved
	}
	return reason
}

// ends adds an ending to the backlog. It returns false if no ending is needed; the caller then
// only marks the index.
func (m *Machine) ends(a *app, c *known.Change, why api.AppReason) bool {
	e := ending{app: a, renewed: a.renewed, index: int32(c.Index), why: why}
	e.serving = a.desires(c.Index) && c.Copy.OfVersion(a.want.Version)
	if !e.serving && why != api.WhyNotListed {
		return false
	}
	if why != api.WhyNodeLost && why != api.WhyMoved {
		e.endedCopy = &endedCopy{c.Copy.ID(), c.Copy.Version(), c.Node}
	}
	m.backlog.end(e)
	return true
}

// ended records how an index lost a copy of the live version.
func (m *Machine) ended(e ending) {
	a, index := e.app, int(e.index)
	if m.apps.app(a.id) != a {
		return
	}
	m.backlog.mark(at(a.id, index))
	if e.why == api.WhyNotListed {
		m.journal.addFinding(onNode(api.AppFinding{Kind: api.AppFindingInstanceLost, App: a.name(), Index: index, Version: e.endedCopy.version, Instance: e.endedCopy.id}, e.endedCopy.node))
	}
	if !e.serving || e.renewed != a.renewed || !a.desires(index) || serves(m.known, a, index) {
		return
	}
	s := m.apps.slot(a, index)
	switch s.cause = e.why; e.why {
	case api.WhyNodeLost, api.WhyNotListed:
		m.limit.lose(s)
	case api.WhyMoved:
	default:
		m.answered(s, e)
	}
}

// answered decides when the next start is allowed. The exit of a copy that no node listed
// answers the start that was sent. The exit of another copy does not.
func (m *Machine) answered(s *slot, e ending) {
	s.exited = append(s.exited, e.endedCopy.id)
	s.exited = s.exited[max(0, len(s.exited)-perExits):]
	if e.unlisted && e.why != api.WhyStopped {
		s.pending, s.sent = 0, 0
	}
	switch e.why {
	case api.WhyCrashed:
		m.crashed(s, e.endedCopy.id)
	case api.WhyStopped: // rule exit_stopped: under a controller, the controller starts it first
		if m.cfg.controlled() {
			s.grace = m.clock.in(*m.cfg.ResetGrace)
		}
	}
}

func (m *Machine) crashed(s *slot, id string) {
	f := api.AppFinding{Kind: api.AppFindingCrashed, Why: api.WhyCrashed, Version: s.app.want.Version, Instance: id, Detail: s.app.crashes.description(id)}
	if want := s.app.want; want.OneShot { // its failures count for ever
		f.Rule = s.backoff.failed(&m.cfg, m.clock.now, s.app.name(), s.index, want.MostRetries())
	} else {
		f.Rule = s.backoff.crashed(&m.cfg, m.clock.now, s.app.name(), s.index)
	}
	switch f.Rule {
	case api.AppRuleGiveUp:
		if f.Kind = api.AppFindingGaveUp; s.app.want.OneShot {
			f.Kind, f.Rule = api.AppFindingFailed, api.AppRuleOneShot
		}
	case api.AppRuleFlapping:
		f.Kind, f.Until = api.AppFindingFlapping, m.clock.time(s.restart)
	}
	s.hold = ""
	m.keepEnd(s)
	m.memory.markChanged(s.app)
	m.journal.addIndexFinding(s, f)
	m.updates.crashed(s.app, id)
}

// exit processes the end of a copy, even of a copy that its node never listed.
func (m *Machine) exit(ev Exit) {
	e := ev.Exited
	if m.cfg.Partition != "" && e.Partition != m.cfg.Partition {
		m.journal.addFinding(ignored(e, api.WhyOtherPartition))
		return
	}
	if e.Repeated && !m.apps.lookup(e.App).wasMissed(e) {
		return
	}
	if c, ok := m.known.Find(e.Instance); ok { // every node may report the end of an unknown copy
		if err := c.CheckExit(ev.Node); err != nil {
			m.refuse(ev.Node, err)
			return
		}
	}
	if m.cfg.mustBePlaced(ev.Node) {
		if c, ok := m.known.Find(e.Instance); !ok || !c.Placed() {
			if !m.placements.addExit(ev) {
				m.senders.note(ev.Node, api.WhyExitOfOther, 1, fmt.Sprintf("exit of %.80s of app %.80s", e.Instance, e.App))
			}
			return
		}
	}
	m.endedThere(ev)
}

// endedThere processes the end of a copy that was there.
func (m *Machine) endedThere(ev Exit) {
	e := ev.Exited
	why := whyExited(e.Reason)
	if a := m.apps.lookup(e.App); a.finishes(e) {
		why = api.WhyDone
		m.finish(a, e)
	}
	m.enterExit(ev, why)
	_, known := m.known.Exit(m.clock.wall, e)
	m.collect(why)
	if known {
		return
	}
	a := m.apps.lookup(e.App)
	if a == nil || !a.desires(e.Index) || e.Version != a.want.Version {
		m.journal.addFinding(ignored(e, api.WhyNotExpected))
		return
	}
	s := m.apps.slots[at(a.id, e.Index)]
	switch {
	case s != nil && slices.Contains(s.exited, e.Instance):
		m.journal.addFinding(ignored(e, api.WhyRepeated))
	case serves(m.known, a, e.Index):
		m.journal.addFinding(ignored(e, api.WhyStillRuns))
	default: // it ended before its node could list it
		m.backlog.end(ending{app: a, renewed: a.renewed, index: int32(e.Index),
			serving: true, unlisted: true, why: why, endedCopy: &endedCopy{id: e.Instance}})
	}
}

// refuse reports a message that is not readable, or of which a part is not.
func (m *Machine) refuse(node message.Node, err error) {
	why := api.AppReason("bad_" + message.Cause(err))
	m.journal.addFinding(onNode(api.AppFinding{Kind: api.AppFindingRefused, Why: why, Detail: err.Error()}, node))
	m.senders.note(node, why, 1, err.Error())
}

func ignored(e api.Exited, why api.AppReason) api.AppFinding {
	return api.AppFinding{Kind: api.AppFindingIgnored, Why: why, App: e.App, Index: e.Index, Version: e.Version, Instance: e.Instance}
}

func whyExited(r api.ExitReason) api.AppReason {
	switch r {
	case api.ExitCrashed:
		return api.WhyCrashed
	case api.ExitStopped:
		return api.WhyStopped
	case api.ExitShutdown:
		return api.WhyShutdown
	case api.ExitEvacuation:
		return api.WhyEvacuated
	}
	return api.WhyExited
}

// enterCopy adds a CRASHED copy to the crash table.
func (m *Machine) enterCopy(a *app, c known.Copy) {
	if c.State() != api.CopyCrashed || !c.Placed() {
		return
	}
	m.enter(a, api.AppCrash{Instance: c.ID(), Index: c.Index(), Version: c.Version(), Pool: c.Node().Pool, Node: c.Node().Name, Since: c.Since(), Reason: api.ExitCrashed})
}

// enterExit adds a crash that a node reported, unless the app is unknown. The node of the exit
// counts for a copy that no node listed yet.
func (m *Machine) enterExit(e Exit, why api.AppReason) {
	a := m.apps.lookup(e.App)
	if a == nil || why != api.WhyCrashed {
		return
	}
	node := e.Node
	if c, ok := m.known.Find(e.Instance); ok {
		node = c.Node()
	}
	m.enter(a, api.AppCrash{Instance: e.Instance, Index: e.Index, Version: e.Version, Pool: node.Pool, Node: node.Name, Since: float64(e.CrashedAt),
		Reason: e.Reason, Status: e.Status, Description: e.Description})
}

func (m *Machine) enter(a *app, c api.AppCrash) {
	first := len(a.crashes) == 0
	m.apps.recount(a, func() { a.crashes.add(c, m.clock.now) })
	if s := m.apps.slots[at(a.id, c.Index)]; s != nil && c.Instance == s.lastExit() {
		m.keepEnd(s)
	}
	if first {
		m.wakeCrashes(a)
	}
}

// keepEnd keeps how the last copy of a given-up index ended, for as long as the index is given up. The crash table has it for a while only.
func (m *Machine) keepEnd(s *slot) {
	if s.ended = nil; !s.givenUp {
		return
	}
	if c := s.app.crashes.of(s.lastExit()); c != nil {
		end := c.AppCrash
		end.At = m.clock.time(c.at).Round(0)
		end.Description = strings.ToValidUTF8(end.Description[:min(len(end.Description), maxDescription)], "")
		s.ended = &end
	}
	m.memory.markChanged(s.app)
}

func (m *Machine) pruneCrashes(a *app) {
	if a == nil || len(a.crashes) == 0 {
		return
	}
	m.apps.recount(a, func() { a.crashes.prune(m.clock.in(-m.cfg.FlappingTimeout)) })
	if len(a.crashes) > 0 {
		m.wakeCrashes(a)
	} else {
		m.backlog.mark(at(a.id, 0))
	}
}

func (m *Machine) wakeCrashes(a *app) {
	m.wakes.add(a.crashes[0].at.add(m.cfg.FlappingTimeout)+1, wake{what: wakeCrashes, indexKey: at(a.id, 0)})
}

// loseAwaited gives up, after DropletLost, the nodes of the previous leader that sent no
// heartbeat. Their copies are unknown here. So as many of the missing indices count as lost
// with them.
func (m *Machine) loseAwaited() {
	if len(m.bus.awaited) == 0 || m.clock.now <= m.bus.connectedAt.add(m.cfg.DropletLost) || m.Busy() {
		return
	}
	copies := 0
	for _, node := range slices.SortedFunc(maps.Keys(m.bus.awaited), message.Node.Compare) {
		copies += m.bus.awaited[node]
		m.journal.addFinding(onNode(api.AppFinding{Kind: api.AppFindingNodeLost, Rule: api.AppRuleFreshness}, node))
		m.limit.loseNode(node)
	}
	m.bus.awaited = nil
	for s := m.apps.first; s != nil && copies > 0; s = s.after {
		if s.category == missing && s.cause == api.WhyNew {
			m.limit.lose(s)
			copies--
		}
	}
}
