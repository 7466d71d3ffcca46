package drain

import (
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// repairInPlace moves a repair in place forward.
func repairInPlace(now time.Time, r Record, v NodeSnapshot) (Record, Action) {
	if !now.Before(r.RepairBy) {
		return r.back(now, "not repaired by its deadline"), None
	}
	if r.State == Repairing {
		return duringRepair(now, r, v)
	}
	next, action := beforeRepair(now, r, v)
	if next.State != r.State && v.reporting() && len(v.BootID) <= maxName {
		next.Boot = v.BootID
	}
	return next, action
}

// beforeRepair drains the node, and then begins the repair even if tasks are left. A stopped node, or a
// node without response, has nothing to drain.
func beforeRepair(now time.Time, r Record, v NodeSnapshot) (Record, Action) {
	if v.Busy != "" { // protection from termination does not block a repair
		return r.back(now, NodeSnapshot{Busy: v.Busy}.refuses()), None
	}
	if r.RepairInPlace == pools.RepairStart && v.Instance == Present || v.unresponsive() {
		return r.to(Repairing, now, "no known tasks on it"), RepairInPlace
	}
	next, action := progress(now, r, v)
	stuck := action == Cordon || action == None && next.State == r.State
	switch {
	case next.State == Terminating:
		return r.to(Repairing, now, "drained"), RepairInPlace
	case stuck && !now.Before(r.Deadline) && r.State == Chosen:
		return r.back(now, "not begun by its deadline"), None
	case stuck && !now.Before(r.Deadline) && v.Instance == Present:
		return r.to(Repairing, now, "not drained by its deadline: repaired anyway"), RepairInPlace
	}
	return next, action
}

// duringRepair repeats the action until the provider has finished. Then a node that had to restart must
// report another boot id.
func duringRepair(now time.Time, r Record, v NodeSnapshot) (Record, Action) {
	restarts := r.RepairInPlace == pools.RepairReboot || r.RepairInPlace == pools.RepairReset
	switch {
	case v.Instance != Present || v.Busy != "" && r.RepairedAt.IsZero():
		return r, None
	case r.RepairedAt.IsZero():
		return r, RepairInPlace
	case restarts && r.Boot != "" && !(v.reporting() && v.BootID != "" && v.BootID != r.Boot):
		return r, None
	}
	return r.inService(now, "repaired in place"), None
}

// failed returns the record of a repair in place that ended without success.
func (r Record) failed(now time.Time, why string) Record {
	r.Failed = clip(why)
	return r.back(now, "the repair in place failed")
}
