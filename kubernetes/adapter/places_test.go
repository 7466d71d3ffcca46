package adapter

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
	"github.com/weirkeeper/weirkeeper/kubernetes/kubetest"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
	vector "github.com/weirkeeper/weirkeeper/resource"
)

func (w *world) places(q api.PlacesQuestion) api.Places {
	w.Helper()
	p, err := placerbus.GetPlaces(w.Context(), w.nc, "c", "p", q)
	if err != nil {
		w.Fatal(err)
	}
	return p
}

// untilKnown waits until the adapter has so many nodes and pods, and the budgets and volumes.
func (w *world) untilKnown(nodes, pods int) {
	w.Helper()
	w.until("nodes and pods", func() bool {
		s := w.adapter.Status(time.Now())
		return s.Fresh && s.Nodes == nodes && s.Pods == pods && len(s.Unknown) == 0
	})
}

func labelled(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
}

func budget(app string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
}

func kind(room int) api.PlacesKind {
	return api.PlacesKind{Group: "g", Resources: vector.Vector{4, 8192, 20480}, Weight: 1, Slots: 110, Room: room, Why: "is at its maximum"}
}

func stays(p api.Places) string {
	var all []string
	for _, s := range p.Stay {
		all = append(all, s.Node+": "+s.Why)
	}
	return strings.Join(all, "\n")
}

// The budgets of pods bound how many nodes may be emptied at the same time.
func TestPlacesKeepBudgets(t *testing.T) {
	w := start(t)
	w.server.Put(budget("web", 1), budget("db", 0))
	for _, name := range []string{"a", "b", "c", "d"} {
		w.server.Put(kubetest.Node(name, "p"))
	}
	w.server.Put(kubetest.Pod("w1", "a", labelled("web")), kubetest.Pod("w2", "a", labelled("web")), kubetest.Pod("w3", "b", labelled("web")), kubetest.Pod("d1", "c", labelled("db")))
	w.untilKnown(4, 4)
	var p api.Places
	w.until("the budgets are known", func() bool {
		p = w.places(api.PlacesQuestion{Leave: []string{"i-a", "i-b", "i-c"}, Most: 3})
		return len(p.Leave) == 1
	})
	want := "i-b: the disruption budget default/web allows 1 evictions now, which other nodes that leave need\n" +
		"i-c: the disruption budget default/db allows no eviction now"
	if !slices.Equal(p.Leave, []string{"i-a"}) || stays(p) != want {
		t.Errorf("leave %v, stay:\n%s\nwant i-a leaves, and:\n%s", p.Leave, stays(p), want)
	}
	w.server.Put(budget("web", 2))
	w.until("the budget allows two", func() bool {
		return len(w.places(api.PlacesQuestion{Leave: []string{"i-a", "i-b", "i-c"}, Most: 3}).Leave) == 2
	})
	w.server.Delete(kube.Budgets, "default", "db")
	w.until("the budget is gone", func() bool {
		return len(w.places(api.PlacesQuestion{Leave: []string{"i-a", "i-b", "i-c"}, Most: 3}).Leave) == 3
	})
}

