package drain

import (
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// Presence is what the provider says of an instance.
type Presence string

const (
	Unseen  Presence = ""        // it was not asked, or did not answer
	Present Presence = "present" // pending or running
	Ending  Presence = "ending"  // being terminated, by us or by somebody else
	Absent  Presence = "absent"  // a fresh list of its group does not have it
)

// View is what is seen of a node. The zero View knows nothing.
type View struct {
	Instance Presence
	At       time.Time // when the provider was asked
	// Protected: the provider would refuse to terminate it.
	Protected bool
	// Busy, if not empty, says who else is changing its group, which is left alone.
	Busy string

	// Node is NodeUnknown if its facts are stale. A node that had joined and
	// fell silent is unknown too: an orphan is one that has nothing to lose.
	Node     pools.NodeState
	FactsAt  time.Time // when its facts came in
	Cordoned bool      // it says that it takes nothing new
	Tasks    int
	BootID   string // of its facts

	// Replaced: without this node, too, the pool has all that it is asked for, up and
	// joined.
	Replaced bool
}

// fresh reports whether both provider and scheduler know the node.
func (v View) fresh() bool { return v.Instance == Present && v.Node != pools.NodeUnknown }

// unheard reports whether the instance is there, and nobody hears its node.
func (v View) unheard() bool {
	return v.Instance == Present && (v.Node == pools.NodeUnknown || v.Node == pools.NodeOrphaned)
}

// heard reports whether the instance is there and its node tells of itself.
func (v View) heard() bool {
	return v.Instance == Present && v.Node.Joined()
}

// refuses returns why the instance is not to be terminated, if there is a reason.
func (v View) refuses() string {
	switch {
	case v.Protected:
		return "the provider protects it from termination"
	case v.Busy != "":
		return "its group is being changed: " + v.Busy
	}
	return ""
}

// Action is the one thing to do for a node. Each may be repeated.
type Action string

const (
	None      Action = ""          // wait
	Cordon    Action = "cordon"    // tell the scheduler to give it nothing new
	Uncordon  Action = "uncordon"  // take that back
	Terminate Action = "terminate" // end the instance, and lower the target by its weight
	Mend      Action = "mend"      // begin the repair in place, or look up how far it is
	Forget    Action = "forget"    // delete the record
)

// overdue is how long after the time that the provider gave, or after it began, an
// instance that it ends by itself may still be there before we believe that it
// stays.
const overdue = 5 * time.Minute

// Next returns what follows on the record, and the one thing to do then. The
// record is to be put before the action is taken; when that has succeeded,
// [Done] says what follows.
//
// A node is terminated only if a fresh view shows that it has no tasks and takes
// none, or that it has never joined; or after its deadline, with force. One that is
// replaced by a repair needs no force, and is terminated at once if it is there and
// not heard. One that the provider takes by itself is never terminated, nor one that
// is repaired in place.
func (c Config) Next(now time.Time, r Record, v View) (Record, Action) {
	switch {
	case !r.State.Known():
		return r, None
	case r.State == Gone:
		return gone(now, r, v)
	case r.State == Returned:
		return r, Forget
	case v.Instance == Absent:
		return r.to(Gone, now, "its instance does not exist any more"), None
	case r.State == Terminating:
		return c.terminating(now, r, v)
	case v.Instance == Ending:
		r.Taken = true
		return r.to(Terminating, now, "the provider is ending it"), None
	case r.State == Returning:
		return r, Uncordon
	case r.Mend != "":
		return mend(now, r, v)
	}
	return c.leaving(now, r, v)
}

// gone forgets the node once a later list does not have it either: a single one
// may have missed it, and it would stay cordoned.
func gone(now time.Time, r Record, v View) (Record, Action) {
	switch {
	case !v.At.After(r.Since):
		return r, None
	case v.Instance == Absent:
		return r, Forget
	case v.Instance == Present:
		return r.back(now, "its instance is there after all"), None
	}
	return r, None
}

// terminating waits for the instance to end. A view that is later than the last
// request and shows it untouched means that the request, or its answer, was lost.
func (c Config) terminating(now time.Time, r Record, v View) (Record, Action) {
	if v.Instance == Ending && r.Asked.IsZero() && !r.Taken {
		r.Asked = now
	}
	if v.Instance != Present || !v.At.After(r.Since) || !v.At.After(r.Asked) {
		return r, None
	}
	switch why := v.refuses(); {
	case r.Taken && now.Before(r.Since.Add(overdue)):
		return r, None
	case r.Taken:
		return r.back(now, "the provider did not end it"), None
	case why != "":
		return r.back(now, why), None
	case !r.Asked.IsZero():
		return r, Terminate
	case !now.Before(r.Since.Add(c.Threshold)):
		return r.back(now, "the provider did not take the request to terminate it"), None
	}
	return c.askAgain(now, r, v)
}

// askAgain repeats a request that nobody knows the provider to have. It may be
// long ago, so the node must still be one that has nothing to lose.
func (c Config) askAgain(now time.Time, r Record, v View) (Record, Action) {
	switch {
	case c.forced(now, r) || r.Reason == Repair && v.unheard():
		return r, Terminate
	case !v.fresh():
		return r, None
	case r.Told.IsZero() && v.Node == pools.NodeOrphaned:
		return r, Terminate
	case r.Told.IsZero():
		return r.to(Chosen, now, "its node has joined"), None
	case v.Node == pools.NodeOrphaned || !v.FactsAt.After(r.Told):
		return r, None
	case v.Cordoned && v.Tasks == 0:
		return r, Terminate
	}
	return r.to(Draining, now, "it is not drained any more"), None
}

// leaving takes a node on that can still be taken back.
func (c Config) leaving(now time.Time, r Record, v View) (Record, Action) {
	if why := v.refuses(); why != "" && !r.Taken {
		return r.back(now, why), None
	}
	if r.Hold && r.State == Chosen {
		switch {
		case !now.Before(r.Deadline):
			return r.back(now, "its replacement did not come"), None
		case !v.Replaced || v.Instance != Present:
			return r, None
		}
		r.Hold = false
	}
	if r.Reason == Repair && !r.Taken && v.unheard() {
		return r.to(Terminating, now, "it is not heard: nothing to wait for"), Terminate
	}
	next, action := progress(now, r, v)
	stuck := action == Cordon || action == None && next.State == r.State
	if stuck && !now.Before(r.end()) {
		return c.giveUp(now, r, v)
	}
	return next, action
}

// progress is what a view allows to a node that is leaving, deadline aside.
func progress(now time.Time, r Record, v View) (Record, Action) {
	switch {
	case !v.fresh():
		return r, None
	case v.Node == pools.NodeOrphaned:
		if r.Taken || !r.Told.IsZero() {
			return r, None // it is not ours to end, or it had joined and may have tasks
		}
		return r.to(Terminating, now, "its node has not joined: no tasks to wait for"), Terminate
	case r.Reason == Orphan:
		return r.back(now, "its node has joined"), None
	case r.State == Chosen:
		return r.cordon(now, "waiting for the node to confirm its cordon"), Cordon
	case !v.FactsAt.After(r.Told):
		return r, None // these facts are from before
	case !v.Cordoned:
		return r.cordon(now, "it lost its cordon"), Cordon
	case r.State == Cordoned:
		return r.to(Draining, now, "waiting for its tasks"), None
	}
	return drained(now, r, v)
}

// drained goes by the tasks of a node that takes nothing new.
func drained(now time.Time, r Record, v View) (Record, Action) {
	switch {
	case v.Tasks > 0 && r.State == Drained:
		return r.to(Draining, now, "it has tasks again"), None
	case v.Tasks > 0:
		return r, None
	case r.State == Draining:
		return r.to(Drained, now, "its tasks have gone"), None
	case r.Taken:
		return r, None // the provider does it
	}
	return r.to(Terminating, now, "drained"), Terminate
}

// noticed reports whether the provider ends the instance by itself, as far as we
// know.
func (r Record) noticed() bool { return r.Taken || r.Reason == Spot }

// end is when the waiting ends.
func (r Record) end() time.Time {
	if r.noticed() {
		return r.Deadline.Add(overdue)
	}
	return r.Deadline
}

// forced reports whether the node is to be ended whatever it has. An orphan is
// not: if it has joined it stays.
func (c Config) forced(now time.Time, r Record) bool {
	return (c.Force || r.Reason == Repair) && !r.noticed() && r.Reason != Orphan && !now.Before(r.Deadline)
}

// giveUp ends the waiting. A node that could be asked to empty itself, and never
// was, is not forced: nobody was there to do it, and the choice is an old one.
func (c Config) giveUp(now time.Time, r Record, v View) (Record, Action) {
	switch {
	case r.noticed():
		return r.back(now, "the provider did not take it"), None
	case c.forced(now, r) && (r.State != Chosen || !v.fresh()):
		return r.to(Terminating, now, "not drained by its deadline: forced"), Terminate
	}
	return r.back(now, "not drained by its deadline"), None
}

// Done returns what follows on the record when the action has succeeded.
func Done(now time.Time, r Record, action Action) Record {
	switch action {
	case Uncordon:
		return r.to(Returned, now, r.Why)
	case Terminate:
		r.Asked = now
	case Mend:
		r.Mended = now
	}
	return r
}
