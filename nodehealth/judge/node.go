package judge

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

func isUnfit(s api.HealthState) bool {
	return s == api.StateUnhealthy || isInRepair(s) || s == api.StateQuarantined || s == api.StateHeld || s == api.StateFenceFailed
}

// isInRepair reports whether a repair is in progress.
func isInRepair(s api.HealthState) bool {
	return s == api.StateClaimed || s == api.StateFencing || s == api.StateRecovering || s == api.StateVerifying
}

// node is the state of one machine.
type node struct {
	Node
	pass     uint64 // number of the last list that had it
	missing  int    // lists in a row without it
	down     int    // lists in a row that had it stopped or terminated
	unlisted bool   // a replacement that is not in any list yet

	state   api.HealthState
	since   time.Time // start of the state
	failing time.Time // it fails since then, or longer
	cause   string    // why it was found unhealthy
	until   time.Time // end of the quarantine or of the hold
	// fitSince is when a quarantined node became healthy without a failure. Zero: it is not
	// healthy.
	fitSince time.Time
	spent    string // the repairs that led to the quarantine or the hold

	evidence

	request
	repair    *Repair
	replaced  bool
	blocked   api.Gate
	notBefore time.Time // earliest time of the next claim, after one that was not confirmed

	counted tally
	wake    time.Time // time of the valid entry in wakes; zero: no entry
}

// countDownLists counts the lists in a row in which the machine does not run.
func (n *node) countDownLists(again bool) {
	switch {
	case n.State != Stopped && n.State != Terminated:
		n.down = 0
	case !again:
		n.down++
	}
}

func (n *node) finding(event api.HealthEvent, why string) api.HealthFinding {
	return api.HealthFinding{Event: event, Node: n.ID, Zone: n.Zone, Why: why}
}

// confirmedDown reports whether the machine is confirmed not to run. In an exclusive pool that takes two
// lists in a row: one list may be old, and a machine that is not listed may still run.
func (n *node) confirmedDown(r *rules) bool {
	return (n.State == Terminated || n.State == Stopped) && (n.down > 1 || !r.exclusive)
}

func (n *node) inGrace(now time.Time, r *rules) bool {
	return !n.Since.IsZero() && now.Sub(n.Since) < r.grace
}

// candidate returns the state of a node that waits for a repair. It is Requested if the node does
// not fail and an operator requests the repair.
func (n *node) candidate() api.HealthState {
	if n.requester != "" && n.verdict != api.CheckFail && (n.verdict == api.CheckOK || !n.failed()) {
		return api.StateRequested
	}
	return api.StateUnhealthy
}

// canHelp reports whether the action can help the node. An in-place repair does not avert an end that
// the provider has announced.
func (n *node) canHelp(a Action) bool {
	elsewhere := a.Name == api.ActionRecreate || a.Name == api.ActionWorkflow
	return a.canHelp(n.State) && (elsewhere || !n.planned || n.requester != "")
}

// fencedBy reports whether the node is fenced before the action.
func (n *node) fencedBy(r *rules, a Action) bool {
	return a.Name == api.ActionRecreate && len(r.fencing) > 0 && (n.repair == nil || !n.repair.Fenced) && !n.confirmedDown(r)
}

// outBy reports whether the action, or the fencing before it, takes a serving node out of service
// before its replacement joins.
func (n *node) outBy(now time.Time, d *detection, a Action) bool {
	if n.repair != nil && n.repair.TookOut {
		return true
	}
	stays := a.Name == api.ActionStart || a.Name == api.ActionRecreate && *a.Params.LaunchFirst && !n.fencedBy(d.rules, a)
	if n.State != Running || stays {
		return false
	}
	return n.serves(now, d, &n.Node)
}

// nextWake returns when time alone may change the node. Zero means never.
func (n *node) nextWake(now time.Time, d *detection) time.Time {
	w := soonest{now: now}
	n.wakeAt(&w, d, &n.Node)
	if !n.Since.IsZero() {
		w.add(n.Since.Add(d.grace))
	}
	if n.provisional == api.CheckFail && !n.failing.IsZero() {
		w.add(n.failing.Add(n.patience.wait))
	}
	w.add(n.until)
	if !n.fitSince.IsZero() {
		w.add(n.fitSince.Add(d.healthyFor))
	}
	return w.at
}

// soonest is the earliest of some instants after now, and zero without any.
type soonest struct{ now, at time.Time }

func (s *soonest) add(t time.Time) {
	if t.After(s.now) && (s.at.IsZero() || t.Before(s.at)) {
		s.at = t
	}
}

