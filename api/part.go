package api

import (
	"cmp"
	"slices"
	"time"
)

// Part is a part of a pool that is not known, known again, or gone. All other parts are known.
type Part struct {
	Kind PartKind `json:"kind"`
	// Name is the id of a group, the kind of the groups of a list, or the fact in words.
	Name  string    `json:"part"`
	State PartState `json:"state"`
	Since time.Time `json:"since"`         // when a read first failed, or when it was known again or gone
	Why   string    `json:"why,omitempty"` // why it is unknown, one line
}

// PartKind is the kind of a Part.
type PartKind string

const (
	PartGroup PartKind = "group" // a group of machines
	PartList  PartKind = "list"  // the list of the groups of one kind
	PartFact  PartKind = "fact"  // a fact beside the groups
)

// PartState is the state of a part, as far as it is known.
type PartState string

const (
	PartUnknown PartState = "unknown" // it could not be read: its last known value counts
	PartGone    PartState = "gone"    // a complete answer does not have it any more
	PartKnown   PartState = "known"   // it was unknown, and was read again
)

// Subject returns the part for people: "group web", "the list of asg groups".
func (p Part) Subject() string {
	switch p.Kind {
	case PartGroup:
		return "group " + p.Name
	case PartList:
		return "the list of " + p.Name + " groups"
	}
	return p.Name
}

// String returns what the part's state means for the pool, as one line for people.
func (p Part) String() string {
	switch {
	case p.State == PartKnown:
		return "known again: " + p.Subject()
	case p.State == PartGone:
		return p.Subject() + " is gone: the provider lists it no more, and other groups replace it"
	case p.Kind == PartGroup:
		return p.Subject() + " could not be read: its last known size counts, it is not changed, and the pool does not shrink: " + p.Why
	case p.Kind == PartList:
		return "groups may be missing, so the pool does not shrink: " + p.Why
	}
	return p.Why
}

// Is reports whether both are the same part, in any state.
func (p Part) Is(other Part) bool { return p.Kind == other.Kind && p.Name == other.Name }

// SortParts sorts parts: those that are unknown for the longest time first.
func SortParts(parts []Part) {
	slices.SortFunc(parts, func(a, b Part) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

// PartsChanged returns the parts whose state is another than at a tick before that time: unknown, known again at now, and gone.
func PartsChanged(before, after []Part, at, now time.Time) (out []Part) {
	for _, p := range after {
		same := slices.ContainsFunc(before, func(old Part) bool { return old.Is(p) && old.State == p.State })
		if !same && p.Since.After(at) { // a list that is too long had omitted it
			out = append(out, p)
		}
	}
	for _, old := range before {
		if old.State == PartUnknown && !slices.ContainsFunc(after, old.Is) {
			old.State, old.Since, old.Why = PartKnown, now, ""
			out = append(out, old)
		}
	}
	return out
}
