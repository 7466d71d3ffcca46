//go:build plane

package e2e

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	kubernetes "github.com/weirkeeper/weirkeeper/kubernetes/adapter"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
	vector "github.com/weirkeeper/weirkeeper/resource"
)

// worlds is how many random worlds run: 20, or WORLDS.
func worlds(t *testing.T) int {
	text := os.Getenv("WORLDS")
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("WORLDS: %v", err)
	}
	return n
}

const replicaSets, podBudgets = "/apis/apps/v1/namespaces/default/replicasets", "/apis/policy/v1/namespaces/default/poddisruptionbudgets"

// randomWorld has Node objects that the test makes, pods of random apps, the real scheduler and controllers, and an adapter.
type randomWorld struct {
	*plane
	kubelets *kubelets
	nc       *nats.Conn
	adapter  *kubernetes.Adapter
	r        *rand.Rand
	groups   []group
	apps     []*app
	nodes    map[string]group // by name
	changed  time.Time        // when a node was last made or changed
	cordons  uint64
	number   int // of the world
	made     int // nodes, of all worlds
}

// group is a kind of machine.
type group struct {
	name, zone, disk string
	cpus, slots      int
	gpu              bool // it has a taint
}

// app is a ReplicaSet.
type app struct {
	name     string
	replicas int
	never    bool // no machine can hold a pod of it
}

// In random worlds, pods that some machine can hold run on the machines that the answers request, and then none is requested. The nodes
// that may leave are cordoned at the same time and emptied within the budgets: their pods run elsewhere.
func TestRandomWorlds(t *testing.T) {
	parallel(t)
	w := startRandom(t)
	count, emptied, returned, added := worlds(t), 0, 0, 0
	for w.number = range count {
		w.r = rand.New(rand.NewPCG(42, uint64(w.number)))
		w.begin()
		w.follow(nil)
		w.atRest()
		for _, a := range w.apps {
			a.replicas = w.r.IntN(a.replicas + 1)
			w.must(http.MethodPatch, replicaSets+"/"+a.name, map[string]any{"spec": map[string]any{"replicas": a.replicas}}, nil)
		}
		w.follow(nil)
		leave := w.mayLeave()
		for _, id := range leave {
			w.cordon(id, true)
		}
		back, more := w.follow(leave)
		emptied, returned, added = emptied+len(leave), returned+back, added+more
		w.atRest()
		w.end()
	}
	t.Logf("%d worlds: %d nodes were made, %d were to be emptied, %d of them were taken back, and %d more made for their pods", count, w.made, emptied, returned, added)
	// kube-scheduler may put the pods elsewhere than the answer did, so that the last one has no place.
	if emptied < count/2 || returned+added > max(1, count/5) {
		t.Errorf("want half a node to empty in each world, and places for its pods in at least 4 of 5 worlds")
	}
}

// startRandom starts the control plane and the adapter.
func startRandom(t *testing.T) *randomWorld {
	w := &randomWorld{plane: startPlane(t), nodes: map[string]group{}}
	w.startControllers("1h") // there are no kubelets that renew leases
	w.report = w.describe
	w.kubelets = &kubelets{T: t, api: w.client, nodes: map[string]*kubelet{}, names: map[string]*kubelet{}, pods: map[string]*corev1.Pod{}, busy: map[string]bool{}, seen: map[string]bool{}}
	nats := bustest.Serve(t, server.Options{})
	w.nc = bustest.Connect(t, nats.ClientURL())
	write(t, w.path("admin.token"), admin)
	client, err := kube.New(kube.Config{Server: w.url(), CAFile: w.ca(), TokenFile: w.path("admin.token")})
	if err == nil {
		w.adapter, err = kubernetes.New(kubernetes.Config{
			Cluster: cluster, Period: time.Second, Grace: time.Millisecond, FirstBackoff: 100 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
			Pools: []kubernetes.Pool{{Pool: core.Pool{Name: pool, Default: true}, Conn: bustest.Connect(t, nats.ClientURL())}},
		}, client)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.kubelets.followPods(ctx, &wg) })
	wg.Go(func() { _ = w.adapter.Run(ctx) }) // it ends with ctx
	t.Cleanup(func() { stop(); wg.Wait() })
	return w
}

// begin makes a node of each group, and the apps.
func (w *randomWorld) begin() {
	w.groups, w.apps = nil, nil
	gpu := w.r.IntN(2) == 0
	for _, disk := range []string{"ssd", "hdd"} {
		cpus, slots := 2+w.r.IntN(3), 4+w.r.IntN(5)
		for _, zone := range []string{"a", "b"} {
			w.groups = append(w.groups, group{zone + "-" + disk, zone, disk, cpus, slots, gpu && disk == "hdd"})
			w.makeNode(w.groups[len(w.groups)-1])
		}
	}
	for i := range 2 + w.r.IntN(3) {
		a := &app{name: fmt.Sprintf("w%d-app%d", w.number, i), replicas: 1 + w.r.IntN(6), never: w.r.IntN(8) == 0}
		w.apps = append(w.apps, a)
		set, budget := w.randomSet(a)
		w.must(http.MethodPost, replicaSets, set, nil)
		if budget != nil {
			w.must(http.MethodPost, podBudgets, budget, nil)
		}
	}
}

