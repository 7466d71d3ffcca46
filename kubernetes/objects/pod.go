package objects

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
)

// Annotations of a pod that forbid to evict it if they are "false".
const (
	safeToEvict          = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	clustermanSafe       = "clusterman.com/safe_to_evict"
	reasonUnschedulable  = "Unschedulable"
	reasonMirrorOfStatic = "kubernetes.io/config.mirror"
)

// Pod returns what the adapter keeps of a pod. finished: it has ended, and counts no more.
func Pod(p *corev1.Pod) (out core.Pod, finished bool) {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return core.Pod{UID: string(p.UID)}, true
	}
	out = core.Pod{
		UID: string(p.UID), Namespace: same(p.Namespace), Name: p.Name, Node: same(p.Spec.NodeName),
		Deleting: p.DeletionTimestamp != nil, Req: requests(p), Grace: grace(p),
	}
	owner := metav1.GetControllerOfNoCopy(p)
	_, static := p.Annotations[reasonMirrorOfStatic]
	switch {
	case static || owner != nil && owner.Kind == "DaemonSet":
		out.Kind = core.KindDaemon
	case owner != nil:
		out.Batch = owner.Kind == "Job"
	}
	if owner != nil {
		out.Owner = same(owner.Kind + "/" + owner.Name)
	}
	out.Protected = protected(p, owner != nil || static)
	if message, waits := waits(p); waits {
		out.Waits, out.Message, out.Mismatch = true, same(wire.Clip(message)), mismatch(p)
	}
	return out, false
}

// grace returns the seconds that a pod has to end.
func grace(p *corev1.Pod) int32 {
	if p.Spec.TerminationGracePeriodSeconds == nil {
		return corev1.DefaultTerminationGracePeriodSeconds
	}
	return int32(min(max(*p.Spec.TerminationGracePeriodSeconds, 0), math.MaxInt32))
}

// requests returns what the scheduler reserves for a pod: with init containers, sidecars, overhead and resizes.
func requests(p *corev1.Pod) core.Vector {
	return vector(resource.PodRequests(p, resource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}))
}

// waits reports whether the scheduler found no node for a pod, and its message. A pod with a nominated node waits for the end of
// others there, and needs no machine.
func waits(p *corev1.Pod) (message string, waits bool) {
	if p.Spec.NodeName != "" || p.Status.NominatedNodeName != "" {
		return "", false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == reasonUnschedulable {
			return c.Message, true
		}
	}
	return "", false
}

// protected returns until when a pod may not be evicted, in Unix seconds. Without a controller nothing would start it again: it may
// be evicted only if an annotation allows it.
func protected(p *corev1.Pod, controlled bool) int64 {
	ca, clusterman, karpenter := p.Annotations[safeToEvict], p.Annotations[clustermanSafe], p.Annotations[doNotDisrupt]
	if ca == "false" || clusterman == "false" || !controlled && ca != "true" && clusterman != "true" {
		return core.Forever
	}
	if karpenter == "" || karpenter == "false" {
		return 0
	}
	d, err := time.ParseDuration(karpenter)
	if err != nil { // "true", and what Karpenter would not accept
		return core.Forever
	}
	began := p.CreationTimestamp.Time
	if p.Status.StartTime != nil {
		began = p.Status.StartTime.Time
	}
	return began.Add(d).Unix()
}

// mismatch returns the Mismatch of a pod: its node selector, its required node affinity, and its tolerations. It keeps no other
// part of the pod.
func mismatch(p *corev1.Pod) func(labels map[string]string, taints []core.Taint) string {
	selector, tolerations := maps.Clone(p.Spec.NodeSelector), slices.Clone(p.Spec.Tolerations)
	affinity := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: corev1.PodSpec{Affinity: p.Spec.Affinity}})
	return func(labels map[string]string, taints []core.Taint) string {
		for _, key := range slices.Sorted(maps.Keys(selector)) {
			if v, ok := labels[key]; !ok || v != selector[key] {
				return wire.Clip(fmt.Sprintf("it selects %s=%s", key, selector[key]))
			}
		}
		if ok, err := affinity.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}); err != nil || !ok {
			return "its required node affinity does not match"
		}
		for _, t := range taints {
			if !tolerates(tolerations, t) {
				return wire.Clip(strings.TrimSuffix(fmt.Sprintf("it does not tolerate the taint %s=%s", t.Key, t.Value), "="))
			}
		}
		return ""
	}
}

// tolerates reports whether a taint does not keep the pod away.
func tolerates(all []corev1.Toleration, t core.Taint) bool {
	taint := corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
	if taint.Effect == corev1.TaintEffectPreferNoSchedule {
		return true
	}
	return slices.ContainsFunc(all, func(one corev1.Toleration) bool { return one.ToleratesTaint(klog.Background(), &taint, true) })
}
