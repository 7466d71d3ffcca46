package apps

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/known"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

const (
	perExplanation = 1000 // indices; bounds the size of a bus message
	perIndex       = 100  // instances of one index
	perApp         = 2000 // instances of all indices
)

// View reads a Machine without changing its decisions. Like the methods of the Machine, its
// methods must not run concurrently.
type View struct{ m *Machine }

// Complete reports whether both states are complete, and if not, why.
func (v View) Complete() (bool, string) {
	if ok, why := v.m.bus.complete(); !ok {
		return false, why
	}
	if !v.m.rows.source.isComplete {
		return false, "expected state: " + v.m.rows.source.why
	}
	return true, ""
}

// Repairing reports whether starts of what ran continue: the known state is complete, and the
// expected state was complete once.
func (v View) Repairing() bool {
	known, _ := v.m.bus.complete()
	return known && v.m.rows.source.wasComplete()
}

// PoolOf returns the pool of an app; empty without a row.
func (v View) PoolOf(name string) string {
	if a := v.m.apps.lookup(name); a != nil && a.has() {
		return a.want.Pool
	}
	return ""
}

// Silent returns the silent nodes, including those lost in the last 10 minutes, in order of
// name. While the bus is down it returns nil, because silence then means nothing.
func (v View) Silent() (nodes []api.SilentNode) {
	if !v.m.bus.up {
		return nil
	}
	for n := range v.m.known.Overdue(liveness.SilentAfter(v.m.cfg.HeartbeatPeriod)) {
		nodes = append(nodes, api.SilentNode{Pool: n.Node.Pool, Node: n.Node.Name, Copies: n.Copies, Since: n.Since, LostAt: n.Since.Add(v.m.cfg.DropletLost)})
	}
	for node, at := range v.m.lost {
		if v.m.clock.wall.Sub(at) > lostFor {
			delete(v.m.lost, node)
			continue
		}
		nodes = append(nodes, api.SilentNode{Pool: node.Pool, Node: node.Name, Since: at.Add(-v.m.cfg.DropletLost), LostAt: at})
	}
	slices.SortFunc(nodes, func(a, b api.SilentNode) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Node, b.Node)) })
	return nodes
}

// DisruptionLimit returns the state of the disruption limits.
func (v View) DisruptionLimit() api.LimitStatus {
	s := v.m.limit.status()
	v.m.rowLoss.report(&s)
	v.m.rowStops.report(&s)
	return s
}

