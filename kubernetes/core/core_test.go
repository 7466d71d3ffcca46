package core

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

var start = time.Unix(1_800_000_000, 0)

const gib = 1 << 30

// ready returns a node of pool p that is Ready, with 4 cpus and 8 GiB.
func ready(name string, change ...func(*Node)) Node {
	n := Node{
		Name: name, UID: "uid-" + name, ID: "i-" + name, ProviderID: "aws:///z/i-" + name, BootID: "b", Labels: map[string]string{PoolLabel: "p", HostnameLabel: name},
		Alloc: Vector{CPU: 4000, Mem: 8 * gib, Disk: 100 * gib}, Slots: 110, Ready: ReadyTrue,
	}
	for _, f := range change {
		f(&n)
	}
	return n
}

// task returns a pod of 1 cpu and 1 GiB on a node.
func task(name, node string, change ...func(*Pod)) Pod {
	p := Pod{UID: "uid-" + name, Namespace: "ns", Name: name, Node: node, Owner: "ReplicaSet/" + name, Req: Vector{CPU: 1000, Mem: gib}}
	for _, f := range change {
		f(&p)
	}
	return p
}

func waits(p *Pod) {
	p.Node, p.Waits, p.Message = "", true, "0/1 nodes are available: 1 Insufficient cpu."
}

func tainted(key string) func(*Node) {
	return func(n *Node) { n.Taints = append(n.Taints, Taint{Key: key, Effect: "NoSchedule"}) }
}

func newCluster(nodes []Node, pods ...Pod) *Cluster {
	c := New([]Pool{{Name: "p", Default: true}, {Name: "q"}})
	for _, p := range pods { // a pod may come before its node
		c.PutPod(start, p)
	}
	for _, n := range nodes {
		c.PutNode(n)
	}
	return c
}

func TestFactsOfANode(t *testing.T) {
	daemon := func(p *Pod) { p.Kind, p.Req = KindDaemon, Vector{CPU: 200, Mem: gib / 2} }
	c := newCluster([]Node{ready("a", func(n *Node) { n.Labels[zoneLabel], n.Labels[groupLabel] = "z1", "g1" })},
		task("d", "a", daemon), task("t", "a"), task("j", "a", func(p *Pod) { p.Batch, p.Deleting = true, true }), task("other", "b"), task("w", "", waits))
	got, ok := c.Facts("a", start)
	want := Facts{
		Pool: "p", ID: "i-a", Group: "g1", BootID: "b", Zone: "z1",
		Resources: Vector{CPU: 3800, Mem: 8*gib - gib/2, Disk: 100 * gib}, Allocated: Vector{CPU: 2000, Mem: 2 * gib}, Overhead: Vector{CPU: 200, Mem: gib / 2},
		Slots: 110, UsedSlots: 3, Tasks: 2, Batch: 1, SafeToEvict: true, Priority: 2 + 1.024,
		Conditions: []api.NodeCondition{{Type: "Ready"}},
	}
	if diff := cmp.Diff(want, got); !ok || diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	c.DeletePod("uid-j")
	if got, _ := c.Facts("a", start); got.Tasks != 1 || got.Batch != 0 || got.Allocated.CPU != 1000 {
		t.Errorf("after the end of a pod: %+v", got)
	}
}

