package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// Scale is how long the cause of a failure lasts, as a rule.
type Scale int

const (
	Lasting Scale = iota // no capacity, or a right is missing: 5 minutes, doubled up to an hour
	Passing              // the provider is busy: 10 s, doubled up to 2 minutes
	Unclear              // the result is unknown: no backoff before the third failure, then 30 s, doubled up to 5 minutes
)

const (
	// dropAfter is the time after its end at which a backoff is dropped. The group may no
	// longer exist.
	dropAfter = 24 * time.Hour
)

// AddFailure returns qs with one more failure of a group. Each further consecutive failure doubles the backoff. A failure during
// the backoff changes its reason and does not prolong it. The result is in order of group.
func AddFailure(qs []api.GroupBackoff, group, why string, scale Scale, now time.Time) []api.GroupBackoff {
	q := api.GroupBackoff{Group: group, Since: now}
	kept := make([]api.GroupBackoff, 0, len(qs)+1)
	for _, other := range qs {
		switch {
		case other.Group == group:
			q = other
		case now.Sub(other.Until) < dropAfter:
			kept = append(kept, other)
		}
	}
	q.Why, q.KeepsTarget = why, false
	if !q.Holds(now) {
		q.Until = now.Add(scale.backoffFor(q.Failures))
		q.Failures = max(q.Failures, 0) + 1
	}
	kept = append(kept, q)
	slices.SortStableFunc(kept, func(a, b api.GroupBackoff) int { return cmp.Compare(a.Group, b.Group) })
	return kept
}

// KeepTarget returns qs with KeepsTarget set for the group.
func KeepTarget(qs []api.GroupBackoff, group string) []api.GroupBackoff {
	qs = slices.Clone(qs)
	for i := range qs {
		qs[i].KeepsTarget = qs[i].KeepsTarget || qs[i].Group == group
	}
	return qs
}

// backoffFor returns the backoff of a group after that many earlier failures.
func (s Scale) backoffFor(failures int) time.Duration {
	d, longest := 5*time.Minute, time.Hour
	switch s {
	case Lasting:
	case Passing:
		d, longest = 10*time.Second, 2*time.Minute
	case Unclear:
		if failures -= 2; failures < 0 {
			return 0
		}
		d, longest = 30*time.Second, 5*time.Minute
	}
	for range min(max(failures, 0), 10) {
		d = min(2*d, longest)
	}
	return d
}

// InBackoff returns the backoffs in force, by group.
func InBackoff(qs []api.GroupBackoff, now time.Time) map[string]api.GroupBackoff {
	held := make(map[string]api.GroupBackoff)
	for _, q := range qs {
		if q.Holds(now) {
			held[q.Group] = q
		}
	}
	return held
}

// ClearBackoff returns qs without that group: it fulfilled a request.
func ClearBackoff(qs []api.GroupBackoff, group string) []api.GroupBackoff {
	return slices.DeleteFunc(slices.Clone(qs), func(q api.GroupBackoff) bool { return q.Group == group })
}

// FixTargets returns the groups in their order. For a group that is a key of held, Target, Min and Max
// become the weight in has, at most its target. has contains fulfilled weights, rounded down. So
// the distribution gives the rest of its share to other groups. A held group without an entry in
// has keeps its target, for example while another party changes it.
func FixTargets[V any](groups []api.GroupTarget, held map[string]V, has map[string]int) []api.GroupTarget {
	groups = slices.Clone(groups)
	for i := range groups {
		g := &groups[i]
		if _, ok := held[g.ID]; !ok {
			continue
		}
		if n, ok := has[g.ID]; ok {
			g.Target = max(0, min(n, g.Target))
		}
		g.Min, g.Max = g.Target, g.Target
	}
	return groups
}
