package kubetest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// uidOf returns the uid that an eviction requires.
func uidOf(o runtime.Object) string {
	e, is := o.(*policyv1.Eviction)
	if !is || e.DeleteOptions == nil || e.DeleteOptions.Preconditions == nil || e.DeleteOptions.Preconditions.UID == nil {
		return ""
	}
	return string(*e.DeleteOptions.Preconditions.UID)
}

// graceOf returns the grace period of an eviction: " grace=5"; empty: that of the pod.
func graceOf(o runtime.Object) string {
	e, is := o.(*policyv1.Eviction)
	if !is || e.DeleteOptions == nil || e.DeleteOptions.GracePeriodSeconds == nil {
		return ""
	}
	return fmt.Sprintf(" grace=%d", *e.DeleteOptions.GracePeriodSeconds)
}

// Node returns a node of a pool that is Ready: 4 cpus, 8 GiB, and the machine i-NAME.
func Node(name, pool string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"weirkeeper.dev/pool": pool, "kubernetes.io/hostname": name}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-" + name},
		Status: corev1.NodeStatus{
			Allocatable: Amounts("4", "8Gi"), NodeInfo: corev1.NodeSystemInfo{BootID: "boot-" + name},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, f := range change {
		f(n)
	}
	return n
}

// Pod returns a pod of a ReplicaSet with 1 cpu and 1 GiB in the namespace "default". Without a node, the scheduler has found none.
func Pod(name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: new(true)}}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: Requests("1", "1Gi")}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if node == "" {
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available: 1 Insufficient cpu."}}
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// Requests returns cpu and memory.
func Requests(cpu, mem string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(mem)}
}

// Amounts returns cpu and memory, 20 GiB of disk, and 110 pods.
func Amounts(cpu, mem string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(mem),
		corev1.ResourceEphemeralStorage: resource.MustParse("20Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
}
