package objects

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/pools"
)

var start = time.Unix(1_800_000_000, 0)

func list(cpu, mem string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(mem)}
}

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "ns", UID: "u1", OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}}},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list("500m", "1Gi")}}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
}

func owned(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "x", Controller: new(true)}}
	}
}

func unschedulable(p *corev1.Pod) {
	p.Spec.NodeName = ""
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes"}}
}

func TestNode(t *testing.T) {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-0a1", Unschedulable: true, Taints: []corev1.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("3920m"), "memory": resource.MustParse("7Gi"), "ephemeral-storage": resource.MustParse("1e10"),
				"pods": resource.MustParse("58"), "nvidia.com/gpu": resource.MustParse("2"), "amd.com/gpu": resource.MustParse("1"), "vpc.amazonaws.com/pod-eni": resource.MustParse("9")},
			NodeInfo: corev1.NodeSystemInfo{BootID: "b1"},
			Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True", Reason: "KubeletReady"}, {Type: "DiskPressure", Status: "True", Reason: "Full", Message: "no\nspace"},
				{Type: "MemoryPressure", Status: "False"}, {Type: "StorageReady", Status: "False", Message: "x"}, {Type: "KernelReady", Status: "True"}, {Type: "PIDPressure", Status: "Unknown"}},
		},
	}
	want := core.Node{
		Name: "n1", UID: "u", ID: "i-0a1", ProviderID: "aws:///us-east-1a/i-0a1", BootID: "b1", Labels: map[string]string{"a": "b"}, Unschedulable: true,
		Taints: []core.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}}, Alloc: core.Vector{CPU: 3920, Mem: 7 << 30, Disk: 1e10, GPU: 3}, Slots: 58, Ready: core.ReadyTrue,
		Conditions: []api.NodeCondition{{Type: "DiskPressure", Failed: true, Why: "Full: no space"}, {Type: "KernelReady"}, {Type: "MemoryPressure"},
			{Type: "PIDPressure", Unknown: true}, {Type: "StorageReady", Failed: true, Why: "x"}},
	}
	if diff := cmp.Diff(want, Node(n)); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}

func TestReady(t *testing.T) {
	for status, want := range map[string]core.Ready{"True": core.ReadyTrue, "False": core.ReadyFalse, "Unknown": core.ReadyUnknown, "": core.ReadyUnknown} {
		n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "Ready", Status: corev1.ConditionStatus(status)}}}}
		if got := Node(n).Ready; got != want {
			t.Errorf("Ready %q = %v, want %v", status, got, want)
		}
	}
	if got := Node(&corev1.Node{}).Ready; got != core.ReadyUnknown {
		t.Errorf("without the condition: %v", got)
	}
}

// Only the deadline of a spot interruption is the end of a machine in any case.
func TestEnds(t *testing.T) {
	for mark, want := range map[string]int64{
		"": 0, "{": 0, `{"epoch":1}`: 0, `{"reason":"scaling down","deadline":"2027-01-15T08:00:00Z"}`: 0, `{"reason":"spot interruption"}`: 0,
		`{"epoch":1,"reason":"spot interruption","deadline":"2027-01-15T08:00:00Z"}`: start.Unix(),
	} {
		if got := Node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{core.CordonAnnotation: mark}}}).Ends; got != want {
			t.Errorf("%s: ends at %d, want %d", mark, got, want)
		}
	}
}

func TestProtectedNode(t *testing.T) {
	for key, want := range map[string]bool{scaleDownDisabled: true, doNotDisrupt: true, "x": false} {
		if got := Node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: "true"}}}).Protected; got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
}

func TestMachineID(t *testing.T) {
	for in, want := range map[string]string{
		"aws:///us-east-1a/i-0a1": "i-0a1", "i-1": "i-1", "gce://project/zone/name": "name",
		"": "", "aws:///z/": "", "aws:///z/i 1": "", "aws:///z/i.*": "", "x/" + strings.Repeat("a", 129): "",
	} {
		if got := MachineID(in); got != want {
			t.Errorf("MachineID(%q) = %q, want %q", in, got, want)
		}
	}
}

// Objects with a thousand labels and conditions are bounded.
func TestLargeNode(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	for i := range 1000 {
		n.Labels[fmt.Sprintf("%04d", i)] = strings.Repeat("x", 96)
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeConditionType(fmt.Sprint(i)), Message: strings.Repeat("y", 1000)})
	}
	got := Node(n)
	if len(got.Labels) != maxLabels/100 || !got.Cut || len(got.Conditions) != pools.MaxConditions-ownConditions || len(got.Conditions[0].Why) > pools.MaxConditionWhy {
		t.Errorf("%d labels, cut %v, %d conditions", len(got.Labels), got.Cut, len(got.Conditions))
	}
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]int64{ // in thousandths
		"1e3": 1_000_000, "1000m": 1000, "1": 1000, "0.1": 100, "100u": 1, "10k": 10_000_000, "1Ki": 1_024_000, "-1": 0, "0": 0, "1e18": core.MaxAmount, "999999999999E": core.MaxAmount, "1e-30": 1,
	} {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := amount(&q, 1000); got != want {
			t.Errorf("%s = %d, want %d", text, got, want)
		}
		if got := amount(&q, 1); got < 0 || got > core.MaxAmount {
			t.Errorf("%s = %d, out of bounds", text, got)
		}
	}
}

