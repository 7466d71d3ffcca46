package drain

import (
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
)

// repairInPlace moves a repair in place forward.
func repairInPlace(now time.Time, r api.Drain, v NodeSnapshot) (api.Drain, Action) {
	if !now.Before(r.RepairBy) {
		return takenBackRecord(r, now, "not repaired by its deadline"), None
	}
	if r.State == api.DrainRepairing {
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
func beforeRepair(now time.Time, r api.Drain, v NodeSnapshot) (api.Drain, Action) {
	if v.Busy != "" { // protection from termination does not block a repair
		return takenBackRecord(r, now, NodeSnapshot{Busy: v.Busy}.refuses()), None
	}
	if r.RepairInPlace == api.RepairStart && v.Instance == Present || v.unresponsive() {
		return movedTo(r, api.DrainRepairing, now, "no known tasks on it"), RepairInPlace
	}
	next, action := progress(now, r, v)
	stuck := action == Cordon || action == None && next.State == r.State
	switch {
	case next.State == api.DrainTerminating:
		return movedTo(r, api.DrainRepairing, now, "drained"), RepairInPlace
	case stuck && !now.Before(r.Deadline) && r.State == api.DrainChosen:
		return takenBackRecord(r, now, "not begun by its deadline"), None
	case stuck && !now.Before(r.Deadline) && v.Instance == Present:
		return movedTo(r, api.DrainRepairing, now, "not drained by its deadline: repaired anyway"), RepairInPlace
	}
	return next, action
}

// duringRepair repeats the action until the provider has finished. Then a node that had to restart must
// report another boot id.
func duringRepair(now time.Time, r api.Drain, v NodeSnapshot) (api.Drain, Action) {
	restarts := r.RepairInPlace == api.RepairReboot || r.RepairInPlace == api.RepairReset
	switch {
	case v.Instance != Present || v.Busy != "" && r.RepairedAt.IsZero():
		return r, None
	case r.RepairedAt.IsZero():
		return r, RepairInPlace
	case restarts && r.Boot != "" && !(v.reporting() && v.BootID != "" && v.BootID != r.Boot):
		return r, None
	}
	return backInService(r, now, "repaired in place"), None
}

// failedRecord returns the record of a repair in place that ended without success.
func failedRecord(r api.Drain, now time.Time, why string) api.Drain {
	r.Failed = prose.Clip(why, maxFailed)
	return takenBackRecord(r, now, "the repair in place failed")
}