// Without the right to read budgets or volumes the pool grows, and does not shrink. The cause is where an operator looks.
func TestPlacesWithoutBudgets(t *testing.T) {
	w := start(t)
	w.server.Fail(http.StatusForbidden, kube.Budgets)
	w.server.Fail(http.StatusForbidden, kube.Volumes)
	w.server.Put(kubetest.Node("a", "p"), kubetest.Node("b", "p"), kubetest.Pod("claims", "b", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}))
	for i := range 9 {
		w.server.Put(kubetest.Pod(fmt.Sprint("w", i), ""))
	}
	w.until("nodes and pods", func() bool {
		s := w.adapter.Status(time.Now())
		return s.Fresh && s.Nodes == 2 && s.Pods == 10 && strings.Contains(s.Unknown[kube.Budgets], "needs list and watch of poddisruptionbudgets") && s.Unknown[kube.Volumes] != ""
	})
	q := api.PlacesQuestion{Kinds: []api.PlacesKind{kind(5)}, Leave: []string{"i-a"}, Most: 1}
	p := w.places(q)
	if len(p.Leave) > 0 || !strings.Contains(stays(p), "the disruption budgets of pods are unknown: watch poddisruptionbudgets") || len(p.New) != 1 || p.New[0].Nodes != 1 {
		t.Errorf("leave %v, stay %s, new %+v, want that a stays, and a new machine", p.Leave, stays(p), p.New)
	}
	w.server.Fail(0, kube.Budgets)
	w.until("budgets are known", func() bool {
		return strings.Contains(stays(w.places(api.PlacesQuestion{Leave: []string{"i-b"}, Most: 1})), "its volumes: watch")
	})
}

// Volumes keep their pods in their zones.
func TestPlacesOfVolumes(t *testing.T) {
	w := start(t)
	zone := func(zone string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Labels[corev1.LabelTopologyZone], n.Labels["weirkeeper.dev/group"] = zone, "g-"+zone
		}
	}
	claim := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
		}
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "data"},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"y"}}}}}}}},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}}
	w.server.Put(volume, kubetest.Node("a", "p", zone("x")), kubetest.Node("b", "p", zone("y")), kubetest.Node("c", "p", zone("y")))
	w.server.Put(kubetest.Pod("db", "b", claim("data")), kubetest.Pod("odd", "c", claim("unbound")))
	w.untilKnown(3, 2)
	kinds := []api.PlacesKind{kind(5), kind(5)}
	kinds[0].Group, kinds[1].Group = "g-x", "g-y"
	var p api.Places
	w.until("the volume is known", func() bool {
		p = w.places(api.PlacesQuestion{Kinds: kinds, Leave: []string{"i-b", "i-c"}, Most: 2})
		return slices.Contains(p.Leave, "i-b")
	})
	if !slices.Equal(p.Leave, []string{"i-b"}) || stays(p) != "i-c: default/odd: not understood: the claim default/unbound without a bound volume" {
		t.Errorf("leave %v, stay %s, want that b leaves: its volume can be used on c", p.Leave, stays(p))
	}
	p = w.places(api.PlacesQuestion{Kinds: kinds, Gone: []string{"i-b"}, Aside: []string{"i-c"}})
	if len(p.New) != 1 || p.New[0].Group != "g-y" || p.New[0].First != "default/db" {
		t.Errorf("new %+v, want a machine in the zone of the volume", p.New)
	}
	w.server.Delete(kube.Volumes, "", "pv")
	w.until("the volume is gone", func() bool {
		return strings.Contains(stays(w.places(api.PlacesQuestion{Leave: []string{"i-b"}, Most: 1})), "the claim default/data without a bound volume")
	})
}