// Apps returns every app that is desired or reported by a node, in order of name.
func (v View) Apps() []api.AppSummary {
	out := make([]api.AppSummary, 0, len(v.m.apps.list))
	for _, a := range v.m.apps.list {
		if a != nil {
			out = append(out, a.summary())
		}
	}
	slices.SortFunc(out, func(a, b api.AppSummary) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Halted returns the apps whose update is halted, in order of name.
func (v View) Halted() (all []api.HaltedApp) {
	for _, a := range v.m.apps.list {
		if a == nil || a.row != rowPresent || a.update.halted == nil {
			continue
		}
		all = append(all, api.HaltedApp{App: a.name(), Pool: a.want.Pool, HaltedUpdate: *a.update.halted})
	}
	slices.SortFunc(all, func(a, b api.HaltedApp) int { return cmp.Compare(a.App, b.App) })
	return all
}

// Explain returns the state of an app, and whether the app is known.
func (v View) Explain(now time.Time, name string) (api.AppExplanation, bool) {
	a := v.m.apps.lookup(name)
	if a == nil {
		return api.AppExplanation{}, false
	}
	v.m.clock.set(now)
	e := api.AppExplanation{AppSummary: a.summary()}
	var indices []int
	indices, e.Omitted = v.explained(a)
	room := perApp
	for _, index := range indices {
		st := v.status(a, index, min(room, perIndex))
		room -= len(st.Instances)
		e.Indices = append(e.Indices, st)
	}
	return e, true
}

// explained returns the indices to explain, in order, and the number of omitted ones.
func (v View) explained(a *app) (indices []int, omitted int) {
	var beyond []int // not desired, but with a copy
	for index := range v.m.known.Indices(a.id) {
		if !a.desires(index) {
			beyond = append(beyond, index)
		}
	}
	total := a.expected() + len(beyond)
	if total <= perExplanation {
		for index := range a.expected() {
			indices = append(indices, index)
		}
		return append(indices, beyond...), 0
	}
	indices = v.troubled(a)
	indices = indices[:min(len(indices), perExplanation)]
	chosen := indices
	for index := 0; index < a.expected() && len(indices) < perExplanation; index++ {
		if _, yes := slices.BinarySearch(chosen, index); !yes {
			indices = append(indices, index)
		}
	}
	slices.Sort(indices)
	return indices, total - len(indices)
}

// troubled returns the indices of an app that are not as they should be, in order. They
// include every undesired index with a running copy.
func (v View) troubled(a *app) (indices []int) {
	for s := a.slots; s != nil; s = s.next {
		if s.extra > 0 || a.desires(s.index) && s.category != running {
			indices = append(indices, s.index)
		}
	}
	slices.Sort(indices)
	return indices
}

// Flapping returns the indices of an app that wait for a delayed restart or were given up,
// with the time of their last crash. It returns nil if version is not the live version.
func (v View) Flapping(name, version string) map[int]time.Time {
	a := v.m.apps.lookup(name)
	if a == nil || a.want.Version != version {
		return nil
	}
	out := map[int]time.Time{}
	for s := a.slots; s != nil; s = s.next {
		if s.cause == api.WhyCrashed && v.m.rules.judge(a, s.index, s).category == flapping {
			out[s.index] = v.m.clock.time(s.crashedAt)
		}
	}
	return out
}

// Healthy returns the number of desired indices with a RUNNING copy of that version.
func (v View) Healthy(name, version string) (n int) {
	a := v.m.apps.lookup(name)
	if a == nil {
		return 0
	}
	for index := range v.m.known.Indices(a.id) {
		for c := range v.m.known.Copies(a.id, index) {
			if a.desires(index) && c.State() == api.CopyRunning && c.OfVersion(version) {
				n++
				break
			}
		}
	}
	return n
}

func (a *app) summary() api.AppSummary {
	s := api.AppSummary{
		Name:     a.name(),
		Expected: a.has(),
		Version:  a.want.Version,
		OneShot:  a.want.OneShot,
		State:    a.want.State,
		Package:  a.want.Package,
		Labels:   a.want.Labels,
		Updated:  a.want.Updated,
		Count:    a.counts(),
	}
	if a.pool != nil {
		s.Pool = a.want.Pool
	}
	if u := a.update; a.row == rowPresent && (u.halted != nil || updating(a)) {
		s.Update = &api.AppUpdate{From: u.complete, To: a.given.Version, Ready: len(u.ready), Halted: u.halted}
	}
	switch {
	case a.row == rowUnreadable:
		s.Problem = "its row is unreadable"
	case a.stale:
		s.Problem = "its row is older than its last change"
	}
	return s
}

// Size returns how many indices and copies of an app an explanation covers.
func (v View) Size(name string) int {
	a := v.m.apps.lookup(name)
	if a == nil {
		return 0
	}
	return a.expected() + v.m.known.CopiesOf(a.id)
}

// status explains an index, with at most room instances. It changes nothing.
func (v View) status(a *app, index, room int) api.IndexStatus {
	st := api.IndexStatus{Index: index, Desired: a.desires(index)}
	s := slot{app: a, index: index, cause: api.WhyNew}
	if is := v.m.apps.slots[at(a.id, index)]; is != nil {
		s = *is
		s.liveCopies.listed = maps.Clone(is.liveCopies.listed) // rule duplicate changes them
	}
	l := v.m.rules.judge(a, index, &s)
	v.explainStart(&st, l)
	listed, omitted := v.listed(a, index, l.surplus, room)
	for _, c := range listed {
		st.Instances = append(st.Instances, v.instance(l, c))
	}
	st.Omitted = omitted
	slices.SortFunc(st.Instances, func(a, b api.AppInstance) int { return cmp.Compare(a.ID, b.ID) })
	return st
}

// listed returns at most room copies of an index, those that should not run first, and the
// number of omitted ones.
func (v View) listed(a *app, index int, surplus []surplus, room int) (copies []known.Copy, omitted int) {
	for _, s := range surplus[:min(len(surplus), room)] {
		copies = append(copies, s.copy)
	}
	extra, all := copies, 0
	for c := range v.m.known.Copies(a.id, index) {
		all++
		if len(copies) < room && !slices.Contains(extra, c) {
			copies = append(copies, c)
		}
	}
	return copies, all - len(copies)
}

func (v View) explainStart(st *api.IndexStatus, l *evaluation) {
	s := l.slot
	st.Missing, st.LastAt, st.CrashedAt = v.m.clock.time(s.missing), v.m.clock.time(s.noteAt), v.m.clock.time(s.crashedAt)
	st.Crashes, st.GivenUp, st.Flapping = s.crashes, s.givenUp, l.category == flapping
	st.Done = l.category == done
	if s.note != nil {
		st.Last = new(*s.note)
	}
	if l.start == "" {
		return
	}
	if s.missing != 0 {
		st.NotBefore = v.m.clock.time(max(s.pending, s.restart))
	}
	h, held := l.holdStart(explaining)
	if !held {
		h, _ = v.m.gate.starts()
	}
	st.Rule, st.Why, st.Until = h.rule, h.why, v.m.clock.time(h.until)
}

func (v View) instance(l *evaluation, c known.Copy) api.AppInstance {
	in := api.AppInstance{ID: c.ID(), Pool: c.Node().Pool, Node: c.Node().Name, Version: c.Version(), State: c.State(), Since: c.Since(),
		Unready: c.State() == api.CopyRunning && !c.Ready()}
	in.Absent, _ = c.Absent()
	if age := c.Silence(v.m.clock.wall); c.Received() && age > liveness.SilentAfter(v.m.cfg.HeartbeatPeriod) {
		in.Silent = v.m.clock.wall.Add(-age)
	}
	x := l.slot.find(in.ID)
	in.Stopped = x != nil && x.until != 0
	if s := l.surplusOf(c); s != nil {
		in.Extra = s.rule
		h, held := l.holdStop(s, x, explaining)
		if !held {
			h = v.m.gate.stops()
		}
		in.Rule, in.Why, in.Until = h.rule, h.why, v.m.clock.time(h.until)
	}
	return in
}

// Crashed reports whether an app has an index (-1: whether the app exists), and whether Retry
// of it would change anything.
func (v View) Crashed(name string, index int) (known, crashed bool) {
	a := v.m.apps.lookup(name)
	if a == nil {
		return false, false
	}
	known = index < 0 || a.desires(index)
	for s := a.slots; s != nil; s = s.next {
		if index < 0 || s.index == index {
			known, crashed = true, crashed || s.crashes > 0
		}
	}
	return known, crashed
}

// Crashes returns the crash table of an app, oldest first. It has at most 100 lines, all
// within FlappingTimeout. Before them are at most 100 lines of given-up indices, whose last crash is longer ago.
func (v View) Crashes(name string) []api.AppCrash {
	a := v.m.apps.lookup(name)
	if a == nil {
		return nil
	}
	var out []api.AppCrash
	for _, c := range a.ends() {
		if one := a.crashes.of(c.Instance); one == nil || one.at.add(v.m.cfg.FlappingTimeout) < v.m.clock.now {
			out = append(out, c)
		}
	}
	out = out[max(0, len(out)-perTable):]
	for _, c := range a.crashes {
		if c.at.add(v.m.cfg.FlappingTimeout) >= v.m.clock.now {
			c.At = v.m.clock.time(c.at)
			out = append(out, c.AppCrash)
		}
	}
	return out
}
