package judge

import (
	"container/heap"
	"time"
)

// NodeState is how a node stands; doc.go has the diagram.
type NodeState string

const (
	Fresh       NodeState = "new"          // nothing is known, or it is starting
	Healthy     NodeState = "ok"           // fit
	Suspect     NodeState = "suspect"      // it fails, and that is tolerated for a while
	Unhealthy   NodeState = "unhealthy"    // it fails: a candidate
	Claimed     NodeState = "claimed"      // chosen, and re-checked
	Fencing     NodeState = "fencing"      // made harmless, to be replaced
	Recovering  NodeState = "recovering"   // an action is under way, or the next one waits at a gate
	Verifying   NodeState = "verifying"    // an action is through: is it fit?
	Quarantined NodeState = "quarantined"  // every repair failed: set aside for a window
	FenceFailed NodeState = "fence_failed" // it may be alive: held until it is known not to be
)

// Known reports whether s is one of the states above.
func (s NodeState) Known() bool {
	return s == Fresh || s == Healthy || s == Suspect || s.unfit()
}

func (s NodeState) unfit() bool {
	return s == Unhealthy || s.holdsPlace() || s == Quarantined || s == FenceFailed
}

// holdsPlace reports whether a repair is in progress.
func (s NodeState) holdsPlace() bool {
	return s == Claimed || s == Fencing || s == Recovering || s == Verifying
}

// node is what is known of one machine.
type node struct {
	Node
	pass     uint64 // the last list that had it
	missing  int    // lists in a row that did not
	down     int    // lists in a row that had it stopped or terminated
	unlisted bool   // a replacement that no list had yet

	state   NodeState
	since   time.Time // of the state
	failing time.Time // since then it fails, at least
	until   time.Time // of the quarantine

	evidence

	asked     string // who wants it repaired
	repair    *Repair
	replaced  bool
	blocked   Gate
	notBefore time.Time // a claim that nobody confirmed is not repeated before

	counted tally
	wake    time.Time // the entry in wakes that counts; zero: none
}

// list compares the provider's list with what is known.
func (j *Judge) list(now time.Time, ev Nodes) {
	j.pass++
	for _, listed := range ev.List {
		n, known := j.nodes[listed.ID]
		switch {
		case listed.ID == "":
			j.journal.find(ignored("", "a listed node without an id"))
			continue
		case !known:
			n = j.add(now, listed)
		case n.pass == j.pass:
			j.journal.find(ignored(listed.ID, "a node that is listed twice"))
			continue
		}
		changed := !known || n.Node != listed || n.missing > 0 || n.unlisted
		n.Node, n.pass, n.missing, n.unlisted = listed, j.pass, 0, false
		if n.lie(ev.Again); changed || n.down == 2 {
			j.evaluate(now, n)
		}
	}
	if len(j.nodes) > len(ev.List) && !ev.Again {
		j.miss(now)
	}
	j.safety.lineages.forget(now, func(id string) bool { return j.nodes[id] != nil })
}

// lie counts the lists in a row that say that the machine does not run.
func (n *node) lie(again bool) {
	switch {
	case n.State != Stopped && n.State != Terminated:
		n.down = 0
	case !again:
		n.down++
	}
}

// harmless reports whether the machine is known not to run. Where it holds an identity
// that no other may have, one list is not enough: it may be an old one, nor is it that
// the machine is not listed any more.
func (j *Judge) harmless(n *node) bool {
	alone := j.exclusive || n.Exclusive != ""
	return (n.State == Terminated || n.State == Stopped) && (n.down > 1 || !alone)
}

func (j *Judge) add(now time.Time, listed Node) *node {
	n := &node{Node: listed, state: Fresh, since: now}
	n.begin(now, len(j.modes))
	j.nodes[n.ID] = n
	return n
}