// A node publishes when it has joined, and its kubelet reports.
func TestNodesThatPublish(t *testing.T) {
	const startup = "startup-taint.cluster-autoscaler.kubernetes.io/gpu"
	notReady := func(n *Node) { n.Ready, n.ReadyWhy = ReadyFalse, "disk full" }
	silent := func(n *Node) { n.Ready = ReadyUnknown }
	for _, tt := range []struct {
		name  string
		nodes []Node // the last one is a
		pods  []Pod
		ok    bool
		why   string // part of the problem of a
	}{
		{"ready", []Node{ready("a")}, nil, true, ""},
		{"not ready yet", []Node{ready("a", notReady)}, nil, false, "not Ready yet"},
		{"not ready after it was ready", []Node{ready("a"), ready("a", notReady)}, nil, true, ""},
		{"another machine of the name is not ready", []Node{ready("a"), ready("a", notReady, func(n *Node) { n.UID = "2" })}, nil, false, "not Ready yet"},
		{"not ready, and has tasks", []Node{ready("a", notReady)}, []Pod{task("t", "a")}, true, ""},
		{"not ready, and has a DaemonSet", []Node{ready("a", notReady)}, []Pod{task("t", "a", func(p *Pod) { p.Kind = KindDaemon })}, false, "not Ready yet"},
		{"startup taint", []Node{ready("a", tainted(startup))}, nil, false, "startup taint " + startup},
		{"startup taint after the start", []Node{ready("a"), ready("a", tainted(startup))}, nil, true, ""},
		{"other taint", []Node{ready("a", tainted("gpu"))}, nil, true, ""},
		{"silent kubelet", []Node{ready("a"), ready("a", silent)}, nil, false, "does not report"},
		{"no providerID", []Node{ready("a", func(n *Node) { n.ID, n.ProviderID = "", "" })}, nil, false, "has no providerID"},
		{"bad providerID", []Node{ready("a", func(n *Node) { n.ID, n.ProviderID = "", "x://a b" })}, nil, false, `"x://a b" does not end with the id`},
		{"no pool", []Node{ready("a", func(n *Node) { n.Labels = nil })}, nil, false, ""},
		{"relabeled", []Node{ready("a"), ready("a", func(n *Node) { n.Labels = map[string]string{PoolLabel: "x"} })}, nil, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(tt.nodes, tt.pods...)
			if _, ok := c.Facts("a", start); ok != tt.ok {
				t.Errorf("publishes = %v, want %v", ok, tt.ok)
			}
			all := c.Problems()
			if tt.why == "" && len(all) > 0 || tt.why != "" && (len(all) != 1 || !strings.Contains(all[0].Why, tt.why)) {
				t.Errorf("problems %v, want one with %q", all, tt.why)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	c := newCluster([]Node{ready("a"), ready("a", tainted("node.kubernetes.io/not-ready"), func(n *Node) {
		n.Ready, n.ReadyWhy, n.Conditions = ReadyFalse, "runtime is down", []api.NodeCondition{{Type: "DiskPressure"}}
	})})
	f, _ := c.Facts("a", start)
	want := []api.NodeCondition{{Type: "Ready", Failed: true, Why: "runtime is down"},
		{Type: "StartupTaint", Failed: true, Why: "the node has the taint node.kubernetes.io/not-ready"}, {Type: "DiskPressure"}}
	if diff := cmp.Diff(want, f.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestTwoNodesWithOneProviderID(t *testing.T) {
	same := func(n *Node) { n.ID = "i-1" }
	c := newCluster([]Node{ready("a", same), ready("b", same)}, task("t", "a"), task("u", "b"))
	f, ok := c.Facts("a", start)
	if _, both := c.Facts("b", start); !ok || both || f.Tasks != 2 || f.Allocated.CPU != 2000 || f.SafeToEvict || !f.Conditions[0].Unknown {
		t.Errorf("two that are Ready: %+v, %v, %v, want one with both tasks that is not safe to evict", f, ok, both)
	}
	if p := c.Problems(); len(p) != 2 || !strings.Contains(p[1].Why, "a, b have the same providerID") {
		t.Errorf("problems %v, want both nodes", p)
	}
	c.Dirty()
	c.PutNode(ready("a", same, func(n *Node) { n.Ready = ReadyUnknown }))
	if d := c.Dirty(); !slices.Equal(d, []string{"a", "b"}) {
		t.Errorf("dirty %q, want both", d)
	}
	f, ok = c.Facts("b", start)
	if _, left := c.Facts("a", start); !ok || left || f.Tasks != 1 || !f.SafeToEvict {
		t.Errorf("one is left over: %+v, %v, %v, want b alone", f, ok, left)
	}
	if name, uid, ok := c.Find("p", "i-1"); name != "b" || uid != "uid-b" || !ok {
		t.Errorf("Find = %s, %s, %v, want b", name, uid, ok)
	}
	c.DeleteNode("a", "another uid")
	c.DeleteNode("a", "uid-a")
	if p := c.Problems(); len(p) != 0 {
		t.Errorf("problems %v, want none", p)
	}
}

func TestSafeToEvict(t *testing.T) {
	until := func(at time.Time) func(*Pod) { return func(p *Pod) { p.Protected = at.Unix() } }
	for _, tt := range []struct {
		name string
		node Node
		pods []Pod
		safe bool
	}{
		{"tasks", ready("a"), []Pod{task("t", "a")}, true},
		{"protected task", ready("a"), []Pod{task("t", "a", func(p *Pod) { p.Protected = Forever })}, false},
		{"task protected for a while", ready("a"), []Pod{task("t", "a", until(start.Add(time.Minute)))}, false},
		{"task protected until now", ready("a"), []Pod{task("t", "a", until(start))}, true},
		{"protected DaemonSet", ready("a"), []Pod{task("t", "a", func(p *Pod) { p.Kind, p.Protected = KindDaemon, Forever })}, true},
		{"protected node", ready("a", func(n *Node) { n.Protected = true }), nil, false},
		{"cordoned by an operator", ready("a", func(n *Node) { n.Unschedulable = true }), nil, false},
		{"cordoned by Weirkeeper", ready("a", tainted(DrainTaint), func(n *Node) { n.Unschedulable = true }), nil, true},
	} {
		c := newCluster([]Node{tt.node}, tt.pods...)
		if f, _ := c.Facts("a", start); f.SafeToEvict != tt.safe {
			t.Errorf("%s: safe to evict %v, want %v", tt.name, f.SafeToEvict, tt.safe)
		}
	}
	c := newCluster([]Node{ready("a", func(n *Node) { n.Unschedulable = true }), ready("b", tainted(DrainTaint), func(n *Node) { n.Unschedulable = true })})
	a, _ := c.Facts("a", start)
	b, _ := c.Facts("b", start)
	if a.Draining || !a.CordonedByOther || !b.Draining || b.CordonedByOther || !slices.Equal(c.Draining(nil), []string{"b"}) {
		t.Errorf("a %+v, b %+v, draining %v", a, b, c.Draining(nil))
	}
}

// A node whose pods request more than it has, and one with so many pods that sums could overflow, still have facts.
func TestExtremes(t *testing.T) {
	huge := func(p *Pod) { p.Req = Vector{1 << 62, 1 << 62, -5, 1 << 62} }
	c := newCluster([]Node{ready("a")}, task("t", "a", huge), task("d", "a", func(p *Pod) { p.Kind = KindDaemon; huge(p) }))
	if f, ok := c.Facts("a", start); !ok || f.Allocated != (Vector{MaxAmount, MaxAmount, 0, MaxAmount}) || f.Resources != (Vector{Disk: 100 * gib}) {
		t.Errorf("facts %+v, %v", f, ok)
	}
	for i := range maxTasks + 1 {
		c.PutPod(start, task(fmt.Sprint(i), "b", huge))
	}
	c.PutNode(ready("b"))
	if f, ok := c.Facts("b", start); !ok || f.Allocated != f.Resources || f.Tasks != maxTasks || f.SafeToEvict {
		t.Errorf("facts with too many pods %+v, %v", f, ok)
	}
	if p := c.Problems(); len(p) != 1 || !strings.Contains(p[0].Why, "8193 pods") {
		t.Errorf("problems %v", p)
	}
	for i := range maxTasks + 1 {
		c.DeletePod(fmt.Sprint("uid-", i))
	}
	if f, _ := c.Facts("b", start); f.Allocated != (Vector{}) || f.Tasks != 0 || !f.SafeToEvict {
		t.Errorf("facts after their end %+v", f)
	}
}

// needs makes a pod wait that selects a label, and tolerates the taint "gpu".
func needs(key, value string) func(*Pod) {
	return func(p *Pod) {
		waits(p)
		p.Rules = &Rules{Selects: func(_ string, labels map[string]string) string {
			if labels[key] != value {
				return fmt.Sprintf("it selects %s=%s", key, value)
			}
			return ""
		}}
	}
}

func intolerant(p *Pod) {
	waits(p)
	p.Rules = &Rules{Tolerates: func(taints []Taint) string {
		if len(taints) > 0 {
			return "it does not tolerate " + taints[0].Key
		}
		return ""
	}}
}

func TestPending(t *testing.T) {
	inQ := func(n *Node) { n.Labels = map[string]string{PoolLabel: "q", "disk": "ssd", HostnameLabel: n.Name} }
	size := func(cpu int64) func(*Pod) { return func(p *Pod) { p.Req = Vector{CPU: cpu} } }
	for _, tt := range []struct {
		name   string
		pod    Pod
		pool   string // empty: none
		never  string // part of the reason
		others string // part of the reason of a pod without a pool
	}{
		{"any pool", task("w", "", waits), "p", "", ""},
		{"selects a pool", task("w", "", needs("disk", "ssd")), "q", "", ""},
		{"selects nothing that exists", task("w", "", needs("disk", "x")), "", "", "no pool has machines for it: pool p: it selects disk=x, pool q: it selects disk=x"},
		{"selects a node", task("w", "", needs(HostnameLabel, "a")), "", "", "it selects kubernetes.io/hostname=a"},
		{"does not tolerate", task("w", "", intolerant), "q", "", ""},
		{"largest that fits", task("w", "", waits, size(3800)), "p", "", ""},
		{"larger than an empty machine without DaemonSets", task("w", "", waits, size(3801)), "p", "it needs 3.801 cpus, the largest machine (node a) has 3.8 cpus", ""},
		{"ten thousand cpus", task("w", "", waits, size(10_000_000)), "p", "it needs 10000 cpus", ""},
		{"bound", task("w", "a"), "", "", ""},
		{"deleting", task("w", "", waits, func(p *Pod) { p.Deleting = true }), "", "", ""},
		{"DaemonSet", task("w", "", waits, func(p *Pod) { p.Kind = KindDaemon }), "", "", ""},
		{"waits for a preemption", task("w", ""), "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster([]Node{ready("a", tainted("gpu"), tainted(DrainTaint)), ready("b", inQ)}, task("d", "a", func(p *Pod) { p.Kind, p.Req = KindDaemon, Vector{CPU: 200} }), tt.pod)
			if early, _ := c.Pending(start.Add(time.Second), 2*time.Second); len(early["p"].Pods)+len(early["q"].Pods) > 0 {
				t.Errorf("pending before the grace: %+v", early)
			}
			got, others := c.Pending(start.Add(2*time.Second), 2*time.Second)
			for pool, p := range got {
				if want := one(pool == tt.pool); len(p.Pods) != want {
					t.Errorf("pool %s has %+v, want %d pods", pool, p.Pods, want)
				}
			}
			if p := got[tt.pool]; tt.pool != "" && (p.Sum != tt.pod.Req.Resources() || p.Pods[0].Never != (tt.never != "") || !strings.Contains(p.Pods[0].Why, tt.never) || p.Never != resourceIf(tt.never != "", p.Sum)) {
				t.Errorf("pending %+v, want never %q", p, tt.never)
			}
			if tt.others == "" && len(others) > 0 || tt.others != "" && (len(others) != 1 || !strings.Contains(others[0].Why, tt.others)) {
				t.Errorf("others %+v, want %q", others, tt.others)
			}
		})
	}
}

func resourceIf(is bool, v resource.Vector) resource.Vector {
	if is {
		return v
	}
	return resource.Vector{}
}

// Pods of a pool without nodes use its templates, or else its labels alone. What was learned from nodes comes first.
func TestShapesOfAnEmptyPool(t *testing.T) {
	c := New([]Pool{{Name: "p"}, {Name: "q", Templates: []Shape{{Labels: map[string]string{"disk": "ssd"}, Room: Vector{CPU: 2000}, Sized: true}}}})
	c.PutPod(start, task("a", "", needs(PoolLabel, "p"), func(p *Pod) { p.Req.CPU = 1 << 40 }))
	c.PutPod(start, task("b", "", needs("disk", "ssd"), func(p *Pod) { p.Req = Vector{CPU: 3000} }))
	got, _ := c.Pending(start, 0)
	if p := got["p"]; len(p.Pods) != 1 || p.Pods[0].Never || p.Sizes != nil {
		t.Errorf("pool without nodes and templates: %+v, want a pod that may fit", p)
	}
	if q := got["q"]; len(q.Pods) != 1 || q.Pods[0].Why != "it needs 3 cpus, the largest machine (template 1 of pool q) has 2 cpus" {
		t.Errorf("pool with a template: %+v", q)
	}
	c.PutNode(ready("n", func(n *Node) { n.Labels = map[string]string{PoolLabel: "q", "disk": "ssd"} }))
	if got, _ := c.Pending(start, 0); got["q"].Pods[0].Never || len(got["q"].Sizes) != 1 {
		t.Errorf("pool with a node: %+v, want that the pod fits", got["q"])
	}
}

// A shape has only the labels that all of its nodes have.
func TestLearnedShapes(t *testing.T) {
	label := func(key, value string) func(*Node) { return func(n *Node) { n.Labels[key] = value } }
	c := newCluster([]Node{ready("a", label("id", "1"), label("k", "v")), ready("b", label("id", "2"), label("k", "v")), ready("c", label(zoneLabel, "z"))})
	got := c.learn()[0]
	if len(got) != 2 || !maps.Equal(got[0].Labels, map[string]string{PoolLabel: "p", "k": "v"}) || got[1].Labels[zoneLabel] != "z" {
		t.Errorf("shapes %+v", got)
	}
	version := c.shapes.version
	c.PutPod(start, task("t", "a"))
	c.learn()
	if c.shapes.version != version {
		t.Error("a task changed the shapes")
	}
}

// Random events give the same sums as a count of all pods at the end, whatever their order.
func TestSumsEqualARecount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New([]Pool{{Name: "p"}})
		nodes, pods := map[string]Node{}, map[string]Pod{}
		drawPod := func(uid string) Pod {
			p := Pod{UID: uid, Namespace: "ns", Name: uid, Node: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "node")}
			p.Req = Vector{CPU: rapid.Int64Range(-1, 1<<55).Draw(t, "cpu"), Mem: rapid.Int64Range(0, gib).Draw(t, "mem")}
			p.Kind, p.Batch = Kind(rapid.IntRange(0, 1).Draw(t, "kind")), rapid.Bool().Draw(t, "batch")
			p.Waits = p.Node == "" && rapid.Bool().Draw(t, "waits")
			return p
		}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			uid := rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(t, "uid")
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0, 1, 2:
				pods[uid] = drawPod(uid)
				c.PutPod(start, pods[uid])
			case 3:
				delete(pods, uid)
				c.DeletePod(uid)
			case 4:
				n := ready(name, func(n *Node) {
					n.UID = name + uid
					n.ID = rapid.SampledFrom([]string{"", "i-1", "i-" + name}).Draw(t, "id")
				})
				nodes[name] = n
				c.PutNode(n)
			case 5:
				if nodes[name].UID == name+uid {
					delete(nodes, name)
				}
				c.DeleteNode(name, name+uid)
			case 6:
				kept := map[string]bool{uid: true}
				maps.DeleteFunc(pods, func(u string, _ Pod) bool { return !kept[u] })
				c.KeepPods(kept)
			}
		}
		recount(t, c, nodes, pods)
	})
}

