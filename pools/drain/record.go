package drain

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/pools"
)

// knownState reports whether s is one of the states above.
func knownState(s api.DrainState) bool {
	return s.Leaving() || s == api.DrainRepairing || s == api.DrainTerminating || s == api.DrainGone || s == api.DrainReturning || s == api.DrainReturned
}

// strengthOf orders the reasons: a stronger reason replaces a weaker one. It is 0 for an unknown
// reason.
func strengthOf(r api.DrainReason) int {
	switch r {
	case api.DrainScaleIn, api.DrainOrphan:
		return 1
	case api.DrainRolling:
		return 2
	case api.DrainRebalance:
		return 3
	case api.DrainRepair:
		return 4
	case api.DrainRemoval:
		return 5
	case api.DrainSpot:
		return 6
	}
	return 0
}

// knownReason reports whether r is one of the reasons above.
func knownReason(r api.DrainReason) bool { return strengthOf(r) > 0 }

// Bounds of the texts in the record of a repair, in bytes.
const (
	maxName   = 256 // of an attempt, an image, a boot id
	maxFailed = 1 << 10
	// maxEvidence fits the name of a node and a number.
	maxEvidence = 512
)

// ValidateRecord returns an error that names the first invalid field of the record.
func ValidateRecord(r api.Drain) error {
	switch {
	case r.Node == "":
		return errors.New("drain record without a node")
	case r.Group == "":
		return fmt.Errorf("drain record of %s: no group", r.Node)
	case !(r.Weight >= 0 && r.Weight <= math.MaxFloat64):
		return fmt.Errorf("drain record of %s: weight %v: want a number of at least 0", r.Node, r.Weight)
	case !knownState(r.State):
		return fmt.Errorf("drain record of %s: unknown state %q", r.Node, r.State)
	case !knownReason(r.Reason):
		return fmt.Errorf("drain record of %s: unknown reason %q", r.Node, r.Reason)
	case r.Since.IsZero() || r.Deadline.IsZero():
		return fmt.Errorf("drain record of %s: a time is missing: %s since %v, deadline %v", r.Node, r.State, r.Since, r.Deadline)
	case len(r.Attempt) > maxName || len(r.Image) > maxName || len(r.Boot) > maxName || len(r.Failed) > maxFailed:
		return fmt.Errorf("drain record of %s: its repair has a text of more than %d bytes", r.Node, maxName)
	}
	if len(r.Evidence) > maxEvidence {
		return fmt.Errorf("drain record of %s: the name of its evidence has %d bytes, at most %d", r.Node, len(r.Evidence), maxEvidence)
	}
	if err := validateRepair(r); err != nil {
		return fmt.Errorf("drain record of %s: %w", r.Node, err)
	}
	return nil
}

// validateRepair returns the first contradiction between the fields of a repair.
func validateRepair(r api.Drain) error {
	switch {
	case r.Hold && (r.Reason != api.DrainRepair || r.RepairInPlace != ""):
		return fmt.Errorf("hold is only for a replacement by a repair: reason %q, repair in place %q", r.Reason, r.RepairInPlace)
	case r.RepairInPlace == "" && (r.Image != "" || r.Boot != "" || !r.RepairBy.IsZero() || !r.RepairedAt.IsZero() || r.State == api.DrainRepairing):
		return fmt.Errorf("%s has fields of a repair in place, but no kind of repair", r.State)
	case r.RepairInPlace == "":
		return nil
	case !known(r.RepairInPlace):
		return fmt.Errorf("unknown repair %q", r.RepairInPlace)
	case r.Reason != api.DrainRepair || r.Attempt == "":
		return fmt.Errorf("%s of the attempt %q for the reason %q: want an attempt, and the reason %q", r.RepairInPlace, r.Attempt, r.Reason, api.DrainRepair)
	case r.RepairBy.IsZero() || r.RepairBy.Before(r.Deadline):
		return fmt.Errorf("%s by %v, drained by %v: want the drain's deadline first", r.RepairInPlace, r.RepairBy, r.Deadline)
	case r.State == api.DrainTerminating && !r.ProviderEnds:
		return errors.New("a repair in place must not terminate its node")
	}
	return nil
}

func known(k api.RepairKind) bool {
	return k == api.RepairStart || k == api.RepairReboot || k == api.RepairReset || k == api.RepairRebuild || k == api.RepairWorkflow
}

