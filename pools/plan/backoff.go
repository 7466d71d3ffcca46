package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// timesOf returns how long the backoffs of a scale are: the first, which is doubled up to the longest, and how many failures have none.
func timesOf(s api.BackoffScale) (first, longest time.Duration, free int) {
	switch s {
	case api.BackoffPassing:
		return 10 * time.Second, 2 * time.Minute, 0
	case api.BackoffUnclear:
		return 30 * time.Second, 5 * time.Minute, 2
	}
	return 5 * time.Minute, time.Hour, 0
}

// AddFailure returns qs with one more failure of a group. The failures of each scale count for themselves: each further consecutive
// one doubles the backoff. A failure during the backoff of its scale changes its reason and does not prolong it. A count ends when
// the longest backoff of its scale has passed since the group could be tried again. The result is in order of group and scale.
func AddFailure(qs []api.GroupBackoff, group, why string, scale api.BackoffScale, now time.Time) []api.GroupBackoff {
	q := api.GroupBackoff{Group: group, Scale: scale, Since: now}
	kept := make([]api.GroupBackoff, 0, len(qs)+1)
	for _, other := range qs {
		switch _, longest, _ := timesOf(other.Scale); {
		case now.Sub(other.Until) >= longest:
		case other.Group == group && other.Scale == scale:
			q = other
		default:
			kept = append(kept, other)
		}
	}
	q.Why, q.KeepsTarget = why, false
	if !q.Holds(now) {
		q.Until = now.Add(backoffFor(scale, q.Failures))
		q.Failures = max(q.Failures, 0) + 1
	}
	kept = append(kept, q)
	slices.SortStableFunc(kept, func(a, b api.GroupBackoff) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Scale, b.Scale))
	})
	return kept
}

// KeepTarget returns qs with KeepsTarget set for the failures of a group with that scale.
func KeepTarget(qs []api.GroupBackoff, group string, scale api.BackoffScale) []api.GroupBackoff {
	qs = slices.Clone(qs)
	for i, q := range qs {
		qs[i].KeepsTarget = q.KeepsTarget || q.Group == group && q.Scale == scale
	}
	return qs
}

// backoffFor returns the backoff of a group after that many earlier failures.
func backoffFor(scale api.BackoffScale, failures int) time.Duration {
	d, longest, free := timesOf(scale)
	if failures = max(failures, 0) - free; failures < 0 {
		return 0
	}
	for range min(failures, 10) {
		d = min(2*d, longest)
	}
	return d
}

// Held returns the backoffs in force, in order of group: for each group the one that ends last. It keeps its target if each of its
// backoffs in force does.
func Held(qs []api.GroupBackoff, now time.Time) (held []api.GroupBackoff) {
	for _, q := range qs {
		i := slices.IndexFunc(held, func(h api.GroupBackoff) bool { return h.Group == q.Group })
		switch {
		case !q.Holds(now):
		case i < 0:
			held = append(held, q)
		default:
			keeps := held[i].KeepsTarget && q.KeepsTarget
			if q.Until.After(held[i].Until) {
				held[i] = q
			}
			held[i].KeepsTarget = keeps
		}
	}
	return held
}

// OnTrial returns the groups that had no capacity lately, in order, each with its last backoff: that has ended, but the group has not
// fulfilled a request since, and less than the longest backoff has passed.
func OnTrial(qs []api.GroupBackoff, now time.Time) (trials []api.GroupBackoff) {
	held := InBackoff(qs, now)
	for _, q := range qs {
		_, inBackoff := held[q.Group]
		_, longest, _ := timesOf(q.Scale)
		if !inBackoff && q.Scale == api.BackoffLasting && !q.KeepsTarget && now.Sub(q.Until) < longest {
			trials = append(trials, q)
		}
	}
	return trials
}

// InBackoff returns the backoffs of Held by group.
func InBackoff(qs []api.GroupBackoff, now time.Time) map[string]api.GroupBackoff {
	held := make(map[string]api.GroupBackoff)
	for _, q := range Held(qs, now) {
		held[q.Group] = q
	}
	return held
}

// ClearBackoff returns qs without the failures of a group with these scales; without scales, without all: it fulfilled a request.
func ClearBackoff(qs []api.GroupBackoff, group string, scales ...api.BackoffScale) []api.GroupBackoff {
	return slices.DeleteFunc(slices.Clone(qs), func(q api.GroupBackoff) bool {
		return q.Group == group && (len(scales) == 0 || slices.Contains(scales, q.Scale))
	})
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
