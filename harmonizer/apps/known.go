package apps

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// beyond is what makes "longer than" of "as long as".
const beyond = time.Nanosecond

// node is a machine that beats. Its copies live as long as it does.
type node struct {
	id        string
	last      time.Time // heard
	beat      uint64    // number of its beats
	instances map[string]*instance
}

func (m *Machine) heartbeat(now time.Time, hb Heartbeat) {
	n := m.nodes[hb.Node]
	if n == nil {
		n = &node{id: hb.Node, instances: make(map[string]*instance, len(hb.Beats))}
		m.nodes[n.id] = n
		m.deadlines.add(now.Add(m.cfg.DropletLost+beyond), n)
	}
	n.last = now
	n.beat++
	for _, b := range hb.Beats {
		m.beat(now, n, b)
	}
	for _, in := range n.unlisted() {
		in.absent = now
		in.waitUntil(m, now.Add(m.cfg.DropletLost+beyond))
	}
}

// unlisted returns the copies that the last beat listed no more, in order.
func (n *node) unlisted() []*instance {
	var out []*instance
	for _, in := range n.instances {
		if in.beat != n.beat && in.absent.IsZero() {
			out = append(out, in)
		}
	}
	slices.SortFunc(out, func(a, b *instance) int { return cmp.Compare(a.id, b.id) })
	return out
}

func (m *Machine) beat(now time.Time, n *node, b message.Beat) {
	in := m.instances[b.Instance]
	if in != nil && (in.slot.app.name != b.App || in.slot.index != b.Index || in.version != b.Version) {
		m.lose(now, in, WhyMoved)
		in = nil
	}
	if in == nil {
		in = &instance{id: b.Instance, version: b.Version, slot: m.app(now, b.App).slot(b.Index)}
		in.slot.copies = append(in.slot.copies, in)
		m.instances[in.id] = in
	}
	if in.node != n {
		if in.node != nil {
			delete(in.node.instances, in.id)
		}
		in.node = n
		n.instances[in.id] = in
	}
	in.beat, in.absent, in.since = n.beat, time.Time{}, b.Since
	if in.state != b.State {
		m.become(now, in, b.State)
	}
}

func (m *Machine) become(now time.Time, in *instance, state message.State) {
	s, ran := in.slot, in.state != "" && in.runs()
	s.app.recount(in, -1)
	in.state = state
	s.app.recount(in, 1)
	m.mark(s)
	if ran && !in.runs() {
		m.ended(now, in, WhyCrashed)
	}
}

// recount keeps the number of RUNNING copies of a version.
func (a *app) recount(in *instance, by int) {
	if in.state != message.Running {
		return
	}
	if a.running[in.version] += by; a.running[in.version] == 0 {
		delete(a.running, in.version)
	}
}

// lose takes a copy out of the known state.
func (m *Machine) lose(now time.Time, in *instance, why Why) {
	s, ran := in.slot, in.runs()
	s.app.recount(in, -1)
	s.copies = slices.DeleteFunc(s.copies, func(c *instance) bool { return c == in })
	delete(in.node.instances, in.id)
	delete(m.instances, in.id)
	m.mark(s)
	if ran {
		m.ended(now, in, why)
	}
}

// ended remembers how an index lost its last copy of the live version.
func (m *Machine) ended(now time.Time, in *instance, why Why) {
	s := in.slot
	if !s.app.desires(s.index) || in.version != s.app.want.Version || s.serves() {
		return
	}
	s.cause = why
	if why == WhyCrashed {
		m.crash(now, s, in.id)
	}
}

// crash decides when a crashed index may be started again. That it crashed
// answers the start that was nudged.
func (m *Machine) crash(now time.Time, s *slot, id string) {
	if now.Sub(s.crashedAt) > m.cfg.FlappingTimeout {
		s.crashes = 0
	}
	s.crashes++
	s.crashedAt, s.cause = now, WhyCrashed
	s.pending, s.restart, s.held = time.Time{}, time.Time{}, false
	f := Finding{Kind: KindCrashed, App: s.app.name, Index: s.index, Version: s.app.want.Version, Instance: id}
	if over := s.crashes - m.cfg.FlappingDeath; over > 0 {
		f.Kind = KindFlapping
		s.restart = now.Add(m.cfg.restartDelay(over))
	}
	m.note(now, s, f)
}

// restartDelay doubles with each crash over FlappingDeath, 1 being the first.
func (c Config) restartDelay(over int) time.Duration {
	d := c.MinRestartDelay
	for range over - 1 {
		if d >= c.MaxRestartDelay/2 {
			return c.MaxRestartDelay
		}
		d *= 2
	}
	return d
}

func (m *Machine) exit(now time.Time, e Exit) {
	why := whyExited(e.Reason)
	if in := m.instances[e.Instance]; in != nil && in.slot.app.name == e.App {
		in.slot.exited = in.id
		m.lose(now, in, why)
		return
	}
	f := Finding{Kind: KindIgnored, App: e.App, Index: e.Index, Version: e.Version, Instance: e.Instance}
	a := m.apps[e.App]
	if a == nil || !a.desires(e.Index) || e.Version != a.want.Version {
		f.Why = WhyNotExpected
		m.find(f)
		return
	}
	s := a.slot(e.Index)
	switch {
	case s.exited == e.Instance:
		f.Why = WhyRepeated
	case s.serves():
		f.Why = WhyStillRuns
	default: // it ended before its node could list it
		s.exited, s.cause = e.Instance, why
		if why == WhyCrashed {
			m.crash(now, s, e.Instance)
		}
		m.mark(s)
		return
	}
	m.find(f)
}

func whyExited(r message.Reason) Why {
	switch r {
	case message.ReasonCrashed:
		return WhyCrashed
	case message.ReasonStopped:
		return WhyStopped
	case message.ReasonShutdown:
		return WhyShutdown
	case message.ReasonEvacuation:
		return WhyEvacuated
	}
	return WhyExited
}

// waitUntil gives the copy a deadline, unless it has one: that comes earlier.
func (in *instance) waitUntil(m *Machine, at time.Time) {
	if !in.waits {
		in.waits = true
		m.deadlines.add(at, in)
	}
}

// due loses a copy that its living node has not listed for too long.
func (in *instance) due(m *Machine, now time.Time) {
	in.waits = false
	if m.instances[in.id] != in || in.absent.IsZero() {
		return
	}
	if at := later(in.absent, m.hearing).Add(m.cfg.DropletLost + beyond); at.After(now) {
		in.waitUntil(m, at)
		return
	}
	m.find(Finding{Kind: KindInstanceLost, App: in.slot.app.name, Index: in.slot.index,
		Version: in.version, Instance: in.id, Node: in.node.id})
	m.lose(now, in, WhyNotListed)
}

// due loses a silent node, and all its copies.
func (n *node) due(m *Machine, now time.Time) {
	if m.nodes[n.id] != n {
		return
	}
	if at := later(n.last, m.hearing).Add(m.cfg.DropletLost + beyond); at.After(now) {
		m.deadlines.add(at, n)
		return
	}
	m.find(Finding{Kind: KindNodeLost, Node: n.id})
	delete(m.nodes, n.id)
	for _, in := range n.instances {
		m.lose(now, in, WhyNodeLost)
	}
}
