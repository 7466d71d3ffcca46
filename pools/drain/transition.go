package drain

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// Presence is the provider's report of an instance.
type Presence string

const (
	PresenceUnknown Presence = ""        // not requested, or no response
	Present         Presence = "present" // pending or running
	Ending          Presence = "ending"  // terminating, by us or by another party
	Absent          Presence = "absent"  // missing in a fresh list of its group
)

// NodeSnapshot is a snapshot of a node. In the zero NodeSnapshot everything is unknown.
type NodeSnapshot struct {
	Instance Presence
	At       time.Time // time of the request to the provider
	// Protected: the provider rejects its termination.
	Protected bool
	// Busy, if not empty, names another change of its group. The group must not be changed then.
	Busy string
	// Left is set if its group is no longer in the pool. Then the rest is unknown, except FactsAt.
	Left bool
	// Keeps, if not empty, is why the provider rejects terminations in its group.
	Keeps string
	// Waits is set while terminations in its group are in backoff, because they failed.
	Waits bool

	// Node is NodeUnknown if its facts are stale. A node that had joined and became silent is
	// unknown, not an orphan: an orphan has no tasks.
	Node     api.NodeState
	FactsAt  time.Time // when its facts arrived
	Cordoned bool      // it reports that it accepts no new tasks
	Tasks    int
	BootID   string // from its facts

	// Replaced: without this node the pool still has all of its wanted weight, running and joined.
	Replaced bool
	// Proof is what the scheduler stated about its copies after its cordon.
	Proof Proof
}

// Proof is whether the copies of a node have other places.
type Proof int

// The values of Proof.
const (
	NoProof  Proof = iota // the scheduler never answers this
	Unproved              // it has not answered since the cordon
	Proved                // each copy has another place
	Needed                // a copy has no other place
)

// fresh reports whether both provider and scheduler report the node.
func (v NodeSnapshot) fresh() bool { return v.Instance == Present && v.Node != api.NodeUnknown }

// unresponsive reports whether the instance exists and its node sends no facts.
func (v NodeSnapshot) unresponsive() bool {
	return v.Instance == Present && (v.Node == api.NodeUnknown || v.Node == api.NodeOrphaned)
}

// reporting reports whether the instance exists and its node sends facts.
func (v NodeSnapshot) reporting() bool {
	return v.Instance == Present && v.Node.Joined()
}

// refuses returns why the instance must not be terminated, or "".
func (v NodeSnapshot) refuses() string {
	switch {
	case v.Protected:
		return "the provider protects it from termination"
	case v.Busy != "":
		return "its group is not changed now: " + v.Busy
	case v.Keeps != "":
		return "its group keeps its nodes: " + v.Keeps
	}
	return ""
}

// Action is the next action for a node. Each may be repeated.
type Action string

const (
	None          Action = ""                // wait
	Cordon        Action = "cordon"          // set the scheduler's mark: no new tasks
	Uncordon      Action = "uncordon"        // remove that mark
	Terminate     Action = "terminate"       // terminate the instance, and lower the target by its weight
	RepairInPlace Action = "repair in place" // begin the repair in place, or read its state
	DeleteRecord  Action = "forget"          // delete the record
)

// overdue is how long an instance that the provider ends by itself may exist after the announced
// time. After that, it is assumed to stay.
const overdue = 5 * time.Minute

// unshown is how long readings of a provider may not show a termination that it carried out. The process that sent it may have
// died, and a repeated one lowers the target of an Auto Scaling group twice.
const unshown = 30 * time.Second

// Next returns the next record and the one action for it. The caller stores the record before it
// takes the action. After the action succeeds, [Done] returns the record that follows.
//
// A node is terminated only if a fresh snapshot shows that it has no tasks and accepts none, or
// that it has never joined; or after its deadline, with force. A replacement by a repair needs no
// force, and it terminates a node without response at once. A node that the provider ends by
// itself, or that is repaired in place, is never terminated. While terminations in its group are in backoff, a node waits. So does one
// whose termination a reading may not show yet.
func (c Config) Next(now time.Time, r api.Drain, v NodeSnapshot) (api.Drain, Action) {
	next, action := c.next(now, r, v)
	if action == Terminate && (v.Waits || r.State == api.DrainTerminating && !v.At.After(lastChange(r).Add(unshown))) {
		return r, None
	}
	return next, action
}