// miss forgets what is not listed any more.
func (j *Judge) miss(now time.Time) {
	for _, n := range byID(j.nodes) {
		if n.pass == j.pass || n.unlisted {
			continue
		}
		n.missing++
		if n.missing < 2 {
			j.evaluate(now, n)
			continue
		}
		if n.repair != nil && n.repair.Action.Name == Recreate && n.state != Claimed {
			n.State = Terminated // which is what is waited for
			j.evaluate(now, n)
			continue
		}
		if n.repair != nil {
			j.journal.find(Finding{Event: RepairEnded, Node: n.ID, Zone: n.Zone, Action: n.repair.Action.Name, Attempt: n.repair.Attempt, Why: "the node is gone"})
			j.ended(now, n)
		}
		j.drop(n)
	}
}

// drop forgets a node that does not exist any more.
func (j *Judge) drop(n *node) {
	j.journal.find(Finding{Event: NodeGone, Node: n.ID, Zone: n.Zone})
	delete(j.nodes, n.ID)
	delete(j.ill, n.ID)
	delete(j.active, n.ID)
	j.safety.breakers.count(&n.counted, tally{})
	j.safety.budget.give(n.ID)
	n.wake = time.Time{}
}

// to enters a state.
func (j *Judge) to(now time.Time, n *node, state NodeState) {
	if n.state == state {
		return
	}
	n.state, n.since = state, now
	delete(j.ill, n.ID)
	delete(j.active, n.ID)
	switch {
	case state == Unhealthy || state == FenceFailed:
		j.ill[n.ID] = n
	case state.holdsPlace():
		j.active[n.ID] = n
	}
	j.outOfService(n)
	j.count(now, n)
}

// outOfService counts the node in the budget while its repair has it out of service.
func (j *Judge) outOfService(n *node) {
	if n.repair != nil && n.repair.TookOut && n.state.holdsPlace() {
		j.safety.budget.take(n.ID)
		return
	}
	j.safety.budget.give(n.ID)
}

// young reports whether the node is within its grace.
func (j *Judge) young(now time.Time, n *node) bool {
	return !n.Since.IsZero() && now.Sub(n.Since) < j.grace
}

// count has the breakers count the node as what it is now.
func (j *Judge) count(now time.Time, n *node) { j.safety.breakers.count(&n.counted, j.tally(now, n)) }

// tally returns what the node is to be counted as.
func (j *Judge) tally(now time.Time, n *node) tally {
	t := tally{zone: n.Zone}
	t.listed = !n.unlisted && n.missing == 0 && !n.replaced && n.State != Leaving
	t.eligible = t.listed && n.State != Spot && n.state != Quarantined &&
		(n.state != Fresh || !j.young(now, n)) && len(j.safety.pauses[n.ID]) == 0
	t.sick = t.eligible && (n.state == Suspect || n.state.unfit()) && !n.wished()
	t.blind = t.eligible && n.blind
	t.eligible = t.eligible && !n.blind // who is not seen says nothing of how many are fit
	return t
}

// outBy reports whether the action takes the node out of service: one that serves,
// without another in its place.
func (n *node) outBy(now time.Time, d *detection, a Action) bool {
	if n.repair != nil && n.repair.TookOut {
		return true
	}
	if n.State != Running || a.Name == Start || a.Name == Recreate && *a.Params.LaunchFirst {
		return false
	}
	return n.serves(now, d, &n.Node)
}

// nextWake returns when time alone may change the node: zero if never.
func (n *node) nextWake(now time.Time, d *detection) time.Time {
	w := soonest{now: now}
	n.wakeAt(&w, d, &n.Node)
	if !n.Since.IsZero() {
		w.add(n.Since.Add(d.grace))
	}
	if n.eager == Fail && !n.failing.IsZero() {
		w.add(n.failing.Add(d.tolerate))
	}
	w.add(n.until)
	return w.at
}

// soonest is the first of some instants after now; zero without any.
type soonest struct{ now, at time.Time }

func (s *soonest) add(t time.Time) {
	if t.After(s.now) && (s.at.IsZero() || t.Before(s.at)) {
		s.at = t
	}
}

// wakes is a heap of the nodes that time alone may change, the earliest first. A
// node has one entry that counts, that of its wake.
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

// add has the node looked at by then; an earlier entry is left to find out that
// nothing is due.
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

// wished reports whether the node is a candidate only because somebody wants it to be:
// it is no sign of trouble.
func (n *node) wished() bool {
	return n.asked != "" && n.state == Unhealthy && n.verdict == OK && n.repair == nil
}
