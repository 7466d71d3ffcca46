package apps

import (
	"maps"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
)

// confirm reports whether all of a nudge is still right, and does not repeat one sent
// meanwhile. If so, its keep-alive starts now.
func (d *dispatch) confirm(n Nudge) bool {
	_, closed := d.gate.closed()
	switch {
	case closed:
	case n.Start != nil && d.startStands(n.Start):
		d.startSent(n.Start)
		return true
	case n.Stop != nil && d.gate.acting && d.gate.limit.state == api.LimitOff && d.stopStands(n.Stop):
		d.stopSent(n.Stop)
		return true
	}
	return false
}

func (d *dispatch) startStands(n *api.Start) bool {
	a := d.apps.lookup(n.App)
	if a == nil || a.pass < d.rows.source.whole || a.want.Version != n.Version {
		return false
	}
	for _, index := range n.Indices {
		l := d.rules.judge(a, index, d.apps.slots[at(a.id, index)])
		if _, held := l.holdStart(confirming); held || l.start == "" {
			return false
		}
	}
	return true
}

// stopStands ignores copies that are gone: their stop is harmless.
func (d *dispatch) stopStands(n *api.Stop) bool {
	a := d.apps.lookup(n.App)
	for id := range n.Instances {
		c, there := d.known.Find(id)
		if !there {
			continue
		}
		if a == nil || c.App() != a.id {
			return false
		}
		l := d.rules.judge(a, c.Index(), d.apps.slots[at(a.id, c.Index())])
		extra := l.surplusOf(c)
		if extra == nil {
			return false
		}
		_, x := d.stopOf(id)
		if _, held := l.holdStopOf(len(n.Instances), extra, x, confirming); held {
			return false
		}
	}
	return true
}

func (d *dispatch) startSent(start *api.Start) {
	a := d.apps.lookup(start.App)
	for _, index := range start.Indices {
		if s := d.apps.slots[at(a.id, index)]; s != nil {
			s.sent = d.clock.in(d.cfg.startKeepAlive())
			s.pending = max(s.pending, s.sent)
		}
	}
}

func (d *dispatch) stopSent(stop *api.Stop) {
	for id := range stop.Instances {
		if _, x := d.stopOf(id); x != nil {
			x.sent = d.clock.in(d.cfg.NudgeKeepAlive)
			x.until = max(x.until, x.sent)
		}
	}
}

// notSent takes back nudges of an earlier Step. They are due again with the same priority and
// order, before the other queued nudges of their app. The keep-alive of an earlier nudge that
// was sent stays.
func (d *dispatch) notSent(ev NotSent) {
	for _, n := range slices.Backward(ev.Nudges) {
		if n.Start != nil {
			d.startsNotSent(n.Start, ev.Confirmed)
		}
		if n.Stop != nil {
			d.stopsNotSent(n.Stop, ev.Confirmed)
		}
	}
}

func (d *dispatch) startsNotSent(start *api.Start, confirmed bool) {
	a := d.apps.lookup(start.App)
	if a == nil || start.Version != a.want.Version {
		return
	}
	for _, index := range slices.Backward(start.Indices) {
		s := d.apps.slots[at(a.id, index)]
		if s == nil || s.missing == 0 || s.pending == 0 {
			continue
		}
		if confirmed {
			s.sent = 0
		}
		s.pending = s.sent
		if start.Flapping {
			s.restart = 0
		}
		d.memory.markChanged(a)
		d.starts.PushFront(uint32(a.id), s.indexKey(), priority(s.start))
		d.apps.backlog.mark(s.indexKey())
	}
}

func (d *dispatch) stopsNotSent(stop *api.Stop, confirmed bool) {
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(stop.Instances))) {
		s, x := d.stopOf(id)
		if x == nil || x.rule == "" {
			continue
		}
		if confirmed {
			x.sent = 0
		}
		x.until = x.sent
		d.memory.markChanged(s.app)
		d.stops.PushFront(uint32(s.app.id), stopKey{s.indexKey(), id}, priority(x.rule))
		d.apps.backlog.mark(s.indexKey())
	}
}

// stopOf returns the slot of a copy and the nudge for its stop, or nil.
func (d *dispatch) stopOf(id string) (*slot, *extra) {
	if c, ok := d.known.Find(id); ok {
		if s := d.apps.slots[at(c.App(), c.Index())]; s != nil {
			return s, s.find(id)
		}
	}
	return nil, nil
}

// sentByOther processes a nudge of another harmonizer. It counts as our own.
func (d *dispatch) sentByOther(n Nudge) {
	if n.Start != nil {
		if a := d.apps.lookup(n.Start.App); a != nil && n.Start.Version == a.want.Version {
			d.startedByOther(a, n.Start.Indices)
		}
	}
	if n.Stop != nil {
		a := d.apps.lookup(n.Stop.App)
		for id := range n.Stop.Instances {
			if c, ok := d.known.Find(id); ok && a != nil && c.App() == a.id {
				d.memory.stopByOther(d.apps.slot(a, c.Index()), id, d.clock.in(d.cfg.NudgeKeepAlive))
			}
		}
	}
}

func (d *dispatch) startedByOther(a *app, indices []int) {
	for _, index := range indices {
		if !a.desires(index) {
			continue
		}
		s := d.apps.slot(a, index)
		s.nudged, s.pending = d.clock.now, max(s.pending, d.clock.in(d.cfg.startKeepAlive()))
		if s.cause == api.WhyCrashed && s.crashes > *d.cfg.FlappingDeath && !s.givenUp {
			s.restart = max(s.restart, d.clock.in(s.delay(d.cfg, s.app.name(), s.index)))
		}
		d.memory.markChanged(a)
		d.apps.backlog.mark(s.indexKey())
	}
}
