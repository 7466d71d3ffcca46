package explain

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/plan"
	"github.com/weirkeeper/weirkeeper/resource"
)

// ClosedWindow returns why work of a tick waits for a window. It is empty if the work may begin, or if there is none: a closed window
// delays nothing while no machine is marked, or while the pool has no more machines than it needs.
func ClosedWindow(r api.TickRecord, work api.Work) string {
	if r.Case == nil || r.Detail == nil {
		return ""
	}
	var waits bool
	switch work {
	case api.WorkRoll, api.WorkRotate:
		waits = r.Case.Rotation != nil && slices.ContainsFunc(r.Case.Rotation.Rules, func(rule api.RotationRule) bool {
			return rule.Left > 0 && rule.Refused == "" && rule.Waits != "" && rule.Waits == r.Case.Closed[work]
		})
	case api.WorkScaleIn:
		barred := slices.ContainsFunc(r.Detail.Kept, func(k api.KeptNode) bool { return k.Why == api.KeptNoScaleIn })
		waits = barred && r.Detail.Refused == "" && r.Detail.Excess > surge(r)+resource.Slack
	}
	if !waits {
		return ""
	}
	return r.Case.Closed[work]
}

// surge returns the weight beyond the target that replaces marked machines.
func surge(r api.TickRecord) (sum float64) {
	for _, g := range r.Case.State.Groups {
		sum += float64(g.Surge)
	}
	for _, more := range r.Detail.Surge {
		sum += float64(more)
	}
	return sum
}

// WindowLines returns one line for each kind of work of a tick that waits for a window.
func WindowLines(r api.TickRecord) (lines []string) {
	for _, work := range []api.Work{api.WorkRoll, api.WorkRotate, api.WorkScaleIn} {
		if why := ClosedWindow(r, work); why != "" {
			lines = append(lines, why)
		}
	}
	return lines
}

// Target returns the target of a tick that decided, which is whole: the weight that its groups are ordered to have, without the machines
// that leave. api.Summary.Ordered returns the same number. A dry run orders nothing: its target is that of the groups.
func Target(r api.TickRecord) (sum float64) {
	if r.DryRun {
		return r.Snapshot.Target
	}
	if r.Detail == nil || len(r.Detail.Distribution.Shares) == 0 {
		return resource.Ceil(r.Result.Target)
	}
	for _, share := range r.Detail.Distribution.Shares {
		sum += float64(share.After)
	}
	return sum
}

// GroupTarget returns the part of a group in Target, or the target at the provider of a group to which the tick ordered nothing.
func GroupTarget(r api.TickRecord, g api.GroupSnapshot) int {
	if r.Detail != nil && !r.DryRun {
		for _, share := range r.Detail.Distribution.Shares {
			if share.Group == g.ID {
				return share.After
			}
		}
	}
	return g.Target
}

// RotationLines returns what the rotations of a tick do, and what they wait for.
func RotationLines(r api.TickRecord) []string {
	if r.Case == nil || r.Case.Rotation == nil {
		return nil
	}
	return r.Case.Rotation.Lines()
}

// neverJoin returns one line for each group whose machines never join, in order of group. It leaves out a group in backoff for
// that cause, because the line about the backoff has the cause.
func neverJoin(r api.TickRecord) (lines []string) {
	if r.Case == nil {
		return nil
	}
	held := plan.InBackoff(r.State.Backoffs, r.State.Clock)
	for _, group := range slices.Sorted(maps.Keys(r.Case.Stuck)) {
		text := r.Case.Stuck[group]
		if b, is := held[group]; !is || !SameCause(text, b) {
			lines = append(lines, text)
		}
	}
	return lines
}

// SameCause reports whether a backoff is that of a group whose machines never join, for the reason of Case.Stuck.
func SameCause(stuck string, b api.GroupBackoff) bool {
	return stuck != "" && strings.HasSuffix(stuck, b.Why)
}
