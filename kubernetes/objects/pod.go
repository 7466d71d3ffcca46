package objects

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
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
		Deleting: p.DeletionTimestamp != nil, Grace: grace(p), Claims: claims(p),
	}
	wanted := requests(p)
	out.Req, out.Rules = vector(wanted), rules(p, wanted)
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
	if out.Waits, out.New, out.Message = waits(p); out.Waits {
		out.Message = same(wire.Clip(out.Message))
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
func requests(p *corev1.Pod) corev1.ResourceList {
	return resource.PodRequests(p, resource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true})
}

// waits reports whether the scheduler found no node for a pod, with its message, or has not reported yet. A pod with a nominated node
// waits for the end of others there, and needs no machine. One with a gate waits for a person or a controller.
func waits(p *corev1.Pod) (waits, isNew bool, message string) {
	if p.Spec.NodeName != "" || p.Status.NominatedNodeName != "" || len(p.Spec.SchedulingGates) > 0 {
		return false, false, ""
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == reasonUnschedulable {
			return true, false, c.Message
		}
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			return false, false, ""
		}
	}
	return false, p.Spec.SchedulerName == "" || p.Spec.SchedulerName == corev1.DefaultSchedulerName, ""
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

// tolerates returns the Tolerates of a pod.
func tolerates(all []corev1.Toleration) func(taints []core.Taint) string {
	return func(taints []core.Taint) string {
		for _, t := range taints {
			if !tolerated(all, t) {
				return wire.Clip(strings.TrimSuffix(fmt.Sprintf("it does not tolerate the taint %s=%s", t.Key, t.Value), "="))
			}
		}
		return ""
	}
}

// tolerated reports whether a taint does not keep the pod away.
func tolerated(all []corev1.Toleration, t core.Taint) bool {
	taint := corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
	if taint.Effect == corev1.TaintEffectPreferNoSchedule {
		return true
	}
	return slices.ContainsFunc(all, func(one corev1.Toleration) bool { return one.ToleratesTaint(klog.Background(), &taint, true) })
}
