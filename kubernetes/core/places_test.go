package core

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools/fit"
	"github.com/weirkeeper/weirkeeper/resource"
)

func ruled(r *Rules) func(*Pod) {
	return func(p *Pod) {
		if r.Namespace = "ns"; r.Labels == nil {
			r.Labels = map[string]string{"app": "web"}
		}
		p.Rules = r
	}
}

func selecting(key, value string) func(string, map[string]string) string {
	return func(_ string, l map[string]string) string {
		if l[key] != value {
			return "it selects " + key + "=" + value
		}
		return ""
	}
}

func noTaints(taints []Taint) string {
	if len(taints) > 0 {
		return "it does not tolerate the taint " + taints[0].Key
	}
	return ""
}

func in(zone string) func(*Node) { return func(n *Node) { n.Labels[zoneLabel] = zone } }

func web(ns string, l map[string]string) bool { return l["app"] == "web" }

// places answers a question. A cluster of the tests has the pool p.
func places(t *testing.T, c *Cluster, q api.PlacesQuestion, change ...func(*PlacesInput)) api.Places {
	t.Helper()
	in := PlacesInput{Pool: "p", Question: q}
	for _, f := range change {
		f(&in)
	}
	w, _ := c.Places(start, in)
	a := fit.Solve(w)
	if err := a.Validate(q); err != nil {
		t.Error(err)
	}
	return a
}