func (c Config) next(now time.Time, r api.Drain, v NodeSnapshot) (api.Drain, Action) {
	switch {
	case !knownState(r.State):
		return r, None
	case v.Left && r.State != api.DrainReturned:
		return left(now, r, v)
	case r.State == api.DrainGone:
		return gone(now, r, v)
	case r.State == api.DrainReturned:
		return r, DeleteRecord
	case v.Instance == Absent:
		return movedTo(r, api.DrainGone, now, "its instance does not exist any more"), None
	case r.State == api.DrainTerminating:
		return c.terminating(now, r, v)
	case v.Instance == Ending:
		r.ProviderEnds = true
		return movedTo(r, api.DrainTerminating, now, "the provider is ending it"), None
	case r.State == api.DrainReturning:
		return r, Uncordon
	case r.RepairInPlace != "":
		return repairInPlace(now, r, v)
	}
	return c.leaving(now, r, v)
}

const (
	// leftLimit is how long a node is uncordoned whose group left the pool: its agent may run on, or not.
	leftLimit = time.Minute
	// leftFor is how long the record is kept for a node that reports again, alone or because its group comes back.
	leftFor = 24 * time.Hour
)

// left takes back a node whose group left the pool, and deletes the record of a node that is uncordoned or that is silent for long.
func left(now time.Time, r api.Drain, v NodeSnapshot) (api.Drain, Action) {
	switch {
	case r.State == api.DrainGone:
		return r, DeleteRecord
	case r.State != api.DrainReturning:
		return takenBackRecord(r, now, "its group is no longer in the pool"), None
	case !now.Before(r.Since.Add(leftFor)):
		return movedTo(r, api.DrainReturned, now, "its group is no longer in the pool, and its node does not respond"), None
	case !now.Before(r.Since.Add(leftLimit)) && !v.FactsAt.After(r.Since.Add(leftLimit)):
		return r, None
	}
	return r, Uncordon
}

// gone deletes the record once a later list does not have the instance either. A single list may
// have missed it, and the node would stay cordoned.
func gone(now time.Time, r api.Drain, v NodeSnapshot) (api.Drain, Action) {
	switch {
	case !v.At.After(r.Since):
		return r, None
	case v.Instance == Absent:
		return r, DeleteRecord
	case v.Instance == Present:
		return takenBackRecord(r, now, "its instance is there after all"), None
	}
	return r, None
}

// terminating waits for the instance to end. If a snapshot after the last request shows it
// unchanged, the request or its reply was lost.
func (c Config) terminating(now time.Time, r api.Drain, v NodeSnapshot) (api.Drain, Action) {
	if v.Instance == Ending && r.EndAccepted.IsZero() && !r.ProviderEnds {
		r.EndAccepted = now
	}
	if v.Instance != Present || !v.At.After(r.Since) || !v.At.After(r.EndAccepted) {
		return r, None
	}
	switch why := v.refuses(); {
	case r.ProviderEnds && now.Before(r.Since.Add(overdue)):
		return r, None
	case r.ProviderEnds:
		return takenBackRecord(r, now, "the provider did not end it"), None
	case why != "":
		return takenBackRecord(r, now, why), None
	case !r.EndAccepted.IsZero():
		return r, Terminate
	case !now.Before(r.Since.Add(c.Threshold)):
		return takenBackRecord(r, now, "the provider did not accept the request to terminate it"), None
	}
	return c.retryTerminate(now, r, v)
}

// retryTerminate repeats a termination that the provider has not confirmed. The first request may be old,
// so the node must still have nothing to lose.
func (c Config) retryTerminate(now time.Time, r api.Drain, v NodeSnapshot) (api.Drain, Action) {
	switch {
	case c.forced(now, r) || r.Reason == api.DrainRepair && v.unresponsive():
		return r, Terminate
	case !v.fresh():
		return r, None
	case r.CordonSent.IsZero() && v.Node == api.NodeOrphaned:
		return r, Terminate
	case r.CordonSent.IsZero():
		return movedTo(r, api.DrainChosen, now, "its node has joined"), None
	case v.Node == api.NodeOrphaned || !v.FactsAt.After(r.CordonSent):
		return r, None
	case v.Cordoned && v.Tasks == 0:
		return r, Terminate
	}
	return movedTo(r, api.DrainDraining, now, "it is not drained any more"), None
}

