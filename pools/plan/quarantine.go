package plan

import (
	"cmp"
	"slices"
	"time"
)

const (
	firstQuarantine   = 5 * time.Minute
	longestQuarantine = time.Hour
	// forgottenAfter is the time after its end at which a backoff is dropped. The group may no
	// longer exist.
	forgottenAfter = 24 * time.Hour
)

// Quarantine is the backoff of a group that did not fulfill its target. The group gets no higher
// target until the end. The times are by the caller's clock, which must not go back
// (decide.State.Clock).
type Quarantine struct {
	Group    string    `json:"group"`
	Why      string    `json:"why"`
	Since    time.Time `json:"since"` // time of the first failure
	Until    time.Time `json:"until"`
	Failures int       `json:"failures"` // consecutive
	// Keeps: the group rejected a change and is not short. It keeps its target.
	Keeps bool `json:"keeps,omitempty"`
}

// Failed returns qs with one more failure of a group. The first backoff is five minutes, each
// further consecutive failure doubles it, up to one hour. A failure during the backoff changes its
// reason and does not prolong it. The result is in order of group.
func Failed(qs []Quarantine, group, why string, now time.Time) []Quarantine {
	q := Quarantine{Group: group, Since: now}
	kept := make([]Quarantine, 0, len(qs)+1)
	for _, other := range qs {
		switch {
		case other.Group == group:
			q = other
		case now.Sub(other.Until) < forgottenAfter:
			kept = append(kept, other)
		}
	}
	q.Why, q.Keeps = why, false
	if !now.Before(q.Until) {
		q.Until = now.Add(quarantineFor(q.Failures))
		q.Failures = max(q.Failures, 0) + 1
	}
	kept = append(kept, q)
	slices.SortStableFunc(kept, func(a, b Quarantine) int { return cmp.Compare(a.Group, b.Group) })
	return kept
}

// Keeping returns qs with KeepsTarget set for the group.
func Keeping(qs []Quarantine, group string) []Quarantine {
	qs = slices.Clone(qs)
	for i := range qs {
		qs[i].Keeps = qs[i].Keeps || qs[i].Group == group
	}
	return qs
}

// quarantineFor returns the backoff of a group after that many earlier failures.
func quarantineFor(failures int) time.Duration {
	d := firstQuarantine
	for range min(max(failures, 0), 10) {
		d = min(2*d, longestQuarantine)
	}
	return d
}

// Held returns the backoffs in force, by group.
func Held(qs []Quarantine, now time.Time) map[string]Quarantine {
	held := make(map[string]Quarantine)
	for _, q := range qs {
		if now.Before(q.Until) {
			held[q.Group] = q
		}
	}
	return held
}

// Recovered returns qs without that group: it fulfilled a request.
func Recovered(qs []Quarantine, group string) []Quarantine {
	return slices.DeleteFunc(slices.Clone(qs), func(q Quarantine) bool { return q.Group == group })
}

// Hold returns the groups in their order. For a group that is a key of held, Target, Min and Max
// become the weight in has, at most its target. has contains fulfilled weights, rounded down. So
// the distribution gives the rest of its share to other groups. A held group without an entry in
// has keeps its target, for example while another party changes it.
func Hold[V any](groups []GroupTarget, held map[string]V, has map[string]int) []GroupTarget {
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