// Each rule of kube-scheduler keeps a pod of node a from the only other node, b.
func TestPredicatesOfNodes(t *testing.T) {
	none := "ns/t (cpus=1 mem=1024) has no other place"
	keepsApart := &Rules{Apart: []Apart{{Key: "web", Topology: HostnameLabel, Matches: web}}}
	for _, tt := range []struct {
		name string
		a, b []func(*Node)
		pod  []func(*Pod)
		more []Pod // beside pod t on a
		want string
	}{
		{"no rules", nil, nil, nil, nil, ""},
		{"full", nil, nil, nil, []Pod{task("x", "b", func(p *Pod) { p.Req.CPU = 3500 })}, none},
		{"selector", nil, nil, []func(*Pod){ruled(&Rules{Selects: selecting(zoneLabel, "z")})}, nil, none},
		{"selector that matches", nil, []func(*Node){in("z")}, []func(*Pod){ruled(&Rules{Selects: selecting(zoneLabel, "z")})}, nil, ""},
		{"taint", nil, []func(*Node){tainted("gpu")}, []func(*Pod){ruled(&Rules{Tolerates: noTaints})}, nil, none},
		{"tolerated taint", nil, []func(*Node){tainted("gpu")}, []func(*Pod){ruled(&Rules{})}, nil, ""},
		{"port", nil, nil, []func(*Pod){ruled(&Rules{Ports: []Port{{"TCP", 80}}})}, []Pod{task("x", "b", ruled(&Rules{Ports: []Port{{"TCP", 80}}}))}, none},
		{"port of a daemon", nil, nil, []func(*Pod){ruled(&Rules{Ports: []Port{{"TCP", 80}}})},
			[]Pod{task("x", "b", ruled(&Rules{Ports: []Port{{"TCP", 80}}}), func(p *Pod) { p.Kind = KindDaemon })}, none},
		{"other protocol", nil, nil, []func(*Pod){ruled(&Rules{Ports: []Port{{"TCP", 80}}})}, []Pod{task("x", "b", ruled(&Rules{Ports: []Port{{"UDP", 80}}}))}, ""},
		{"slots", nil, []func(*Node){func(n *Node) { n.Slots = 1 }}, nil, []Pod{task("x", "b")}, none},
		{"anti-affinity", nil, nil, []func(*Pod){ruled(keepsApart)}, []Pod{task("x", "b", ruled(&Rules{}))}, none},
		{"anti-affinity of the other", nil, nil, []func(*Pod){ruled(&Rules{})}, []Pod{task("x", "b", ruled(keepsApart))}, none},
		{"anti-affinity to another app", nil, nil, []func(*Pod){ruled(keepsApart)}, []Pod{task("x", "b", ruled(&Rules{Labels: map[string]string{"app": "db"}}))}, ""},
		{"anti-affinity in one zone", []func(*Node){in("z")}, []func(*Node){in("z")}, []func(*Pod){ruled(&Rules{Apart: []Apart{{Key: "zone", Topology: zoneLabel, Matches: web}}})}, nil, ""},
		{"spread over nodes", nil, nil, []func(*Pod){ruled(&Rules{Spread: []Spread{{Topology: HostnameLabel, MaxSkew: 1, Matches: func(l map[string]string) bool { return web("", l) }}}})},
			[]Pod{task("x", "b", ruled(&Rules{}))}, none},
		{"spread over zones, in one", []func(*Node){in("z")}, []func(*Node){in("z")},
			[]func(*Pod){ruled(&Rules{Spread: []Spread{{Topology: zoneLabel, MaxSkew: 1, Matches: func(l map[string]string) bool { return web("", l) }}}})}, nil, ""},
		{"spread without the label", []func(*Node){in("z")}, nil, []func(*Pod){ruled(&Rules{Spread: []Spread{{Topology: zoneLabel, MaxSkew: 9, Matches: func(map[string]string) bool { return true }}}})}, nil, none},
		{"volume", []func(*Node){in("y")}, []func(*Node){in("z")}, []func(*Pod){func(p *Pod) { p.Claims = []string{"ns/y"} }}, nil, none},
		{"volume of that zone", nil, []func(*Node){in("y")}, []func(*Pod){func(p *Pod) { p.Claims = []string{"ns/y"} }}, nil, ""},
		{"unbound volume", nil, nil, []func(*Pod){func(p *Pod) { p.Claims = []string{"ns/x"} }}, nil, "ns/t: not understood: the claim ns/x without a bound volume"},
		{"not understood", nil, nil, []func(*Pod){ruled(&Rules{Unknown: "pod affinity"})}, nil, "ns/t: not understood: pod affinity"},
		{"protected", nil, nil, []func(*Pod){func(p *Pod) { p.Protected = Forever }}, nil, "ns/t must not be evicted: an annotation forbids it, or it has no controller"},
		{"protected node", []func(*Node){func(n *Node) { n.Protected = true }}, nil, nil, nil, "an annotation of the node forbids to remove it"},
		{"not Ready", []func(*Node){func(n *Node) { n.Ready = ReadyFalse }}, nil, nil, nil, "it is not Ready"},
		{"the other is not Ready", nil, []func(*Node){func(n *Node) { n.Ready = ReadyFalse }}, nil, nil, none},
		{"the other is cordoned", nil, []func(*Node){func(n *Node) { n.Unschedulable = true }}, nil, nil, none},
		{"the other drains", nil, []func(*Node){tainted(DrainTaint)}, nil, nil, none},
		{"room is for a new pod", nil, nil, nil, []Pod{task("x", "", func(p *Pod) { p.New, p.Req.CPU = true, 3500 })}, none},
		{"a pod that ends", nil, nil, []func(*Pod){func(p *Pod) { p.Deleting, p.Req.CPU = true, 4000 }}, []Pod{task("x", "b")}, ""},
	} {
		c := newCluster([]Node{ready("a"), ready("b")}, append(tt.more, task("t", "a", tt.pod...))...) // both have joined
		c.PutNode(ready("a", tt.a...))
		c.PutNode(ready("b", tt.b...))
		c.PutVolume(Volume{UID: "v", Claim: "ns/y", Selects: selecting(zoneLabel, "y")})
		got := places(t, c, api.PlacesQuestion{Leave: []string{"i-a"}, Most: 1})
		why := ""
		for _, s := range got.Stay {
			why = s.Why
		}
		if (len(got.Leave) == 1) != (tt.want == "") || why != tt.want {
			t.Errorf("%s: leave %v, why %q, want %q", tt.name, got.Leave, why, tt.want)
		}
	}
}

