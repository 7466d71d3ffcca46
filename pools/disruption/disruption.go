// Package disruption has the disruption budget of a pool: how many nodes Weirkeeper itself may take
// out of service at a time. Drains, repairs and quarantines all use the same budget.
//
// The package is pure. Its values may be used concurrently.
//
// The autoscaler and node health check it before they take a node out of service.
package disruption

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind is what takes a node out of service. For a drain it is the drain's reason.
type Kind string

const (
	Repair     Kind = "repair"     // a repair action in progress
	Quarantine Kind = "quarantine" // the node is in quarantine
)

// Budget is how many nodes of a pool may be out of service, and which ones are. Each node counts
// once.
type Budget struct {
	Limit int             // nodes; at least 1; 0: no budget
	Out   map[string]Kind // by node
}

// Bounded reports whether there is a budget.
func (b Budget) Bounded() bool { return b.Limit > 0 }

// Others returns how many other nodes are out of service.
func (b Budget) Others(node string) int {
	if _, out := b.Out[node]; out {
		return len(b.Out) - 1
	}
	return len(b.Out)
}

// Room reports whether the node may be out of service together with the others.
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
