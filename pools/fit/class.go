package fit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// class has the copies of one footprint, and with the same limits, that have no place yet.
type class struct {
	footprint resource.Vector
	limits    []Limit
	share     float64 // the dominant share of one copy; infinite if nothing has such a resource
	copies    []*Copy
	group     string // the only group for them; empty: any
	headroom  int    // as of a Copy
	rule      any
}

// classKey is what the copies of a class have in common.
type classKey struct {
	footprint resource.Vector
	limits    string
	group     string
	headroom  int
	rule      any
}

func keyOf(c *Copy) classKey {
	return classKey{c.Footprint, ClassKey(c.Limits), c.Group, c.headroom, c.Rule}
}

// classes returns the copies by footprint and limits, the largest first. Copies of one class are in order of app and index.
func classes(copies []Copy, unit resource.Vector) []*class {
	byKey := map[classKey]*class{}
	var all []*class
	for i := range copies {
		one := &copies[i]
		key := keyOf(one)
		c := byKey[key]
		if c == nil {
			c = &class{footprint: one.Footprint, limits: one.Limits, share: Share(one.Footprint, unit), group: one.Group, headroom: one.headroom, rule: one.Rule}
			byKey[key] = c
			all = append(all, c)
		}
		c.copies = append(c.copies, one)
	}
	for _, c := range all {
		slices.SortFunc(c.copies, compareCopies)
	}
	slices.SortFunc(all, func(a, b *class) int {
		return cmp.Or(cmp.Compare(b.share, a.share), slices.Compare(b.footprint[:], a.footprint[:]), strings.Compare(ClassKey(a.limits), ClassKey(b.limits)),
			cmp.Compare(a.headroom, b.headroom), compareCopies(a.copies[0], b.copies[0]))
	})
	return all
}

func compareCopies(a, b *Copy) int {
	return cmp.Or(strings.Compare(a.App, b.App), cmp.Compare(a.Index, b.Index), strings.Compare(a.Leaves, b.Leaves))
}

// bounds returns how much the copies are bound to some nodes.
func (c *class) bounds() int {
	n := len(c.limits)
	if c.group != "" {
		n++
	}
	return n
}

// in reports whether the copies may be on machines of a group.
func (c *class) in(group string) bool { return c.group == "" || c.group == group }

// assign removes the first copies of the class, counts them for the machines of a need, and returns them.
func (c *class) assign(need *api.PlacesNeed, n int) (taken []*Copy) {
	taken, c.copies = c.copies[:n], c.copies[n:]
	if c.headroom > 0 {
		need.Places += n
	} else {
		need.Copies += n
	}
	return taken
}