// New machines are like the nodes of their group: with their labels and taints, without room for the daemons and the ports of each node.
func TestPredicatesOfNewMachines(t *testing.T) {
	group := func(name string, more ...func(*Node)) []func(*Node) {
		return append(more, func(n *Node) { n.Labels[groupLabel], n.Slots = name, 4 })
	}
	full := func(p *Pod) { p.Req.CPU = 3900 }
	kinds := func(names ...string) (all []api.PlacesKind) {
		for _, name := range names {
			all = append(all, api.PlacesKind{Group: name, Resources: resource.Vector{4, 8192, 100 * 1024}, Weight: 1, Slots: 4, Room: 9, Why: "is at its maximum"})
		}
		return all
	}
	small := func(p *Pod) { p.Req = Vector{CPU: 100} }
	for _, tt := range []struct {
		name  string
		kinds []api.PlacesKind
		pod   []func(*Pod)
		n     int
		want  string
	}{
		{"any", kinds("x", "y"), nil, 1, "1 x"},
		{"by a label", kinds("x", "y"), []func(*Pod){ruled(&Rules{Selects: selecting(zoneLabel, "zy")})}, 1, "1 y"},
		{"by a taint", kinds("t", "y"), []func(*Pod){ruled(&Rules{Tolerates: noTaints})}, 1, "1 y"},
		{"no group has the label", kinds("x"), []func(*Pod){ruled(&Rules{Selects: selecting(zoneLabel, "zy")})}, 1, "short: group x: it selects topology.kubernetes.io/zone=zy"},
		{"apart", kinds("x"), []func(*Pod){ruled(&Rules{Apart: []Apart{{Key: "k", Topology: HostnameLabel, Matches: web}}})}, 3, "3 x"},
		{"apart in zones", kinds("x", "y"), []func(*Pod){ruled(&Rules{Apart: []Apart{{Key: "k", Topology: zoneLabel, Matches: web}}})}, 3,
			"1 x, 1 y, short: group x: anti-affinity by topology.kubernetes.io/zone; group y: anti-affinity by topology.kubernetes.io/zone"},
		{"spread over zones", kinds("x", "y"), []func(*Pod){ruled(&Rules{Spread: []Spread{{Topology: zoneLabel, MaxSkew: 1, MinDomains: 1, Matches: func(l map[string]string) bool { return web("", l) }}}}), full}, 4, "2 x, 2 y"},
		{"slots beside one daemon on each node", kinds("x"), []func(*Pod){small}, 7, "3 x"},
		{"the port of a daemon", kinds("x"), []func(*Pod){ruled(&Rules{Ports: []Port{{"TCP", 9100}}})}, 1, "short: group x: port 9100 is in use"},
		{"a port", kinds("x"), []func(*Pod){ruled(&Rules{Ports: []Port{{"TCP", 80}}})}, 2, "2 x"},
		{"not understood", kinds("x"), []func(*Pod){ruled(&Rules{Unknown: "pod affinity"})}, 1, "short: group x: not understood: pod affinity"},
		{"not understood, and too large", kinds("x"), []func(*Pod){ruled(&Rules{Unknown: "pod affinity"}), func(p *Pod) { p.Req.CPU = 1e7 }}, 1,
			"never: it needs 10000 cpus, the largest machine (group x) has 4 cpus"},
	} {
		nodes := []Node{ready("x", group("x", in("zx"))...), ready("y", group("y", in("zy"))...), ready("t", group("t", tainted("gpu"))...)}
		pods := []Pod{}
		for i := range nodes {
			if tt.name == "no group has the label" {
				nodes[i].Labels[zoneLabel] = "zx"
			}
			nodes[i].Unschedulable = true // they take nothing
			pods = append(pods, task("daemon-"+nodes[i].Name, nodes[i].Name, ruled(&Rules{Labels: map[string]string{}, Ports: []Port{{"TCP", 9100}}}), small, func(p *Pod) { p.Kind = KindDaemon }))
		}
		r := &Pod{}
		for _, f := range tt.pod {
			f(r)
		}
		for i := range tt.n {
			pods = append(pods, task(fmt.Sprint("w", i), "", append(tt.pod, func(p *Pod) { p.Waits, p.Rules, p.Owner = true, r.Rules, "ReplicaSet/web" })...))
		}
		c := newCluster(nodes, pods...)
		if tt.name == "no group has the label" { // then the pod has no pool, unless the pool has such a machine
			c.PutNode(ready("z", in("zy")))
			c.PutNode(ready("z", in("zy"), func(n *Node) { n.Unschedulable = true }))
		}
		var got []string
		a := places(t, c, api.PlacesQuestion{Kinds: tt.kinds, Aside: []string{"i-z"}})
		for _, n := range a.New {
			got = append(got, fmt.Sprint(n.Nodes, " ", n.Group))
		}
		for _, s := range a.Short {
			got = append(got, "short: "+s.Why)
		}
		for _, s := range a.Never {
			got = append(got, "never: "+s.Why)
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, strings.Join(got, ", "), tt.want)
		}
	}
}