// makeNode makes a node of a group, and waits until it takes pods.
func (w *randomWorld) makeNode(g group) {
	w.made++
	name := fmt.Sprintf("w%d-n%d", w.number, w.made)
	n := kubelet{instance: instance{ID: "i-" + name}, name: name, end: func() {}}
	s := status(&n)
	s.Allocatable = amounts(fmt.Sprint(g.cpus), "16Gi")
	s.Allocatable[corev1.ResourcePods], s.Allocatable[corev1.ResourceEphemeralStorage] = amount(fmt.Sprint(g.slots)), amount("50Gi")
	s.Capacity = s.Allocatable
	o := corev1.Node{Spec: corev1.NodeSpec{ProviderID: "aws:///" + g.zone + "/i-" + name}, Status: s, ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"weirkeeper.dev/pool": pool, "weirkeeper.dev/group": g.name, "disk": g.disk, corev1.LabelHostname: name, corev1.LabelTopologyZone: g.zone,
	}}}
	if g.gpu {
		o.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
	}
	w.kubelets.set(func() { w.kubelets.names[name] = &n })
	w.must(http.MethodPost, "/api/v1/nodes", o, nil)
	w.nodes[name] = g
	w.until("the node takes pods", func() bool {
		var n corev1.Node
		return w.do(w.Context(), http.MethodGet, "/api/v1/nodes/"+name, nil, &n) == nil && len(n.Spec.Taints) == len(o.Spec.Taints)
	})
	w.changed = time.Now()
}

// randomSet returns the ReplicaSet of an app, and its budget. A new machine of some group can hold each of its pods, but those of an app with never.
func (w *randomWorld) randomSet(a *app) (*appsv1.ReplicaSet, *policyv1.PodDisruptionBudget) {
	d := deployment(a.name, int32(a.replicas), fmt.Sprintf("%dm", 250*(1+w.r.IntN(8))))
	spec, selector := &d.Spec.Template.Spec, d.Spec.Selector
	if a.never {
		spec.Containers[0].Resources.Requests = amounts("100", "64Mi")
	}
	if disk := w.r.IntN(6); disk < 2 {
		spec.NodeSelector = map[string]string{"disk": []string{"ssd", "hdd"}[disk]}
	}
	if w.r.IntN(2) == 0 || spec.NodeSelector["disk"] == "hdd" {
		spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	}
	switch topology := []string{corev1.LabelHostname, corev1.LabelTopologyZone}[w.r.IntN(2)]; w.r.IntN(5) {
	case 0:
		spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	case 1:
		spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: selector, TopologyKey: corev1.LabelHostname}},
		}}
	case 2:
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: int32(1 + w.r.IntN(2)), TopologyKey: topology, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
			NodeTaintsPolicy: new([]corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}[w.r.IntN(2)]),
		}}
	}
	set := &appsv1.ReplicaSet{ObjectMeta: d.ObjectMeta, Spec: appsv1.ReplicaSetSpec{Replicas: d.Spec.Replicas, Selector: selector, Template: d.Spec.Template}}
	if w.r.IntN(2) == 0 {
		return set, nil
	}
	most := intstr.FromInt32(int32(1 + w.r.IntN(2)))
	return set, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: a.name}, Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: selector}}
}

// question sends a question with all groups. ok: the adapter answered, and has all nodes and pods.
func (w *randomWorld) question(q api.PlacesQuestion, pods int) (p api.Places, ok bool) {
	for _, g := range w.groups {
		q.Kinds = append(q.Kinds, api.PlacesKind{Group: g.name, Resources: vector.Vector{float64(g.cpus), 16 * 1024, 50 * 1024}, Weight: 1, Slots: g.slots, Room: 50})
	}
	s := w.adapter.Status(time.Now())
	if !s.Fresh || len(s.Unknown) > 0 || s.Nodes != len(w.nodes) || s.Pods != pods || time.Since(w.changed) < 500*time.Millisecond {
		return p, false
	}
	p, err := placerbus.GetPlaces(w.Context(), w.nc, cluster, pool, q)
	return p, err == nil
}

// pods returns how many pods there are, whether all that a machine can hold run, and how many no machine can hold.
func (w *randomWorld) pods(gone []string) (all int, run bool, never int) {
	var list corev1.PodList
	if w.do(w.Context(), http.MethodGet, "/api/v1/namespaces/default/pods", nil, &list) != nil {
		return 0, false, 0
	}
	running, want := map[string]int{}, map[string]int{}
	for _, p := range list.Items {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil && !slices.Contains(gone, "i-"+p.Spec.NodeName) {
			running[p.Labels["app"]]++
		}
	}
	total := 0
	for _, a := range w.apps {
		if total += a.replicas; a.never {
			never += a.replicas
		} else if a.replicas > 0 {
			want[a.name] = a.replicas
		}
	}
	return len(list.Items), len(list.Items) == total && maps.Equal(running, want), never
}

