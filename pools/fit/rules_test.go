package fit_test

import (
	"fmt"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
)

// oneInZone allows one copy of each app in a zone: the first letter of a node's id, or of a group.
type oneInZone struct {
	has     map[string]int // ZONE/APP
	budget  int            // nodes that may be emptied
	refused map[string]bool
}

func (r *oneInZone) key(n *fit.Node, c *fit.Copy) string { return n.ID[:1] + "/" + c.App }

func (r *oneInZone) Refuses(n *fit.Node, c *fit.Copy) string {
	switch {
	case r.refused[c.App]:
		return "not understood"
	case c.Leaves != "" && c.Leaves[:1] == n.ID[:1]:
		return "" // its own zone
	case r.has[r.key(n, c)] > 0:
		return "zone " + n.ID[:1] + " has one"
	}
	return ""
}
func (r *oneInZone) Put(n *fit.Node, c *fit.Copy)    { r.has[r.key(n, c)]++ }
func (r *oneInZone) Remove(n *fit.Node, c *fit.Copy) { r.has[r.key(n, c)]-- }
func (r *oneInZone) Machine(group string) *fit.Node  { return &fit.Node{ID: group} }
func (r *oneInZone) Varies(c *fit.Copy) bool         { return true }
func (r *oneInZone) Keep(n *fit.Node)                { r.budget++ }
func (r *oneInZone) Never(n *fit.Node, c *fit.Copy) string {
	if c.App == "windows" {
		return "no machine has windows"
	}
	return ""
}
func (r *oneInZone) Empty(n *fit.Node) string {
	if r.budget == 0 {
		return "the budget allows no eviction now"
	}
	r.budget--
	return ""
}

// Rules of the scheduler bound where copies go: on nodes, on new machines, and when nodes are emptied.
func TestRulesOfTheScheduler(t *testing.T) {
	solve := func(q api.PlacesQuestion, waiting []fit.Copy, budget int, nodes ...*fit.Node) api.Places {
		t.Helper()
		a := fit.Solve(fit.World{Nodes: nodes, Waiting: waiting, Question: q, Rules: func() fit.Rules {
			r := &oneInZone{has: map[string]int{}, budget: budget, refused: map[string]bool{"odd": true}}
			for _, n := range nodes {
				for i := range n.Copies {
					n.Copies[i].Leaves = n.ID
					r.Put(n, &n.Copies[i])
				}
			}
			return r
		}})
		if err := a.Validate(q); err != nil {
			t.Error(err)
		}
		return a
	}
	kinds := []api.PlacesKind{small("a", 3), small("b", 3), small("c", 3)}
	a := solve(api.PlacesQuestion{Kinds: kinds}, copies(0.1, 0.1, 0.1, 0.1), 0, node("a1"))
	if got := needs(a.New); len(a.New) != 2 || a.ShortCopies != 1 || a.Short[0].Why != "group a: zone a has one; group b: zone b has one; group c: zone c has one" {
		t.Errorf("four copies in three zones: new %s, short %+v, want one in b, one in c, and one short", got, a.Short)
	}
	odd, windows := copies(0.1), copies(0.1)
	odd[0].App, windows[0].App, windows[0].Name = "odd", "windows", "ns/windows-1"
	a = solve(api.PlacesQuestion{Kinds: append(kinds[:1:1], api.PlacesKind{Group: "u", Unknown: true, Weight: 1, Room: 1})}, odd, 0)
	if len(a.New)+len(a.Probe) != 0 || a.ShortCopies != 1 {
		t.Errorf("a copy that the rules refuse everywhere: %+v, want that it is short", a)
	}
	a = solve(api.PlacesQuestion{Kinds: kinds}, windows, 0)
	if a.NeverCopies != 1 || a.Never[0].Why != "no machine has windows" {
		t.Errorf("never %+v, want windows", a.Never)
	}
	leave := api.PlacesQuestion{Leave: []string{"a1", "b1", "c1"}, Most: 3}
	apps := func(id, app string) *fit.Node {
		n := node(id, 0.1)
		n.Copies[0].App = app
		return n
	}
	a = solve(leave, nil, 1, apps("a1", "x"), apps("b1", "y"), apps("c1", "x"), node("a2"), node("b2"))
	if fmt.Sprint(a.Leave) != "[a1]" || a.Stays != 2 || a.Stay[0].Why != "the budget allows no eviction now" {
		t.Errorf("leave %v, stay %v, want a1 alone within the budget", a.Leave, a.Stay)
	}
	a = solve(leave, nil, 3, apps("a1", "x"), apps("b1", "y"), apps("c1", "x"), node("a2"))
	if fmt.Sprint(a.Leave) != "[a1 b1]" || a.Stays != 1 {
		t.Errorf("leave %v, stay %v, want that c1 stays: zone a has an x", a.Leave, a.Stay)
	}
}
