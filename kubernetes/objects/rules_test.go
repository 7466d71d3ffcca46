package objects

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirkeeper/weirkeeper/kubernetes/core"
)

func selecting(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func antiAffinity(terms ...corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms,
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "soft"}}}}}
	}
}

func rulesOf(t *testing.T, change ...func(*corev1.Pod)) *core.Rules {
	t.Helper()
	p, _ := Pod(pod(change...))
	return p.Rules
}

func TestAntiAffinity(t *testing.T) {
	r := rulesOf(t, antiAffinity(corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: selecting("web")},
		corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: selecting("web"), Namespaces: []string{"a", "b"}},
		corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: selecting("web"), NamespaceSelector: &metav1.LabelSelector{}},
		corev1.PodAffinityTerm{TopologyKey: "zone"}))
	if len(r.Apart) != 4 || r.Apart[0].Topology != "zone" {
		t.Fatalf("%d terms, want 4: soft ones are ignored", len(r.Apart))
	}
	for i, want := range []string{"ns/web", "a/web b/web", "ns/web a/web b/web x/web", ""} {
		var got []string
		for _, namespace := range []string{"ns", "a", "b", "x"} {
			for _, app := range []string{"web", "db"} {
				if r.Apart[i].Matches(namespace, map[string]string{"app": app}) {
					got = append(got, namespace+"/"+app)
				}
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("term %d matches %v, want %q", i, got, want)
		}
	}
	if r.Apart[0].Key == r.Apart[1].Key || r.Apart[0].Key != rulesOf(t, antiAffinity(corev1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: selecting("web")})).Apart[0].Key {
		t.Error("want equal keys for equal terms alone")
	}
}

func TestSpread(t *testing.T) {
	ignore, honor := corev1.NodeInclusionPolicyIgnore, corev1.NodeInclusionPolicyHonor
	r := rulesOf(t, func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": "web", "hash": "1"}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{TopologyKey: "zone", MaxSkew: 2, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selecting("web"), MatchLabelKeys: []string{"hash", "none"}, MinDomains: new(int32(3))},
			{TopologyKey: "host", MaxSkew: 1, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selecting("web"), NodeAffinityPolicy: &ignore, NodeTaintsPolicy: &honor},
			{TopologyKey: "soft", MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selecting("web")},
		}
	})
	if len(r.Spread) != 2 {
		t.Fatalf("%d constraints, want 2: soft ones are ignored", len(r.Spread))
	}
	a, b := r.Spread[0], r.Spread[1]
	if a.Topology != "zone" || a.MaxSkew != 2 || a.MinDomains != 3 || a.AllNodes || a.Tolerated || b.MinDomains != 1 || !b.AllNodes || !b.Tolerated {
		t.Errorf("constraints %+v and %+v", a, b)
	}
	if other := map[string]string{"app": "web", "hash": "2"}; a.Matches(other) || !a.Matches(r.Labels) || !b.Matches(other) {
		t.Error("want that the first one counts pods with the same hash alone")
	}
}

func TestSelector(t *testing.T) {
	r := rulesOf(t, func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}},
				{Key: "arch", Operator: corev1.NodeSelectorOpIn, Values: []string{"x", "y"}}}}}}}}
	})
	if fmt.Sprint(r.Selector) != "map[disk:ssd topology.kubernetes.io/zone:a]" {
		t.Errorf("selector %v", r.Selector)
	}
}