// IsCommitted reports whether the node's weight will leave but is still in its group's target. A node
// that the provider ends by itself stays in the target and is replaced. A node that is repaired in
// place stays.
func IsCommitted(r api.Drain) bool {
	return !r.ProviderEnds && r.RepairInPlace == "" && (r.State.Leaving() || r.State == api.DrainTerminating && r.EndAccepted.IsZero())
}

// IsInPlace reports whether the node is or will be repaired in place.
func IsInPlace(r api.Drain) bool {
	return r.RepairInPlace != "" && !r.InService() && ValidateRecord(r) == nil
}

// Stays reports whether the node does not leave. An invalid record does not stay.
func Stays(r api.Drain) bool { return r.InService() || IsInPlace(r) }

// RepairOf returns the repair in place of the record.
func RepairOf(r api.Drain) pools.InPlaceRepair {
	return pools.InPlaceRepair{Instance: r.Node, Kind: r.RepairInPlace, Attempt: r.Attempt, Image: r.Image}
}

// movedTo returns the record in another state.
func movedTo(r api.Drain, state api.DrainState, now time.Time, why string) api.Drain {
	r.State, r.Since, r.Why = state, now, why
	return r
}

// cordonedRecord returns the record for a cordon that is sent now.
func cordonedRecord(r api.Drain, now time.Time, why string) api.Drain {
	if r.State != api.DrainCordoned {
		r = movedTo(r, api.DrainCordoned, now, why)
	}
	r.CordonSent = now
	return r
}

// takenBackRecord returns the record of a node that stays in service. If a cordon was sent, the node is
// uncordoned first. A repair has failed then.
func takenBackRecord(r api.Drain, now time.Time, why string) api.Drain {
	if r.Attempt != "" && r.Failed == "" {
		r.Failed = prose.Clip(why, maxFailed)
	}
	return backInService(r, now, why)
}

func backInService(r api.Drain, now time.Time, why string) api.Drain {
	r.Hold = false
	if r.CordonSent.IsZero() && (r.State == api.DrainChosen || r.State == api.DrainRepairing || r.State == api.DrainTerminating || r.State == api.DrainGone) {
		return movedTo(r, api.DrainReturned, now, why)
	}
	return movedTo(r, api.DrainReturning, now, why)
}

// shiftedBy returns the record with all of its times moved by that duration.
func shiftedBy(r api.Drain, by time.Duration) api.Drain {
	for _, t := range []*time.Time{&r.Since, &r.Deadline, &r.CordonSent, &r.EndAccepted, &r.RepairBy, &r.RepairedAt} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	return r
}

// lastChange returns the latest of the times at which something happened.
func lastChange(r api.Drain) time.Time {
	return slices.MaxFunc([]time.Time{r.Since, r.CordonSent, r.EndAccepted, r.RepairedAt}, time.Time.Compare)
}

// Causes of a state in a record.
const (
	Rejected = "the provider rejected its termination"
	Forced   = "not drained by its deadline: forced"
)

// notTerminating returns the record after the provider rejected the termination, for seconds if it is busy: the node can be taken
// back again. After its deadline it is, unless the provider is busy.
func notTerminating(r api.Drain, now time.Time, busy bool) api.Drain {
	const why = Rejected
	switch {
	case !now.Before(r.Deadline) && busy:
		return r
	case !now.Before(r.Deadline):
		return takenBackRecord(r, now, why)
	case r.CordonSent.IsZero():
		return movedTo(r, api.DrainChosen, now, why)
	}
	return movedTo(r, api.DrainDrained, now, why)
}

// Returnable returns a copy of the records that can be taken back. Those whose drain has advanced
// least come first, of these the last chosen.
func Returnable(records []api.Drain) []api.Drain {
	way := []api.DrainState{api.DrainChosen, api.DrainCordoned, api.DrainDraining, api.DrainDrained}
	rs := slices.DeleteFunc(slices.Clone(records), func(r api.Drain) bool {
		return r.Reason != api.DrainScaleIn || !r.State.Leaving() || ValidateRecord(r) != nil
	})
	slices.SortStableFunc(rs, func(a, b api.Drain) int {
		return cmp.Or(
			cmp.Compare(slices.Index(way, a.State), slices.Index(way, b.State)),
			b.Deadline.Compare(a.Deadline),
		)
	})
	return rs
}
