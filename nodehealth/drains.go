package nodehealth

import (
	"cmp"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/drain"
)

const (
	// drainOwner is the owner of the pauses that drains take.
	drainOwner = "drain"
	// poolOwner is the owner of the pause that a pool's own one is.
	poolOwner = "operator (weir pause)"
	// poolPause is how long that lasts without being renewed.
	poolPause = time.Hour
	// drainGrace is how long such a pause lasts beyond the deadline of its drain.
	drainGrace = time.Minute
	// drainRoom is how many events of drains may wait; after that the records tell.
	drainRoom = 10_000
	// longestLook bounds how long a repair may have no record before it is taken for
	// ended: its last event may be on its way.
	longestLook = 15 * time.Second
)

// Drained is told what happened to drain records, in order. It does not wait.
func (l *Loop) Drained(events []drain.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := max(0, drainRoom-len(l.drained))
	l.drained = append(l.drained, events[:min(room, len(events))]...)
	if len(events) > room {
		l.mail.lost.add("drain events", len(events)-room)
	}
}

// takeDrained tells the judge what came of repairs.
func (l *Loop) takeDrained(now time.Time) {
	l.mu.Lock()
	events := l.drained
	l.drained = nil
	l.mu.Unlock()
	gone := map[string]bool{}
	for _, ev := range events {
		if l.inventory.has(ev.Node) && ev.To == drain.Gone && ev.Reason != drain.Repair {
			gone[ev.Node] = true
		}
		if e := l.efforts[ev.Attempt]; ev.Attempt != "" && e != nil && e.cancel != nil {
			e.handed = true
			l.recordMoved(now, e, ev)
		}
	}
	if len(gone) > 0 {
		l.step(now, l.inventory.left(gone))
	}
}

// recordMoved looks whether a step of a record is the end of its repair.
func (l *Loop) recordMoved(now time.Time, e *effort, ev drain.Event) {
	replaced := e.order.Action.Name == judge.Recreate
	out := judge.Outcome{Step: judge.StepDone, Reason: cmp.Or(ev.Failed, ev.Why)}
	switch {
	case ev.To == drain.Gone && replaced:
		if e.gone.IsZero() {
			e.gone, e.stage = now, "its replacement is looked for"
		}
		return
	case ev.Failed != "":
	case ev.To == drain.Gone:
		out.Reason = "the machine is gone"
	case ev.To == drain.Returned:
		out.OK = !replaced
	default:
		return
	}
	l.came(now, e, out)
}

// reconcile looks after what the autoscaler has been handed: how far it is, and what
// became of that whose end was not told.
func (l *Loop) reconcile(now time.Time) {
	if len(l.efforts) == 0 {
		return
	}
	of := map[string]drain.Record{}
	records, known := l.world.Drains.Records()
	for _, r := range records {
		if r.Attempt != "" {
			of[r.Attempt] = r
		}
	}
	for attempt, e := range l.efforts {
		switch r, kept := of[attempt]; {
		case e.cancel != nil && !l.judge.Awaits(e.order.Node, attempt):
			e.cancel()
			delete(l.efforts, attempt)
		case !e.handed || !known || !l.inventory.listed:
		case !e.gone.IsZero():
			l.replaced(now, e)
		case kept:
			e.absent, e.stage = time.Time{}, string(r.State)
			l.force(now, e, r)
		case e.absent.IsZero():
			e.absent = now
		case now.Sub(e.absent) >= min(longestLook, time.Duration(*l.policy.Detection.Interval)/2):
			l.unseen(now, e)
		}
	}
}

// unseen decides what came of a repair whose record is there no more, and whose end was
// not told.
func (l *Loop) unseen(now time.Time, e *effort) {
	m, there := l.inventory.machines[e.order.Node]
	switch {
	case e.order.Action.Name != judge.Recreate:
		l.came(now, e, judge.Outcome{Step: judge.StepDone, OK: true, Reason: "it was under way when the autoscaler changed: judged by how the node is now"})
	case !there:
		e.gone = now
		l.replaced(now, e)
	case m.state != pools.InstanceTerminating:
		l.came(now, e, judge.Outcome{Step: judge.StepUndone, Reason: "the autoscaler has no record of it, and the machine is there"})
	}
}

// force goes on with a replacement though the end of the old machine was not seen, where
// the policy says so, just before it is too late.
func (l *Loop) force(now time.Time, e *effort, r drain.Record) {
	if l.policy.Recovery.NodeForceRecreate && e.order.Action.Name == judge.Recreate && r.State == drain.Terminating &&
		e.order.Deadline.Sub(now) <= 2*tickEvery {
		e.gone = now
		l.replaced(now, e)
	}
}

// replaced names the replacement of a node that is gone: the first machine that was
// launched since, and that is nobody else's. Without one, after a round, the provider's
// list is what tells.
func (l *Loop) replaced(now time.Time, e *effort) {
	since := e.began.Truncate(time.Second) // providers tell a launch by the second
	id := l.inventory.replacement(e.order.Node, since)
	patience := time.Duration(*l.policy.Detection.Interval) * 5 / 4
	if id == "" && now.Sub(e.gone) < patience && e.order.Deadline.Sub(now) > 2*tickEvery {
		return
	}
	if id != "" {
		l.inventory.named[id] = true
	}
	l.came(now, e, judge.Outcome{Step: judge.StepDone, OK: true, Replacement: id, Reason: "the machine is gone"})
}

// syncPauses keeps repairs off the nodes that are on their way out for another reason.
func (l *Loop) syncPauses(now time.Time) {
	records, known := l.world.Drains.Records()
	if !known {
		return
	}
	leaving := map[string]bool{}
	for _, r := range records {
		if r.Reason == drain.Repair || r.Validate() != nil || !r.State.Leaving() && r.State != drain.Terminating {
			continue
		}
		leaving[r.Node] = true
		until, taken := l.pauses[r.Node]
		wanted := r.Deadline.Add(drainGrace)
		if late := now.Add(drainGrace); wanted.Before(late) {
			wanted = late.Add(drainGrace)
			taken = taken && until.After(late) // renewed while it lasts, now and then
			if taken {
				continue
			}
		}
		if !taken || !until.Equal(wanted) {
			l.pauses[r.Node] = wanted
			l.step(now, judge.Pause{Node: r.Node, Owner: drainOwner, TTL: wanted.Sub(now), Why: string(r.Reason)})
		}
	}
	for node := range l.pauses {
		if leaving[node] {
			continue
		}
		delete(l.pauses, node)
		if _, is := l.judge.Paused(node, drainOwner); is {
			l.step(now, judge.Resume{Node: node, Owner: drainOwner})
		}
	}
}

// syncPool keeps repairs off a pool that operators have paused as a whole.
func (l *Loop) syncPool(now time.Time) {
	if l.world.Paused == nil {
		return
	}
	why, known := l.world.Paused()
	until, is := l.judge.Paused("", poolOwner)
	switch {
	case !known:
	case why == "" && is:
		l.step(now, judge.Resume{Owner: poolOwner})
	case why != "" && (!is || until.Sub(now) < poolPause/2):
		l.step(now, judge.Pause{Owner: poolOwner, TTL: poolPause, Why: cut(why)})
	}
}