// follow does what the answers request until all pods run that a machine can hold, outside of the nodes that leave. Then these are deleted.
// It returns how many of them were taken back, and how many nodes were made.
func (w *randomWorld) follow(leave []string) (back, made int) {
	gone := slices.Clone(leave)
	w.until("all pods run", func() bool {
		all, run, _ := w.pods(gone)
		if run {
			return true
		}
		p, ok := w.question(api.PlacesQuestion{Gone: gone}, all)
		if !ok {
			return false
		}
		for _, id := range p.Back {
			w.cordon(id, false)
			gone = slices.DeleteFunc(gone, func(one string) bool { return one == id })
			back, w.changed = back+1, time.Now()
		}
		for _, need := range p.New {
			for range need.Nodes {
				w.makeNode(w.groups[slices.IndexFunc(w.groups, func(g group) bool { return g.name == need.Group })])
				made++
			}
		}
		return false
	})
	for _, id := range gone {
		w.remove(strings.TrimPrefix(id, "i-"))
	}
	return back, made
}

func (w *randomWorld) remove(name string) {
	w.must(http.MethodDelete, "/api/v1/nodes/"+name, nil, nil)
	w.kubelets.set(func() { delete(w.kubelets.names, name) })
	delete(w.nodes, name)
}

// atRest requires that no machine is requested, and that the pods that no machine can hold are named.
func (w *randomWorld) atRest() {
	w.until("no machine is requested", func() bool {
		all, run, never := w.pods(nil)
		p, ok := w.question(api.PlacesQuestion{}, all)
		return ok && run && p.Waiting == 0 && len(p.Machines()) == 0 && p.ShortCopies == 0 && p.NeverCopies == never
	})
}

// mayLeave returns the nodes that may leave. One of each group stays.
func (w *randomWorld) mayLeave() (leave []string) {
	first, q := map[string]bool{}, api.PlacesQuestion{Most: len(w.nodes)}
	for _, name := range slices.Sorted(maps.Keys(w.nodes)) {
		if g := w.nodes[name].name; first[g] {
			q.Leave = append(q.Leave, "i-"+name)
		} else {
			first[g] = true
		}
	}
	w.r.Shuffle(len(q.Leave), func(i, j int) { q.Leave[i], q.Leave[j] = q.Leave[j], q.Leave[i] })
	w.until("the adapter answers", func() bool {
		all, run, _ := w.pods(nil)
		p, ok := w.question(q, all)
		leave = p.Leave
		return ok && run && p.Waiting == 0
	})
	return leave
}

// cordon cordons a node, or takes the cordon back.
func (w *randomWorld) cordon(id string, on bool) {
	w.until("the cordon is accepted", func() bool {
		w.cordons++
		return wire.NewClient(w.nc, cluster, pool).Cordon(w.Context(), id, on, pools.Sequence{Epoch: 1, Number: w.cordons}) == nil
	})
}

// end removes all apps and nodes.
func (w *randomWorld) end() {
	for _, a := range w.apps {
		a.replicas = 0
		w.must(http.MethodPatch, replicaSets+"/"+a.name, map[string]any{"spec": map[string]any{"replicas": 0}}, nil)
	}
	w.until("all pods have ended", func() bool { all, run, _ := w.pods(nil); return run && all == 0 })
	for _, a := range w.apps {
		w.must(http.MethodDelete, replicaSets+"/"+a.name, nil, nil)
		_ = w.do(w.Context(), http.MethodDelete, podBudgets+"/"+a.name, nil, nil) // it may have none
	}
	for name := range w.nodes {
		w.remove(name)
	}
}

// describe logs the world.
func (w *randomWorld) describe() {
	w.Logf("world %d: nodes %v; %+v", w.number, w.nodes, w.adapter.Status(time.Now()))
	var list corev1.PodList
	_ = w.do(w.Context(), http.MethodGet, "/api/v1/namespaces/default/pods", nil, &list)
	for _, p := range list.Items {
		w.Logf("pod %s on %q: %s, %v", p.Name, p.Spec.NodeName, p.Status.Phase, p.Status.Conditions)
	}
	for _, a := range w.apps {
		var set appsv1.ReplicaSet
		_ = w.do(w.Context(), http.MethodGet, replicaSets+"/"+a.name, nil, &set)
		w.Logf("app %+v: %+v", *a, set.Spec.Template.Spec)
	}
	all, _, _ := w.pods(nil)
	p, ok := w.question(api.PlacesQuestion{}, all)
	w.Logf("answer %v: %+v", ok, p)
}
