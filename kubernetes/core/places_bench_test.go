package core

import (
	"fmt"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

// largeCluster has 5000 nodes in three zones and 20 pods on each, of 1000 apps: a fifth is spread over zones, a fifth keeps apart on
// nodes, and half have a budget. 500 pods wait.
func largeCluster() *Cluster {
	c := newCluster(nil)
	for i := range 5000 {
		c.PutNode(ready(fmt.Sprint(i), func(n *Node) { n.Labels[zoneLabel] = string('a' + rune(i%3)) }))
	}
	const apps = 1000
	all := make([]*Rules, apps)
	for i := range all {
		app := fmt.Sprint("app", i)
		m := &modelApp{name: app}
		switch i % 5 {
		case 0:
			m.spread = []modelSpread{{topology: zoneLabel, skew: 5}}
		case 1:
			m.apart = []modelTerm{{HostnameLabel, app}}
		}
		all[i] = m.rulesOf()
		if i%2 == 0 {
			c.PutBudget(Budget{UID: app, Namespace: "ns", Name: app, Allowed: 10, Matches: labelled(app)})
		}
	}
	for i := range 100_500 {
		node := fmt.Sprint(i % 5000)
		if i >= 100_000 {
			node = ""
		}
		c.PutPod(start, task(fmt.Sprint(i), node, func(p *Pod) {
			p.Req, p.Rules, p.Waits = Vector{CPU: 150, Mem: gib / 4}, all[(i*7+i/5000)%apps], node == ""
		}))
	}
	return c
}

// BenchmarkPlaces measures a question about 2000 candidates.
//
// snapshot: no change is received meanwhile. world and solve: the answer is computed.
func BenchmarkPlaces(b *testing.B) {
	c := largeCluster()
	q := api.PlacesQuestion{Most: api.MaxPlacesLeave, Kinds: []api.PlacesKind{{Group: "g", Resources: resource.Vector{4, 8192, 100 * 1024}, Weight: 1, Slots: 110, Room: 100}}}
	for i := range 2000 {
		q.Leave = append(q.Leave, fmt.Sprint("i-", i))
	}
	in := PlacesInput{Pool: "p", Question: q}
	b.Run("world", func(b *testing.B) {
		for b.Loop() {
			c.Places(start, in)
		}
	})
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			c.Snapshot()
		}
	})
	w, _ := c.Places(start, in)
	b.Run("solve", func(b *testing.B) {
		for b.Loop() {
			if a := fit.Solve(w); a.Validate(q) != nil {
				b.Fatal(a.Validate(q))
			}
		}
		a := fit.Solve(w)
		b.Logf("leave %d, stays %d, waiting %d, new %v, never %d, %v", len(a.Leave), a.Stays, a.Waiting, a.New, a.NeverCopies, a.Stay[:min(2, len(a.Stay))])
	})
}
