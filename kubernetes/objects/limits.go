package objects

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/weirkeeper/weirkeeper/kubernetes/core"
)

// Budget returns what the adapter keeps of a disruption budget. One whose status is older than it is allows nothing, as the API server
// does.
func Budget(b *policyv1.PodDisruptionBudget) core.Budget {
	out := core.Budget{UID: string(b.UID), Namespace: same(b.Namespace), Name: b.Name, Matches: selector(b.Spec.Selector)}
	if b.Status.ObservedGeneration >= b.Generation {
		out.Allowed = max(0, int(b.Status.DisruptionsAllowed))
	}
	return out
}

// Volume returns what the adapter keeps of a persistent volume. bound: a claim has it.
func Volume(v *corev1.PersistentVolume) (out core.Volume, bound bool) {
	out.UID = string(v.UID)
	claim := v.Spec.ClaimRef
	if v.Status.Phase != corev1.VolumeBound || claim == nil {
		return out, false
	}
	out.Claim, out.Selects = claim.Namespace+"/"+claim.Name, where(v)
	return out, true
}

// where returns the Selects of a volume: its required node affinity, and the labels for its zone and region. nil: each node can use it.
func where(v *corev1.PersistentVolume) func(name string, l map[string]string) string {
	var affinity *nodeaffinity.LazyErrorNodeSelector
	if v.Spec.NodeAffinity != nil && v.Spec.NodeAffinity.Required != nil {
		affinity = nodeaffinity.NewLazyErrorNodeSelector(v.Spec.NodeAffinity.Required)
	}
	zones := map[string][]string{}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if in, ok := v.Labels[key]; ok {
			zones[key] = strings.Split(in, "__")
		}
	}
	if affinity == nil && len(zones) == 0 {
		return nil
	}
	why := fmt.Sprintf("its volume %.100s cannot be used there", v.Name)
	return func(name string, l map[string]string) string {
		for key, in := range zones {
			if zone, ok := l[key]; ok && !slices.Contains(in, zone) {
				return why
			}
		}
		if affinity != nil {
			if ok, err := affinity.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: l}}); err != nil || !ok {
				return why
			}
		}
		return ""
	}
}
