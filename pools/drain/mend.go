package drain

import (
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// mend moves a repair in place forward.
func mend(now time.Time, r Record, v View) (Record, Action) {
	if !now.Before(r.MendBy) {
		return r.back(now, "not repaired by its deadline"), None
	}
	if r.State == Mending {
		return mending(now, r, v)
	}
	next, action := toMend(now, r, v)
	if next.State != r.State && v.heard() && len(v.BootID) <= maxName {
		next.Boot = v.BootID
	}
	return next, action
}

// toMend drains the node, and then begins the repair even if tasks are left. A stopped node, or a
// node without response, has nothing to drain.
func toMend(now time.Time, r Record, v View) (Record, Action) {
	if v.Busy != "" { // protection from termination does not block a repair
		return r.back(now, View{Busy: v.Busy}.refuses()), None
	}
	if r.Mend == pools.MendStart && v.Instance == Present || v.unheard() {
		return r.to(Mending, now, "no known tasks on it"), Mend
	}
	next, action := progress(now, r, v)
	stuck := action == Cordon || action == None && next.State == r.State
	switch {
	case next.State == Terminating:
		return r.to(Mending, now, "drained"), Mend
	case stuck && !now.Before(r.Deadline) && r.State == Chosen:
		return r.back(now, "not begun by its deadline"), None
	case stuck && !now.Before(r.Deadline) && v.Instance == Present:
		return r.to(Mending, now, "not drained by its deadline: repaired anyway"), Mend
	}
	return next, action
}

// mending repeats the action until the provider has finished. Then a node that had to restart must
// report another boot id.
func mending(now time.Time, r Record, v View) (Record, Action) {
	restarts := r.Mend == pools.MendReboot || r.Mend == pools.MendReset
	switch {
	case v.Instance != Present || v.Busy != "" && r.Mended.IsZero():
		return r, None
	case r.Mended.IsZero():
		return r, Mend
	case restarts && r.Boot != "" && !(v.heard() && v.BootID != "" && v.BootID != r.Boot):
		return r, None
	}
	return r.inService(now, "repaired in place"), None
}

// failed returns the record of a repair in place that ended without success.
func (r Record) failed(now time.Time, why string) Record {
	r.Failed = clip(why)
	return r.back(now, "the repair in place failed")
}
