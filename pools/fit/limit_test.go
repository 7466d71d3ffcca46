package fit_test

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
)

func limited(all []fit.Copy, limits ...fit.Limit) []fit.Copy {
	for i := range all {
		all[i].Limits = limits
	}
	return all
}

// A copy whose port is in use, or whose app has enough copies, on each node with room needs a machine of its own.
func TestMachinesForCopiesWithLimits(t *testing.T) {
	port := fit.Limit{Held: fit.Held{Port: 8080}, Most: 1}
	two := fit.Limit{Held: fit.Held{App: "web"}, Most: 2}
	having := func(n *fit.Node, h fit.Held, count int) *fit.Node {
		n.Has = map[fit.Held]int{h: count}
		return n
	}
	for _, tt := range []struct {
		name    string
		nodes   []*fit.Node
		waiting []fit.Copy
		want    string // new | short
	}{
		{"the port is free", []*fit.Node{node("n")}, limited(copies(0.1), port), "| "},
		{"the port is in use", []*fit.Node{having(node("n"), port.Held, 1)}, limited(copies(0.1), port), "1 a of weight 1 for 1, web/0 first| "},
		{"one copy on each machine", nil, limited(copies(0.1, 0.1, 0.1), port), "3 a of weight 3 for 3, web/0 first| "},
		{"beside others", []*fit.Node{node("n")}, append(limited(copies(0.1, 0.1), port), fit.Copy{App: "db", Footprint: copies(0.1)[0].Footprint}),
			"1 a of weight 1 for 1, web/1 first| "},
		{"two of an app", []*fit.Node{having(node("n"), two.Held, 1)}, limited(copies(0.1, 0.1, 0.1, 0.1), two), "2 a of weight 2 for 3, web/1 first| "},
		{"no machine is left", nil, limited(copies(0.1, 0.1, 0.1, 0.1), port), "3 a of weight 3 for 3, web/0 first| 1 of web: group a is at its maximum"},
	} {
		kind := small("a", 3)
		kind.Why = "is at its maximum"
		q := api.PlacesQuestion{Kinds: []api.PlacesKind{kind}}
		a := fit.Solve(fit.World{Nodes: tt.nodes, Waiting: tt.waiting, Question: q})
		var short []string
		for _, s := range a.Short {
			short = append(short, "1 of "+s.App+": "+s.Why)
		}
		if got := needs(a.New) + "| " + strings.Join(short, "; "); got != tt.want || a.Validate(q) != nil {
			t.Errorf("%s: %q, want %q; %v", tt.name, got, tt.want, a.Validate(q))
		}
	}
}

// A node stays if the port of its copy is in use on each other node.
func TestNodesWithPortsStay(t *testing.T) {
	port := fit.Limit{Held: fit.Held{Port: 8080}, Most: 1}
	var nodes []*fit.Node
	for _, id := range []string{"n1", "n2", "n3"} {
		n := node(id, 0.1)
		if id != "n3" {
			limited(n.Copies, port)
			n.Has = map[fit.Held]int{port.Held: 1}
		}
		nodes = append(nodes, n)
	}
	q := api.PlacesQuestion{Leave: []string{"n1", "n2"}, Most: 2}
	a := fit.Solve(fit.World{Nodes: nodes, Question: q})
	if len(a.Leave) != 1 || a.Leave[0] != "n1" || len(a.Stay) != 1 || a.Stay[0].Why != "n2/0 (cpus=0.1 mem=64, port 8080) has no other place" {
		t.Errorf("leave %v, stay %v, want n1 leaves, and n2 stays for its port", a.Leave, a.Stay)
	}
}
