package drain

import (
	"time"

	"github.com/weirkeeper/weirkeeper/pools"
)

// mend takes a node on that is to be repaired in place, or is.
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

// toMend drains the node as one that goes, and then has it repaired whatever it has.
// One that is to be started, or that nobody hears, has nothing to drain.
func toMend(now time.Time, r Record, v View) (Record, Action) {
	if v.Busy != "" { // that the provider protects it from termination does not matter
		return r.back(now, View{Busy: v.Busy}.refuses()), None
	}
	if r.Mend == pools.MendStart && v.Instance == Present || v.unheard() {
		return r.to(Mending, now, "nothing runs on it that is known"), Mend
	}
	next, action := progress(now, r, v)
	stuck := action == Cordon || action == None && next.State == r.State
	switch {
	case next.State == Terminating:
		return r.to(Mending, now, "drained"), Mend
	case stuck && !now.Before(r.Deadline) && r.State == Chosen:
		return r.back(now, "not begun by its deadline"), None
	case stuck && !now.Before(r.Deadline) && v.Instance == Present:
		return r.to(Mending, now, "not drained by its deadline: repaired all the same"), Mend
	}
	return next, action
}

// mending asks until the provider is through, and then waits until a node that was to
// restart tells of another boot.
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

// failed returns the record of a repair in place that came to its end in vain.
func (r Record) failed(now time.Time, why string) Record {
	r.Failed = clip(why)
	return r.back(now, "the repair in place failed")
}
