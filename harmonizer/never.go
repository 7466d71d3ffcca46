package harmonizer

import (
	"maps"
	"math"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/resource"
)

// never has the latest list of each pool's scheduler of copies that no machine can hold. The list of a scheduler that is silent
// stays: without it, the pool would grow for these copies.
type never map[string]*neverPool

// maxNeverPools bounds the pools with a list.
const maxNeverPools = 10_000

type neverPool struct {
	apps     map[string]api.PlacesApp
	revision uint64
}

// note replaces the list of a pool.
func (n never) note(ev apps.Never) {
	byApp := make(map[string]api.PlacesApp, len(ev.Apps))
	for _, a := range ev.Apps {
		byApp[a.App] = a
	}
	p := n[ev.Pool]
	if p == nil {
		if len(n) >= maxNeverPools {
			return
		}
		p = &neverPool{}
		n[ev.Pool] = p
	}
	if !maps.Equal(p.apps, byApp) {
		p.apps = byApp
		p.revision++
	}
}

// revision grows with each change of the list of a pool.
func (n never) revision(pool string) uint64 {
	if p := n[pool]; p != nil {
		return p.revision
	}
	return 0
}

// without returns the counts of a pool without the resources of copies that no machine of it can hold. It changes the map of c.
func (n never) without(c api.InstanceCounts) api.InstanceCounts {
	if p := n[c.Pool]; p != nil {
		for app, a := range p.apps {
			if count, ok := c.Apps[app]; ok {
				c.Apps[app] = leaveOut(count, a)
			}
		}
	}
	return c
}

// leaveOut leaves copies out of the expected resources of an app. Copies that run have a place. Copies of another footprint
// than that of the row now are of an earlier row: the scheduler has not checked the new one.
func leaveOut(n api.AppCount, a api.PlacesApp) api.AppCount {
	copies := min(a.Copies, n.Expected-n.Running)
	if copies <= 0 {
		return n
	}
	rest := float64(n.Expected-copies) / float64(n.Expected)
	for k, sum := range [...]*float64{resource.CPUs: &n.CPUs, resource.Mem: &n.Mem, resource.Disk: &n.Disk} {
		want := a.Footprint[k] * float64(n.Expected)
		if math.Abs(*sum-want) > resource.Slack*max(1, want) {
			return n
		}
	}
	n.Never = copies
	n.CPUs, n.Mem, n.Disk = n.CPUs*rest, n.Mem*rest, n.Disk*rest
	return n
}
