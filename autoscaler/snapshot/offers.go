package snapshot

import (
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// offersTolerance is how much more than its kind offers a node may report: units of 1000 and 1024 differ by 5 %.
const offersTolerance = 1.1

// Beyond is a node that reports more than its kind of machine has. What the node has is unknown.
type Beyond struct {
	Node            string
	Reports, Offers resource.Vector
}

// String returns a sentence for operators.
func (b Beyond) String() string {
	for _, k := range resource.Kinds() {
		if b.Reports[k] <= b.Offers[k]*offersTolerance {
			continue
		}
		hint := ""
		if k == resource.Mem || k == resource.Disk {
			hint = fmt.Sprintf(": is --%s of its agent in bytes in place of MB?", k)
		}
		return fmt.Sprintf("node %s reports %s=%.0f, its machine has %.0f: its resources are unknown, and the pool does not shrink%s",
			b.Node, k, b.Reports[k], b.Offers[k], hint)
	}
	return ""
}

// within returns the facts of a node with at most what its machine has. It reports whether they had more resources. Copies
// that have more than the machine are no error of a size, so they are only bounded.
func within(f api.NodeFacts, offers resource.Vector) (api.NodeFacts, bool) {
	if offers.IsZero() {
		return f, false
	}
	beyond := false
	for k := range offers {
		beyond = beyond || f.Resources[k] > offers[k]*offersTolerance
		f.Allocated[k] = min(f.Allocated[k], offers[k]*offersTolerance)
	}
	if !beyond {
		return f, false
	}
	for k := range offers {
		f.Resources[k], f.Allocated[k] = min(f.Resources[k], offers[k]), min(f.Allocated[k], offers[k])
	}
	return f, true
}

// bound returns what a machine has at most: what the provider reports, or what the configuration of its group has, if that is
// more. Operators who let nodes offer more than their machines have name it there. Zero: unknown.
func (s *Snapshot) bound(i pools.Instance) resource.Vector {
	bound, configured := i.Offers, s.machines[i.Group]
	if bound.IsZero() {
		return bound
	}
	for k := range bound {
		bound[k] = max(bound[k], configured[k])
	}
	return bound
}

// sortBeyond puts the nodes in order of id.
func sortBeyond(all []Beyond) {
	slices.SortFunc(all, func(a, b Beyond) int {
		if a.Node < b.Node {
			return -1
		}
		return 1
	})
}