func TestPod(t *testing.T) {
	got, finished := Pod(pod())
	want := core.Pod{UID: "u1", Namespace: "ns", Name: "web-1", Node: "n1", Owner: "ReplicaSet/web", Req: core.Vector{CPU: 500, Mem: 1 << 30}, Grace: 30}
	got.Rules = nil // TestRules
	if diff := cmp.Diff(want, got); finished || diff != "" {
		t.Errorf("finished %v, pod (-want +got):\n%s", finished, diff)
	}
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		ok     func(core.Pod) bool
	}{
		{"DaemonSet", owned("DaemonSet"), func(p core.Pod) bool { return p.Kind == core.KindDaemon && p.Protected == 0 }},
		{"static", func(p *corev1.Pod) { annotated("kubernetes.io/config.mirror", "x")(p); owned("Node")(p) }, func(p core.Pod) bool { return p.Kind == core.KindDaemon }},
		{"job", owned("Job"), func(p core.Pod) bool { return p.Batch && p.Kind == core.KindTask }},
		{"deleting", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }, func(p core.Pod) bool { return p.Deleting }},
		{"waits", unschedulable, func(p core.Pod) bool { return p.Waits && p.Message == "0/1 nodes" && p.Rules != nil && !p.New }},
		{"gated", func(p *corev1.Pod) { unschedulable(p); p.Status.Conditions[0].Reason = "SchedulingGated" }, func(p core.Pod) bool { return !p.Waits && !p.New }},
		{"with a gate", func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.SchedulingGates = "", []corev1.PodSchedulingGate{{Name: "g"}}
		}, func(p core.Pod) bool { return !p.Waits && !p.New }},
		{"new", func(p *corev1.Pod) { p.Spec.NodeName = "" }, func(p core.Pod) bool { return !p.Waits && p.New }},
		{"new, of another scheduler", func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.SchedulerName = "", "mine" }, func(p core.Pod) bool { return !p.Waits && !p.New }},
		{"nominated", func(p *corev1.Pod) { unschedulable(p); p.Status.NominatedNodeName = "n" }, func(p core.Pod) bool { return !p.Waits }},
		{"ten thousand cpus", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = list("10000", "1") }, func(p core.Pod) bool { return p.Req.CPU == 10_000_000 }},
		{"init container", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list("2", "1")}}}
		}, func(p core.Pod) bool { return p.Req == core.Vector{CPU: 2000, Mem: 1 << 30} }},
		{"overhead", func(p *corev1.Pod) { p.Spec.Overhead = list("1", "0") }, func(p core.Pod) bool { return p.Req.CPU == 1500 }},
	} {
		if got, finished := Pod(pod(tt.change)); finished || !tt.ok(got) {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		if p, finished := Pod(pod(func(p *corev1.Pod) { p.Status.Phase = phase })); !finished || p.UID != "u1" {
			t.Errorf("%s: %+v, want that it has finished", phase, p)
		}
	}
}

func TestProtectedPods(t *testing.T) {
	bare := func(p *corev1.Pod) { p.OwnerReferences = nil }
	started := func(p *corev1.Pod) {
		annotated(doNotDisrupt, "1h")(p)
		p.Status.StartTime = &metav1.Time{Time: start}
	}
	for name, tt := range map[string]struct {
		change []func(*corev1.Pod)
		want   int64
	}{
		"no annotation":            {nil, 0},
		"cluster-autoscaler false": {[]func(*corev1.Pod){annotated(safeToEvict, "false")}, core.Forever},
		"cluster-autoscaler true":  {[]func(*corev1.Pod){annotated(safeToEvict, "true")}, 0},
		"Clusterman false":         {[]func(*corev1.Pod){annotated(clustermanSafe, "false")}, core.Forever},
		"Karpenter true":           {[]func(*corev1.Pod){annotated(doNotDisrupt, "true")}, core.Forever},
		"Karpenter false":          {[]func(*corev1.Pod){annotated(doNotDisrupt, "false")}, 0},
		"Karpenter unreadable":     {[]func(*corev1.Pod){annotated(doNotDisrupt, "soon")}, core.Forever},
		"Karpenter duration":       {[]func(*corev1.Pod){started}, start.Add(time.Hour).Unix()},
		"no controller":            {[]func(*corev1.Pod){bare}, core.Forever},
		"no controller, and safe":  {[]func(*corev1.Pod){bare, annotated(safeToEvict, "true")}, 0},
	} {
		if got, _ := Pod(pod(tt.change...)); got.Protected != tt.want {
			t.Errorf("%s: protected until %d, want %d", name, got.Protected, tt.want)
		}
	}
}

func TestMismatch(t *testing.T) {
	labels := map[string]string{"disk": "ssd", "zone": "a"}
	gpu := []core.Taint{{Key: "gpu", Value: "x", Effect: "NoSchedule"}}
	affinity := func(operator corev1.NodeSelectorOperator, values ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: operator, Values: values}}}}}}}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(*corev1.Pod)
		taints []core.Taint
		want   string
	}{
		{"nothing", func(*corev1.Pod) {}, nil, ""},
		{"selector", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }, nil, ""},
		{"other selector", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "hdd"} }, nil, "it selects disk=hdd"},
		{"affinity", affinity("In", "a", "b"), nil, ""},
		{"other affinity", affinity("NotIn", "a"), nil, "its required node affinity does not match"},
		{"invalid affinity", affinity("In"), nil, "its required node affinity does not match"},
		{"taint", func(*corev1.Pod) {}, gpu, "it does not tolerate the taint gpu=x"},
		{"soft taint", func(*corev1.Pod) {}, []core.Taint{{Key: "gpu", Effect: "PreferNoSchedule"}}, ""},
		{"toleration", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: "Exists"}} }, gpu, ""},
		{"other toleration", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "gpu", Value: "y"}} }, gpu, "it does not tolerate the taint gpu=x"},
	} {
		got, _ := Pod(pod(unschedulable, tt.change))
		why := got.Rules.Tolerates(tt.taints)
		if got.Rules.Selects != nil {
			why += got.Rules.Selects("n", labels)
		}
		if why != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, why, tt.want)
		}
	}
}
