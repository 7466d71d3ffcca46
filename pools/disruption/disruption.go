// Package disruption has the disruption budget of a pool: how many of its nodes may be
// out of service at a time by what Weirkeeper itself does. All that takes nodes out
// asks the same budget: drains, repairs and quarantines.
//
// The package is pure: values in, values out. What it returns may be used concurrently.
package disruption

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind is what takes a node out of service. A drain has its own reason as kind.
type Kind string

const (
	Repair     Kind = "repair"     // an action of a repair that is under way
	Quarantine Kind = "quarantine" // the node is set aside
)

// Budget is how many nodes of a pool may be out of service, and which are. A node counts
// once, whatever takes it out.
type Budget struct {
	Limit int             // nodes; at least 1 where there is a budget, 0 without one
	Out   map[string]Kind // by node
}

// Bounded reports whether there is a budget.
func (b Budget) Bounded() bool { return b.Limit > 0 }

// Others returns how many nodes but this one are out of service.
func (b Budget) Others(node string) int {
	if _, out := b.Out[node]; out {
		return len(b.Out) - 1
	}
	return len(b.Out)
}

// Room reports whether the node may be out of service beside the others.
func (b Budget) Room(node string) bool { return !b.Bounded() || b.Others(node) < b.Limit }

// String returns what is out of service by kind: "2 by quarantine, 1 by repair".
func (b Budget) String() string {
	count := map[Kind]int{}
	for _, kind := range b.Out {
		count[kind]++
	}
	kinds := slices.SortedFunc(maps.Keys(count), cmp.Compare[Kind])
	texts := make([]string, len(kinds))
	for i, kind := range kinds {
		texts[i] = fmt.Sprintf("%d by %s", count[kind], kind)
	}
	return strings.Join(texts, ", ")
}
