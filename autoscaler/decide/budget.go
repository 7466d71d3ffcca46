package decide

import (
	"cmp"
	"fmt"
	"math"

	"github.com/weirkeeper/weirkeeper/api"
)

// room is how far the target may go in one direction, and what limits it.
type room struct {
	by   float64
	kind BlockerKind
	why  string
}

// narrow applies a limit if it is tighter than the earlier ones.
func (r *room) narrow(by float64, kind BlockerKind, why string) {
	if by < r.by {
		*r = room{by, kind, why}
	}
}

// rooms returns how far the target may go up and down from t at this tick.
func rooms(in api.DecisionInput, s api.DecisionState, t float64) (up, down room) {
	p := in.Policy
	used := usedWithin(s, p.Period)
	up = room{max(0, p.Limits.MaxAdd-used.Up), BlockerStep,
		fmt.Sprintf("at most %s to add to %s", num(p.Limits.MaxAdd), num(t)) + usedUp(p, used.Up)}
	down = room{max(0, p.Limits.MaxRemove-used.Down), BlockerStep,
		fmt.Sprintf("at most %s to remove from %s", num(p.Limits.MaxRemove), num(t)) + usedUp(p, used.Down)}
	for _, b := range p.Budgets {
		r, change, used := &up, "raised", usedWithin(s, b.Within)
		gone := used.Up
		if b.Direction == api.DirectionDown {
			r, change, gone = &down, "lowered", used.Down
		}
		most, kind := mostChange(b, t-(used.Up-used.Down))
		r.narrow(max(0, most-gone), BlockerBudget, fmt.Sprintf("%s by at most %s within %v%s, %s of it used", change, num(most), b.Within, kind, num(gone)))
	}
	if why := scaleInBlocked(in, s); why != "" {
		down.narrow(0, blockedBy(in, s), "scale-in is barred ("+why+")")
	}
	return up, down
}

// scaleInBlocked returns why the pool must not shrink at this tick, or an empty string if it may.
func scaleInBlocked(in api.DecisionInput, s api.DecisionState) string {
	return cmp.Or(lossLimit(in, s), OneLine(in.Barred), OneLine(in.NoScaleIn))
}

// Beside returns how much weight may be added at s.Clock to a pool with target t that needs no
// more. The smaller half of each limit over time is reserved for a need that arises within its
// window. For a limit of 1 nothing is reserved.
func Beside(s api.DecisionState, p api.DecisionPolicy, t float64) float64 {
	left := half(p.Limits.MaxAdd) - usedWithin(s, p.Period).Up
	for _, b := range p.Budgets {
		if b.Direction == api.DirectionDown {
			continue
		}
		used := usedWithin(s, b.Within)
		most, _ := mostChange(b, t-(used.Up-used.Down))
		left = min(left, half(most)-used.Up)
	}
	return max(0, left)
}

// half returns the larger half of a whole quantity.
func half(x float64) float64 { return x - math.Floor(x/2) }

// usedUp returns the text about the part of a step that earlier changes of the period used.
func usedUp(p api.DecisionPolicy, used float64) string {
	if used == 0 {
		return ""
	}
	return fmt.Sprintf(" within %v, %s of it used", p.Period, num(used))
}

// mostChange returns the limit of the budget in a window that began with that target.
func mostChange(b api.ChangeBudget, began float64) (most float64, kind string) {
	if b.Weight > 0 {
		return b.Weight, ""
	}
	most = 1
	if share := b.Share * began; share > 1 { // never for a NaN
		most = bounded(share)
	}
	return most, " (" + percent(b.Share) + ")"
}