// leaving moves a node forward that can still be taken back.
func (c Config) leaving(now time.Time, r api.Drain, v NodeSnapshot) (api.Drain, Action) {
	if why := v.refuses(); why != "" && !r.ProviderEnds {
		return takenBackRecord(r, now, why), None
	}
	if r.Hold && r.State == api.DrainChosen {
		switch {
		case !now.Before(r.Deadline):
			return takenBackRecord(r, now, "its replacement did not come"), None
		case !v.Replaced || v.Instance != Present:
			return r, None
		}
		r.Hold = false
	}
	if r.Reason == api.DrainRepair && !r.ProviderEnds && v.unresponsive() {
		return movedTo(r, api.DrainTerminating, now, "its node does not respond: no tasks to wait for"), Terminate
	}
	next, action := progress(now, r, v)
	stuck := action == Cordon || action == None && next.State == r.State
	if stuck && !now.Before(endOf(r)) {
		return c.giveUp(now, r, v)
	}
	return next, action
}

// progress returns the next step of a node that is leaving, without regard to the deadline.
func progress(now time.Time, r api.Drain, v NodeSnapshot) (api.Drain, Action) {
	switch {
	case !v.fresh():
		return r, None
	case v.Node == api.NodeOrphaned:
		if r.ProviderEnds || !r.CordonSent.IsZero() {
			return r, None // the provider ends it, or it had joined and may have tasks
		}
		return movedTo(r, api.DrainTerminating, now, "its node has not joined: no tasks to wait for"), Terminate
	case r.Reason == api.DrainOrphan:
		return takenBackRecord(r, now, "its node has joined"), None
	case r.State == api.DrainChosen:
		return cordonedRecord(r, now, "waiting for the node to confirm its cordon"), Cordon
	case !v.FactsAt.After(r.CordonSent):
		return r, None // these facts are older than the cordon
	case !v.Cordoned:
		return cordonedRecord(r, now, "it lost its cordon"), Cordon
	case r.State == api.DrainCordoned:
		return movedTo(r, api.DrainDraining, now, "waiting for its tasks"), None
	}
	return drained(now, r, v)
}

// drained returns the next step of a node that accepts no new tasks.
func drained(now time.Time, r api.Drain, v NodeSnapshot) (api.Drain, Action) {
	switch {
	case v.Tasks > 0 && r.State == api.DrainDrained:
		return movedTo(r, api.DrainDraining, now, "it has tasks again"), None
	case v.Tasks > 0:
		return r, None
	case r.State == api.DrainDraining:
		return movedTo(r, api.DrainDrained, now, "its tasks have gone"), None
	case r.ProviderEnds:
		return r, None // the provider terminates it
	}
	return movedTo(r, api.DrainTerminating, now, "drained"), Terminate
}

// leftToProvider reports whether the provider is expected to end the instance by itself.
func leftToProvider(r api.Drain) bool { return r.ProviderEnds || r.Reason == api.DrainSpot }

// endOf returns when the waiting ends.
func endOf(r api.Drain) time.Time {
	if leftToProvider(r) {
		return r.Deadline.Add(overdue)
	}
	return r.Deadline
}

// forced reports whether the node is terminated even with tasks. An orphan is not: if it has
// joined, it stays.
func (c Config) forced(now time.Time, r api.Drain) bool {
	return (c.Force || r.Reason == api.DrainRepair) && !leftToProvider(r) && r.Reason != api.DrainOrphan && !now.Before(r.Deadline)
}

// ownChoice reports whether the pool has chosen the node for itself. A sick node, and one that an operator names, ends in any case.
func ownChoice(r api.Drain) bool { return r.Reason != api.DrainRepair && r.Reason != api.DrainRemoval }

// giveUp ends the waiting. A node that could have been cordoned and never was is not forced: no
// process was running, and the choice is old.
func (c Config) giveUp(now time.Time, r api.Drain, v NodeSnapshot) (api.Drain, Action) {
	switch {
	case leftToProvider(r):
		return takenBackRecord(r, now, "the provider did not take it"), None
	case c.forced(now, r) && v.Proof == Unproved && ownChoice(r):
		return r, None
	case c.forced(now, r) && v.Proof == Needed && ownChoice(r):
		return takenBackRecord(r, now, "not drained by its deadline: a copy has no other place"), None
	case c.forced(now, r) && (r.State != api.DrainChosen || !v.fresh()):
		return movedTo(r, api.DrainTerminating, now, Forced), Terminate
	}
	return takenBackRecord(r, now, "not drained by its deadline"), None
}

// Done returns the record that follows a successful action.
func Done(now time.Time, r api.Drain, action Action) api.Drain {
	switch action {
	case Uncordon:
		return movedTo(r, api.DrainReturned, now, r.Why)
	case Terminate:
		r.EndAccepted = now
	case RepairInPlace:
		r.RepairedAt = now
	}
	return r
}