// roster holds the nodes of a pool, by id.
type roster struct {
	detection *detection
	safety    *safety // counts the nodes
	journal   *journal

	all          map[string]*node
	waitingNodes map[string]*node // Requested, Unhealthy, Held or FenceFailed
	active       map[string]*node // with a repair in progress
	wakes        wakes
}

func newRoster(d *detection, s *safety, l *journal) roster {
	return roster{detection: d, safety: s, journal: l, all: map[string]*node{}, waitingNodes: map[string]*node{}, active: map[string]*node{}}
}

// addNode adds a node without observations.
func (ro *roster) addNode(now time.Time, listed Node) *node {
	n := &node{Node: listed, state: api.StateFresh, since: now}
	n.begin(now, len(ro.detection.modes))
	ro.all[n.ID] = n
	return n
}

func (ro *roster) drop(n *node) {
	ro.journal.addFindings(n.finding(api.HealthNodeGone, ""))
	delete(ro.all, n.ID)
	delete(ro.waitingNodes, n.ID)
	delete(ro.active, n.ID)
	ro.safety.breakers.count(&n.counted, tally{})
	delete(ro.safety.budget.out, n.ID)
	n.wake = time.Time{}
}

func (ro *roster) setState(now time.Time, n *node, state api.HealthState) {
	if n.state == state {
		return
	}
	n.state, n.since = state, now
	delete(ro.waitingNodes, n.ID)
	delete(ro.active, n.ID)
	switch {
	case state == api.StateRequested || state == api.StateUnhealthy || state == api.StateHeld || state == api.StateFenceFailed:
		ro.waitingNodes[n.ID] = n
	case isInRepair(state):
		ro.active[n.ID] = n
	}
	ro.budgeted(n)
	ro.count(now, n)
}

func (ro *roster) count(now time.Time, n *node) {
	ro.safety.breakers.count(&n.counted, ro.tally(now, n))
}

func (ro *roster) tally(now time.Time, n *node) tally {
	t := tally{zone: n.Zone}
	t.listed = !n.unlisted && n.missing == 0 && !n.replaced && n.State != Leaving
	t.eligible = t.listed && n.State != Spot &&
		(n.state != api.StateFresh || !n.inGrace(now, ro.detection.rules)) && len(ro.safety.pauses.ofNode(n.ID)) == 0
	t.unhealthy = t.eligible && !n.works && (n.state == api.StateSuspect || isUnfit(n.state))
	t.partly = t.listed && n.partly != ""
	t.noData = t.eligible && n.noData
	t.eligible = t.eligible && !n.noData // without a verdict it is not evidence of health
	return t
}

func (ro *roster) assess(now time.Time, n *node) {
	n.assess(now, ro.detection, &n.Node)
	if n.newlyVetoed(now, ro.detection) {
		ro.journal.addFindings(n.finding(api.HealthCheckVetoed, n.veto+": vetoed by an ok heartbeat"))
	}
	if n.losesData(now, ro.detection) {
		ro.journal.addFindings(n.finding(api.HealthCheckUnknown, "no verdict for "+ro.detection.noData.String()))
	}
}

func (ro *roster) settle(now time.Time, n *node) {
	ro.count(now, n)
	ro.wakes.add(n, n.nextWake(now, ro.detection))
}

// wakes is a heap of the nodes that time alone may change, the earliest first. A node has one valid
// entry, that of its wake.
type wakes []wake

type wake struct {
	at time.Time
	n  *node
}

func (w wakes) Len() int { return len(w) }
func (w wakes) Less(i, k int) bool {
	if c := w[i].at.Compare(w[k].at); c != 0 {
		return c < 0
	}
	return w[i].n.ID < w[k].n.ID
}
func (w wakes) Swap(i, k int) { w[i], w[k] = w[k], w[i] }
func (w *wakes) Push(x any)   { *w = append(*w, x.(wake)) }
func (w *wakes) Pop() any {
	old := *w
	last := old[len(old)-1]
	old[len(old)-1] = wake{}
	*w = old[:len(old)-1]
	return last
}

// add schedules an evaluation of the node. A valid earlier entry stays, and its evaluation
// schedules the next one.
func (w *wakes) add(n *node, at time.Time) {
	if at.IsZero() || !n.wake.IsZero() && !at.Before(n.wake) {
		return
	}
	n.wake = at
	heap.Push(w, wake{at, n})
}

func (w *wakes) next(now time.Time) (*node, bool) {
	for len(*w) > 0 && !(*w)[0].at.After(now) {
		due := heap.Pop(w).(wake)
		if due.at.Equal(due.n.wake) {
			due.n.wake = time.Time{}
			return due.n, true
		}
	}
	return nil, false
}

func byID(nodes map[string]*node) []*node {
	return slices.SortedFunc(maps.Values(nodes), func(a, b *node) int { return cmp.Compare(a.ID, b.ID) })
}
