package plan

import (
	"cmp"
	"slices"
	"time"
)

const (
	firstQuarantine   = 5 * time.Minute
	longestQuarantine = time.Hour
	// forgottenAfter is when the quarantine of a group that nobody asks any more,
	// for it may not be there any more, is forgotten.
	forgottenAfter = 24 * time.Hour
)

// Quarantine is a group that did not give what it was asked for, and is not
// asked for more until a time. Its times are by the clock of who hands in now,
// which should be one that never goes back (decide.State.Clock).
type Quarantine struct {
	Group    string    `json:"group"`
	Why      string    `json:"why"`
	Since    time.Time `json:"since"` // of the first of the failures
	Until    time.Time `json:"until"`
	Failures int       `json:"failures"` // in a row
	// Keeps: it refused to be changed, and is not short: it keeps its target.
	Keeps bool `json:"keeps,omitempty"`
}

// Failed returns qs with the failure of a group: five minutes of quarantine,
// twice as long for each further failure in a row, an hour at most. A failure
// while the quarantine lasts is told, and does not prolong it. The result is in
// order of group.
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

// Keeping returns qs of which that of a group keeps its target.
func Keeping(qs []Quarantine, group string) []Quarantine {
	qs = slices.Clone(qs)
	for i := range qs {
		qs[i].Keeps = qs[i].Keeps || qs[i].Group == group
	}
	return qs
}

// quarantineFor is how long a group stays away that failed so often before.
func quarantineFor(failures int) time.Duration {
	d := firstQuarantine
	for range min(max(failures, 0), 10) {
		d = min(2*d, longestQuarantine)
	}
	return d
}

// Held returns the quarantines in force, by group.
func Held(qs []Quarantine, now time.Time) map[string]Quarantine {
	held := make(map[string]Quarantine)
	for _, q := range qs {
		if now.Before(q.Until) {
			held[q.Group] = q
		}
	}
	return held
}

// Recovered returns qs without that group: it was asked, and gave.
func Recovered(qs []Quarantine, group string) []Quarantine {
	return slices.DeleteFunc(slices.Clone(qs), func(q Quarantine) bool { return q.Group == group })
}

// Hold returns the groups, in their order, of which those that are a key of held
// stay as they are, so that a distribution gives their share to others: their
// Target, Min and Max are what the group has (its fulfilled weight, rounded
// down), but never more than its target. A group that has does not name keeps its
// target: so a group is held that somebody else is changing.
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