// recount compares the sums with those of a new cluster that receives the final state, and of a plain loop.
func recount(t *rapid.T, c *Cluster, nodes map[string]Node, pods map[string]Pod) {
	fresh := New(c.pools)
	for _, n := range nodes {
		fresh.PutNode(n)
	}
	for _, p := range pods {
		fresh.PutPod(start, p)
	}
	for _, name := range []string{"a", "b", "c"} {
		want, wantOK := fresh.Facts(name, start)
		got, ok := c.Facts(name, start)
		if diff := cmp.Diff(want, got); ok != wantOK || diff != "" {
			t.Fatalf("facts of %s: %v, want %v (-want +got):\n%s", name, ok, wantOK, diff)
		}
		tasks, sum := 0, Vector{}
		for _, p := range pods {
			if p.Node == name && p.Kind == KindTask {
				tasks, sum = tasks+1, sum.add(p.Req.clamped())
			}
		}
		if s := c.nodes[name]; s != nil && (s.tasks.n != tasks || s.tasks.sum != sum || len(c.Tasks(name)) != tasks) || s == nil && tasks > 0 {
			t.Fatalf("node %s has %+v, want %d tasks with %+v", name, s, tasks, sum)
		}
	}
	got, _ := c.Pending(start, 0)
	want, _ := fresh.Pending(start, 0)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("pending (-want +got):\n%s", diff)
	}
	if n, p := c.Size(); n != len(nodes) || p != len(pods) {
		t.Fatalf("size %d, %d, want %d, %d", n, p, len(nodes), len(pods))
	}
	if len(nodes)+len(pods) == 0 && len(c.nodes)+len(c.ids)+len(c.waiting) > 0 {
		t.Fatalf("an empty cluster keeps %d nodes, %d ids, %d pods that wait", len(c.nodes), len(c.ids), len(c.waiting))
	}
}

// BenchmarkPending measures 10,000 pods that wait in a cluster of 5000 nodes, after the shapes have changed.
func BenchmarkPending(b *testing.B) {
	c := newCluster(nil)
	for i := range 5000 {
		c.PutNode(ready(fmt.Sprint(i)))
	}
	for i := range 10_000 {
		c.PutPod(start, task(fmt.Sprint(i), "", needs(PoolLabel, "p")))
	}
	for i := 0; b.Loop(); i++ {
		c.PutNode(ready("0", func(n *Node) { n.Labels["version"] = fmt.Sprint(i) }))
		if got, _ := c.Pending(start, 0); len(got["p"].Pods) != 10_000 {
			b.Fatalf("%d pods", len(got["p"].Pods))
		}
	}
}
