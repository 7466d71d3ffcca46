package api

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// MaxUndone bounds ScaleIns.Undone.
const MaxUndone = 8

// ScaleIns are the scale-ins of a pool since the need of its copies changed. A scale-in has a proof that each copy has another
// place. But the scheduler may put the copies elsewhere, and then one of them needs the machine again. The same nodes with the same
// copies would give the same proof.
type ScaleIns struct {
	Held   resource.Vector `json:"held"`             // what all copies and free places need
	Last   *ScaleIn        `json:"last,omitempty"`   // the latest one; nil: it was undone
	Undone []ScaleIn       `json:"undone,omitempty"` // the oldest first, at most MaxUndone
}

// ScaleIn is a removal of nodes whose copies had another place by a proof.
type ScaleIn struct {
	At      time.Time          `json:"at"`
	Target  float64            `json:"target"`          // of the pool, a whole number
	Nodes   map[string]float64 `json:"nodes,omitempty"` // the weight of the nodes before it, by group
	Offered resource.Vector    `json:"offered,omitzero"`
	// Undone is when the pool took nodes back, or grew, because copies needed a machine after all; zero: it did not.
	Undone time.Time `json:"undone,omitzero"`
	// Busy: it was undone because copies did not move by the deadline of a drain. A node without tasks may go.
	Busy bool `json:"busy,omitempty"`
}

// Repeats reports whether s would repeat a scale-in that was undone: the nodes are the same, and its target is not lower.
func (s ScaleIn) Repeats(undone ScaleIn) bool {
	near := func(a, b float64) bool { return a-b <= resource.Slack*max(1, b) && b-a <= resource.Slack*max(1, b) }
	for k := range s.Offered {
		if !near(s.Offered[k], undone.Offered[k]) {
			return false
		}
	}
	return s.Target >= undone.Target && maps.EqualFunc(s.Nodes, undone.Nodes, near)
}

// Repeated returns the latest undone scale-in that s would repeat, or a zero one.
func (all *ScaleIns) Repeated(held resource.Vector, s ScaleIn) ScaleIn {
	if all == nil || all.Held != held {
		return ScaleIn{}
	}
	for _, one := range slices.Backward(all.Undone) {
		if s.Repeats(one) {
			return one
		}
	}
	return ScaleIn{}
}

// Undo returns the scale-ins with the latest one undone at that time.
func (all *ScaleIns) Undo(now time.Time, busy bool) *ScaleIns {
	if all == nil || all.Last == nil {
		return all
	}
	one := *all.Last
	one.Undone, one.Busy = now, busy
	undone := append(slices.Clone(all.Undone), one)
	return &ScaleIns{Held: all.Held, Undone: undone[max(0, len(undone)-MaxUndone):]}
}

// Text returns what the instances are kept for, with their number and the first one, for people.
func (k KeptNode) Text() string {
	why := string(k.Why)
	if !k.Undone.IsZero() {
		why = fmt.Sprintf("%s at %s, and nothing has changed since", why, k.Undone.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s (%s first)", why, k.First)
}
