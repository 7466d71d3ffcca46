package drain

import (
	"fmt"
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

	// Node is NodeUnknown if its facts are stale. A node that had joined and
	// fell silent is unknown too: an orphan is one that has nothing to lose.
	Node     pools.NodeState
	FactsAt  time.Time // when its facts came in
	Cordoned bool      // it says that it takes nothing new
	Tasks    int
}

// fresh reports whether both provider and scheduler know the node.
func (v View) fresh() bool { return v.Instance == Present && v.Node != pools.NodeUnknown }

// Action is the one thing to do for a node. Each may be repeated.
type Action string

const (
	None      Action = ""          // wait
	Cordon    Action = "cordon"    // tell the scheduler to give it nothing new
	Uncordon  Action = "uncordon"  // take that back
	Terminate Action = "terminate" // end the instance, and lower the target by its weight
	Forget    Action = "forget"    // delete the record
)

// Config bounds a drain.
type Config struct {
	// Threshold is how long to wait for a node's tasks, counted from when it
	// was chosen: draining_time_threshold_seconds.
	Threshold time.Duration
	// Force has it terminated after that; without it, it is uncordoned and
	// stays: force_terminate.
	Force bool
}

// Validate returns an error if the threshold is not more than 0.
func (c Config) Validate() error {
	if c.Threshold <= 0 {
		return fmt.Errorf("draining time threshold %v: want more than 0", c.Threshold)
	}
	return nil
}

// Next returns what follows on the record, and the one thing to do then. The
// record is to be put before the action is taken; when that has succeeded,
// [Done] says what follows.
//
// A node is terminated only if a fresh view shows that it has no tasks and takes
// none, or that it has not joined; or after its deadline, with force.
func (c Config) Next(now time.Time, r Record, v View) (Record, Action) {
	if v.Instance == Absent && r.State != Gone && r.State.Known() {
		return r.to(Gone, now, "its instance does not exist any more"), None
	}
	switch {
	case r.State == Gone || r.State == Returned:
		return r, Forget
	case r.State == Terminating:
		return terminating(now, r, v)
	case v.Instance == Ending && r.State.Known():
		r.Asked = now
		return r.to(Terminating, now, "the provider is ending it"), None
	case r.State == Returning:
		return r, Uncordon
	case !r.State.Leaving():
		return r, None
	case v.Protected:
		return r.to(Returning, now, "the provider protects it from termination"), None
	}
	next, action := progress(now, r, v)
	stuck := action == Cordon || action == None && next.State == r.State
	if stuck && !now.Before(r.Deadline) {
		return c.giveUp(now, r)
	}
	return next, action
}

// terminating asks again only if nobody knows that the provider was asked, and
// the instance is still there; or if a later view shows it untouched.
func terminating(now time.Time, r Record, v View) (Record, Action) {
	switch v.Instance {
	case Ending:
		if r.Asked.IsZero() {
			r.Asked = now
		}
	case Present:
		if r.Asked.IsZero() || v.At.After(r.Asked) {
			return r, Terminate
		}
	}
	return r, None
}

// progress is what a view allows to a node that is leaving, deadline aside.
func progress(now time.Time, r Record, v View) (Record, Action) {
	if !v.fresh() {
		return r, None
	}
	if v.Node == pools.NodeOrphaned {
		return r.to(Terminating, now, "its node has not joined: no tasks to wait for"), Terminate
	}
	switch r.State {
	case Chosen:
		return r, Cordon
	case Cordoned:
		switch {
		case !v.FactsAt.After(r.Since):
			return r, None // these facts are from before
		case !v.Cordoned:
			return r, Cordon
		}
		return r.to(Draining, now, "waiting for its tasks"), None
	case Draining, Drained:
		switch {
		case !v.Cordoned:
			return r.to(Chosen, now, "it lost its cordon"), Cordon
		case v.Tasks > 0 && r.State == Drained:
			return r.to(Draining, now, "it has tasks again"), None
		case v.Tasks > 0:
			return r, None
		case r.State == Draining:
			return r.to(Drained, now, "its tasks have gone"), None
		}
		return r.to(Terminating, now, "drained"), Terminate
	}
	return r, None
}

// giveUp ends the waiting.
func (c Config) giveUp(now time.Time, r Record) (Record, Action) {
	why := fmt.Sprintf("not drained within %v", c.Threshold)
	if c.Force {
		return r.to(Terminating, now, why+": forced"), Terminate
	}
	return r.to(Returning, now, why), Uncordon
}

// Done returns what follows on the record when the action has succeeded.
func Done(now time.Time, r Record, action Action) Record {
	switch action {
	case Cordon:
		return r.to(Cordoned, now, "waiting for the node to confirm its cordon")
	case Uncordon:
		return r.to(Returned, now, r.Why)
	case Terminate:
		r.Asked = now
	}
	return r
}