func TestPortsAndClaims(t *testing.T) {
	p, _ := Pod(pod(func(p *corev1.Pod) {
		port := func(n int32) []corev1.ContainerPort {
			return []corev1.ContainerPort{{HostPort: n, Protocol: "TCP"}, {ContainerPort: 9}}
		}
		p.Spec.Containers[0].Ports = port(80)
		p.Spec.InitContainers = []corev1.Container{{Ports: port(81)}, {Ports: port(82), RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
		p.Spec.Volumes = []corev1.Volume{{Name: "e", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
			{Name: "c", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}, {Name: "tmp"}}
	}))
	if fmt.Sprint(p.Rules.Ports) != "[{TCP 82} {TCP 80}]" || fmt.Sprint(p.Claims) != "[ns/web-1-e ns/data]" {
		t.Errorf("ports %v, claims %v", p.Rules.Ports, p.Claims)
	}
}

func TestNotUnderstood(t *testing.T) {
	request := func(name, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceName(name): resource.MustParse(value)}
		}
	}
	for want, change := range map[string]func(*corev1.Pod){
		"": request("nvidia.com/gpu", "1"),
		"pod affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: make([]corev1.PodAffinityTerm, 1)}}
		},
		"claims of resources":           func(p *corev1.Pod) { p.Spec.ResourceClaims = make([]corev1.PodResourceClaim, 1) },
		"the resource example.com/fpga": request("example.com/fpga", "1"),
		"the scheduler mine":            func(p *corev1.Pod) { p.Spec.SchedulerName = "mine" },
		"its labels exceed their bound": func(p *corev1.Pod) { p.Labels = map[string]string{"a": strings.Repeat("x", maxLabels)} },
	} {
		if got := rulesOf(t, change).Unknown; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := rulesOf(t, request("example.com/fpga", "0")).Unknown; got != "" {
		t.Errorf("none of a resource: %q", got)
	}
}

// Pods with equal rules share them, and rules without a pod are forgotten.
func TestRulesAreShared(t *testing.T) {
	app := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels, p.Spec.NodeSelector = map[string]string{"app": name, "z": "y"}, map[string]string{"a": "b", "c": "d"}
		}
	}
	web := rulesOf(t, app("web"))
	if rulesOf(t, app("web")) != web || rulesOf(t, app("db")) == web || rulesOf(t, app("web"), func(p *corev1.Pod) { p.Namespace = "other" }) == web {
		t.Error("want the same rules for pods that differ in their names alone")
	}
	runtime.KeepAlive(web)
	count := func() int {
		interned.Lock()
		defer interned.Unlock()
		return len(interned.all)
	}
	for i := range 1000 {
		rulesOf(t, app(fmt.Sprint(i)))
	}
	for i := 0; count() > 500 && i < 1000; i++ {
		runtime.GC() // cleanups run after it, in a goroutine of their own
		runtime.Gosched()
	}
	if n := count(); n > 500 {
		t.Errorf("%d rules are kept without a pod", n)
	}
}

func TestBudget(t *testing.T) {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u", Generation: 2}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selecting("web")},
		Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 3, ObservedGeneration: 2}}
	if got := Budget(b); got.Allowed != 3 || got.Name != "web" || got.UID != "u" || !got.Matches(map[string]string{"app": "web"}) || got.Matches(nil) {
		t.Errorf("budget %+v", got)
	}
	b.Status.ObservedGeneration = 1
	if got := Budget(b); got.Allowed != 0 {
		t.Errorf("a status that is older than the budget allows %d", got.Allowed)
	}
	if b.Spec.Selector = nil; Budget(b).Matches(map[string]string{"app": "web"}) {
		t.Error("no selector matches pods")
	}
	if b.Spec.Selector = (&metav1.LabelSelector{}); !Budget(b).Matches(nil) {
		t.Error("an empty selector matches not all pods")
	}
}

func TestVolume(t *testing.T) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "u"}, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "data"}}}
	if _, bound := Volume(v); bound {
		t.Error("a volume is bound before its phase is")
	}
	v.Status.Phase = corev1.VolumeBound
	if got, bound := Volume(v); !bound || got.Claim != "ns/data" || got.Selects != nil {
		t.Errorf("%+v, %v", got, bound)
	}
	in := func(zone string) map[string]string { return map[string]string{corev1.LabelTopologyZone: zone} }
	labelled, bound := v.DeepCopy(), true
	labelled.Labels = in("a__b")
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b"}}}}}}}
	for _, v := range []*corev1.PersistentVolume{v, labelled} {
		var got core.Volume
		if got, bound = Volume(v); !bound || got.Selects("n", in("b")) != "" || got.Selects("n", in("c")) != "its volume pv cannot be used there" {
			t.Errorf("zones of the volume: %q in b, %q in c", got.Selects("n", in("b")), got.Selects("n", in("c")))
		}
	}
}