// A node that leaves, and whose pod has no other place, is taken back first.
func TestBackOfANode(t *testing.T) {
	c := newCluster([]Node{ready("a", tainted(DrainTaint)), ready("b")}, task("t", "a"), task("x", "b", func(p *Pod) { p.Req.CPU = 3500 }))
	a := places(t, c, api.PlacesQuestion{Gone: []string{"i-a"}})
	if fmt.Sprint(a.Back) != "[i-a]" || a.Waiting != 1 || a.ShortCopies != 1 {
		t.Errorf("%+v, want that a is taken back", a)
	}
	a = places(t, c, api.PlacesQuestion{})
	if len(a.Back) != 0 || a.Waiting != 1 {
		t.Errorf("%+v, want that the pod of the node that drains waits", a)
	}
}

// Headroom is places of one size; an app has none here.
func TestHeadroomOfAPool(t *testing.T) {
	c := newCluster([]Node{ready("a"), ready("b")}, task("t", "a"))
	q := api.PlacesQuestion{Leave: []string{"i-a", "i-b"}, Most: 2, Headroom: []api.Headroom{{Name: "spare", Count: 4, Resources: resource.Vector{1, 512}}, {Name: "app", Count: 1, App: "web"}}}
	a := places(t, c, q)
	if len(a.Leave) != 0 || a.Headroom[0].Free != 4 || !strings.Contains(a.Headroom[1].Why, "has no app web") {
		t.Errorf("leave %v, headroom %+v", a.Leave, a.Headroom)
	}
}

// Without budgets or volumes, no node leaves.
func TestUnknownParts(t *testing.T) {
	c := newCluster([]Node{ready("a"), ready("b")}, task("t", "a", ruled(&Rules{}), func(p *Pod) { p.Claims = []string{"ns/x"} }))
	q := api.PlacesQuestion{Leave: []string{"i-a", "i-b"}, Most: 2}
	if a := places(t, c, q, func(in *PlacesInput) { in.Budgets = "away" }); len(a.Leave) > 0 || a.Stay[0].Why != "the disruption budgets of pods are unknown: away" {
		t.Errorf("%+v", a)
	}
	if a := places(t, c, q, func(in *PlacesInput) { in.Volumes = "away" }); fmt.Sprint(a.Leave) != "[i-b]" || a.Stay[0].Why != "ns/t: not understood: its volumes: away" {
		t.Errorf("%+v", a)
	}
	c.PutBudget(Budget{UID: "1", Namespace: "ns", Name: "one", Allowed: 9, Matches: func(map[string]string) bool { return true }})
	c.PutBudget(Budget{UID: "2", Namespace: "ns", Name: "two", Allowed: 9, Matches: func(map[string]string) bool { return true }})
	c.PutVolume(Volume{UID: "v", Claim: "ns/x"})
	if a := places(t, c, q); fmt.Sprint(a.Leave) != "[i-b]" || a.Stay[0].Why != "ns/t has 2 disruption budgets, so its eviction is refused" {
		t.Errorf("%+v", a)
	}
	c.KeepBudgets(map[string]bool{"1": true})
	c.KeepVolumes(nil)
	if a := places(t, c, q); fmt.Sprint(a.Leave) != "[i-b]" || !strings.Contains(a.Stay[0].Why, "without a bound volume") || len(c.claims) > 0 {
		t.Errorf("%+v", a)
	}
}