// Objects that no one would write are named, and nothing shrinks for them.
func TestPlacesOfBadInput(t *testing.T) {
	w := start(t)
	same := func(n *corev1.Node) { n.Spec.ProviderID = "aws:///z/i-twin" }
	w.server.Put(kubetest.Node("a", "p", same), kubetest.Node("b", "p", same), kubetest.Node("none", "p", func(n *corev1.Node) { n.Spec.ProviderID = "" }), kubetest.Node("c", "p"),
		kubetest.Node("large", "p", func(n *corev1.Node) {
			for i := range 1000 {
				n.Labels[fmt.Sprintf("label-%d", i)] = strings.Repeat("x", 63)
			}
		}))
	w.server.Put(kubetest.Pod("huge", "", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("10000")
	}),
		kubetest.Pod("tiny", "", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1e-9"), corev1.ResourceMemory: resource.MustParse("1e3")}
		}),
		kubetest.Pod("fpga", "", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests["example.com/fpga"] = resource.MustParse("1")
		}),
		kubetest.Pod("labels", "c", func(p *corev1.Pod) {
			p.Labels = map[string]string{}
			for i := range 2000 {
				p.Labels[fmt.Sprintf("label-%d", i)] = strings.Repeat("x", 63)
			}
		}))
	w.untilKnown(5, 4)
	p := w.places(api.PlacesQuestion{Kinds: []api.PlacesKind{kind(5)}, Leave: []string{"i-twin", "i-none", "i-c", "i-large"}, Most: 4})
	if p.NeverCopies != 1 || len(p.Never) != 1 || !strings.Contains(p.Never[0].Why, "it needs 10000 cpus, the largest machine") || p.Unplaceable[vector.CPUs] != 10000 {
		t.Errorf("never %+v, want the pod of 10000 cpus", p.Never)
	}
	if p.ShortCopies != 1 || len(p.New) != 0 || !strings.Contains(p.Short[0].Why, "not understood: the resource example.com/fpga") {
		t.Errorf("short %+v, new %+v, want that the pod with an unknown resource waits", p.Short, p.New)
	}
	for _, want := range []string{"i-twin: the Node objects a, b have the same providerID", "i-none: the scheduler has no facts of it", "i-c: default/labels: not understood: its labels exceed their bound",
		"i-large: its labels exceed their bound: some are ignored"} {
		if !strings.Contains(stays(p), want) {
			t.Errorf("stay:\n%s\nwant %s", stays(p), want)
		}
	}
	if len(p.Leave) > 0 {
		t.Errorf("leave %v, want none", p.Leave)
	}
	var answer api.Places
	err := call.Request(t.Context(), w.nc, message.PlacesSubject("c", "p"), api.PlacesQuestion{Gone: []string{"n"}, Leave: []string{"n"}}, &answer)
	if refusal, is := errors.AsType[*call.Error](err); !is || refusal.Code != call.CodeInvalid {
		t.Errorf("an invalid question: %v", err)
	}
}

// While the API server is away, the question is refused: nothing shrinks, and nothing is ordered.
func TestPlacesWithoutAPIServer(t *testing.T) {
	w := start(t)
	w.server.Put(kubetest.Node("a", "p"))
	w.untilKnown(1, 0)
	w.untilFresh(true) // the state of the start may come late
	w.server.Fail(http.StatusServiceUnavailable, kube.Pods)
	w.untilFresh(false)
	_, err := placerbus.GetPlaces(t.Context(), w.nc, "c", "p", api.PlacesQuestion{})
	if refusal, is := errors.AsType[*call.Error](err); !is || refusal.Code != codeNotReady {
		t.Errorf("%v, want %s", err, codeNotReady)
	}
}

// The pods that wait are packed by their rules, and a kind without nodes has room beside the daemons that each node has.
func TestPlacesOfPodsThatWait(t *testing.T) {
	w := start(t, func(c *Config) { c.Pools[0].Pool.Templates = []core.Shape{{Labels: map[string]string{"disk": "ssd"}}} })
	spread := func(p *corev1.Pod) {
		labelled("web")(p)
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: core.HostnameLabel, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}}}
	}
	w.server.Put(kubetest.Node("a", "p"))
	for i := range 4 {
		w.server.Put(kubetest.Pod(fmt.Sprint("w", i), "", spread))
	}
	w.untilKnown(1, 4)
	p := w.places(api.PlacesQuestion{Kinds: []api.PlacesKind{kind(5)}})
	if p.Waiting != 3 || len(p.New) != 1 || p.New[0].Nodes != 3 || p.Held[vector.CPUs] != 4 {
		t.Errorf("%+v, want three machines for four pods that keep apart", p)
	}
	p = w.places(api.PlacesQuestion{Kinds: []api.PlacesKind{kind(1)}})
	if p.ShortCopies != 2 || p.Short[0].App != "default/web" || p.Short[0].Copies != 2 {
		t.Errorf("short %+v, want two of default/web", p.Short)
	}
}
