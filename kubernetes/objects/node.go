package objects

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/pools"
)

// maxLabels bounds the labels of a node, in bytes of keys and values.
const maxLabels = 64 << 10

// ownConditions is the number of conditions that package core adds.
const ownConditions = 3

// Annotations of a node that forbid to remove it if they are "true".
const (
	scaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	doNotDisrupt      = "karpenter.sh/do-not-disrupt"
)

// Node returns what the adapter keeps of a node.
func Node(n *corev1.Node) core.Node {
	out := core.Node{
		Name: same(n.Name), UID: string(n.UID), ID: MachineID(n.Spec.ProviderID), ProviderID: clip(n.Spec.ProviderID), BootID: wire.Clip(n.Status.NodeInfo.BootID),
		Alloc: vector(n.Status.Allocatable), Slots: amount(n.Status.Allocatable.Pods(), 1), Unschedulable: n.Spec.Unschedulable,
		Protected: n.Annotations[scaleDownDisabled] == "true" || n.Annotations[doNotDisrupt] == "true",
	}
	out.Labels, out.Cut = limited(n.Labels)
	out.Ends = ends(n.Annotations[core.CordonAnnotation])
	for _, t := range n.Spec.Taints {
		out.Taints = append(out.Taints, core.Taint{Key: same(t.Key), Value: same(t.Value), Effect: same(string(t.Effect))})
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Ready, out.ReadyWhy = ready(c)
		} else {
			out.Conditions = append(out.Conditions, condition(c))
		}
	}
	slices.SortFunc(out.Conditions, func(a, b api.NodeCondition) int { return cmp.Compare(a.Type, b.Type) })
	out.Conditions, _ = wire.Conditions(out.Conditions, pools.MaxConditions-ownConditions) // those that cannot be sent are left out
	return out
}

// ends returns when the machine of a cordoned node ends in any case, by the annotation of the cordon: a drain with another reason
// than a spot interruption may wait.
func ends(mark string) int64 {
	var m struct {
		Reason   string    `json:"reason"`
		Deadline time.Time `json:"deadline"`
	}
	if json.Unmarshal([]byte(mark), &m) != nil || m.Reason != string(api.DrainSpot) || m.Deadline.IsZero() {
		return 0
	}
	return m.Deadline.Unix()
}

// MachineID returns the id of a node's machine at its provider: the last part of its providerID. It is empty if that is no id.
func MachineID(providerID string) string {
	id := providerID[strings.LastIndexByte(providerID, '/')+1:]
	if !names.ValidToken(id) {
		return ""
	}
	return strings.Clone(id)
}

// ready returns the condition Ready, and why the node is not.
func ready(c corev1.NodeCondition) (core.Ready, string) {
	switch c.Status {
	case corev1.ConditionTrue:
		return core.ReadyTrue, ""
	case corev1.ConditionFalse:
		return core.ReadyFalse, why(c)
	}
	return core.ReadyUnknown, why(c)
}

// condition returns a condition other than Ready. Those whose type ends with Ready are good if they are True, as those of the
// monitoring agent of EKS. All others are problems if they are True, as those of the kubelet and of node-problem-detector.
func condition(c corev1.NodeCondition) api.NodeCondition {
	bad := corev1.ConditionTrue
	if strings.HasSuffix(string(c.Type), "Ready") {
		bad = corev1.ConditionFalse
	}
	out := api.NodeCondition{Type: same(string(c.Type)), Failed: c.Status == bad, Unknown: c.Status != corev1.ConditionTrue && c.Status != corev1.ConditionFalse}
	if out.Failed || out.Unknown {
		out.Why = why(c)
	}
	return out
}

// why returns the text of a condition.
func why(c corev1.NodeCondition) string {
	return wire.Clip(strings.TrimPrefix(c.Reason+": "+c.Message, ": "))
}

// limited returns the labels up to maxLabels, those of Weirkeeper and Kubernetes first. cut: some are missing.
func limited(all map[string]string) (kept map[string]string, cut bool) {
	kept = make(map[string]string, len(all))
	size := 0
	keys := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	for _, key := range keys {
		if size += len(key) + len(all[key]); size > maxLabels {
			return kept, true
		}
		kept[same(key)] = same(all[key])
	}
	return kept, false
}

// rank is 0 for a label that has a meaning of its own.
func rank(key string) int {
	if strings.HasPrefix(key, "weirkeeper.dev/") || strings.Contains(key, "kubernetes.io/") {
		return 0
	}
	return 1
}

// vector returns the amounts of a list. Unknown resources are ignored.
func vector(list corev1.ResourceList) core.Vector {
	v := core.Vector{CPU: amount(list.Cpu(), 1000), Mem: amount(list.Memory(), 1), Disk: amount(list.StorageEphemeral(), 1)}
	for name, q := range list {
		if strings.HasSuffix(string(name), "/gpu") {
			v.GPU = min(v.GPU+amount(&q, 1), core.MaxAmount)
		}
	}
	return v
}

// amount returns a quantity times unit, rounded up, from 0 to core.MaxAmount.
func amount(q *resource.Quantity, unit int64) int64 {
	switch x := q.AsApproximateFloat64() * float64(unit); {
	case math.IsNaN(x) || x <= 0:
		return 0
	case x >= core.MaxAmount:
		return core.MaxAmount
	case unit == 1000:
		return q.MilliValue()
	}
	return q.Value()
}

// same returns a string that shares its memory with equal ones.
func same(s string) string { return unique.Make(s).Value() }

// clip bounds a text for people.
func clip(s string) string { return strings.Clone(s[:min(len(s), 256)]) }
