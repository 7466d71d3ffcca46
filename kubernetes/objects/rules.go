package objects

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
)

// interned has the rules that some pod has. Most pods of a cluster share theirs with others.
var interned = struct {
	sync.Mutex
	all map[[sha256.Size]byte]weak.Pointer[core.Rules]
}{all: map[[sha256.Size]byte]weak.Pointer[core.Rules]{}}

// rules returns what a pod requires of its node and of other pods. Equal rules are one value.
func rules(p *corev1.Pod, requests corev1.ResourceList) *core.Rules {
	unknown := notUnderstood(p, requests)
	key := keyOf(p, unknown)
	interned.Lock()
	defer interned.Unlock()
	if r := interned.all[key].Value(); r != nil {
		return r
	}
	r := newRules(p, unknown)
	interned.all[key] = weak.Make(r)
	runtime.AddCleanup(r, func(key [sha256.Size]byte) {
		interned.Lock()
		defer interned.Unlock()
		if interned.all[key].Value() == nil {
			delete(interned.all, key)
		}
	}, key)
	return r
}

// keyOf returns a digest of all that newRules reads.
func keyOf(p *corev1.Pod, unknown string) [sha256.Size]byte {
	spec := corev1.PodSpec{NodeSelector: p.Spec.NodeSelector, Affinity: p.Spec.Affinity, Tolerations: p.Spec.Tolerations, TopologySpreadConstraints: p.Spec.TopologySpreadConstraints}
	data, _ := spec.Marshal() // it fails for no value
	data = fmt.Appendf(data, "\x00%q%q", p.Namespace, unknown)
	for _, k := range slices.Sorted(maps.Keys(p.Labels)) {
		data = append(append(append(append(data, 0), k...), '='), p.Labels[k]...)
	}
	for _, port := range ports(p) {
		data = fmt.Appendf(data, "\x00%s%d", port.Protocol, port.Number)
	}
	return sha256.Sum256(data)
}

func newRules(p *corev1.Pod, unknown string) *core.Rules {
	r := &core.Rules{Namespace: same(p.Namespace), Ports: ports(p), Unknown: unknown, Tolerates: tolerates(slices.Clone(p.Spec.Tolerations)), Selects: selects(p)}
	var cut bool
	if r.Labels, cut = limited(p.Labels); cut && r.Unknown == "" {
		r.Unknown = "its labels exceed their bound"
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			r.Apart = append(r.Apart, apart(r.Namespace, term))
		}
	}
	r.Selector = selectorOf(p)
	for _, s := range p.Spec.TopologySpreadConstraints {
		if s.WhenUnsatisfiable == corev1.DoNotSchedule {
			r.Spread = append(r.Spread, spread(p.Labels, s))
		}
	}
	return r
}

// notUnderstood returns the first requirement of a pod that package core does not understand; empty: it understands all.
func notUnderstood(p *corev1.Pod, requests corev1.ResourceList) string {
	if p.Spec.SchedulerName != "" && p.Spec.SchedulerName != corev1.DefaultSchedulerName {
		return same("the scheduler " + p.Spec.SchedulerName)
	}
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		return "pod affinity"
	}
	if len(p.Spec.ResourceClaims) > 0 {
		return "claims of resources"
	}
	first := ""
	for name, q := range requests {
		known := name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasSuffix(string(name), "/gpu")
		if !known && !q.IsZero() && (first == "" || string(name) < first) {
			first = string(name)
		}
	}
	if first != "" {
		return same(wire.Clip("the resource " + first))
	}
	return ""
}

// ports returns the ports of the node that a pod takes.
func ports(p *corev1.Pod) (all []core.Port) {
	add := func(c *corev1.Container) {
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				all = append(all, core.Port{Protocol: same(string(port.Protocol)), Number: port.HostPort})
			}
		}
	}
	for i := range p.Spec.InitContainers {
		if c := &p.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	return all
}

// claims returns the claims of volumes of a pod, as NAMESPACE/NAME.
func claims(p *corev1.Pod) (all []string) {
	for _, v := range p.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			all = append(all, p.Namespace+"/"+v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			all = append(all, p.Namespace+"/"+p.Name+"-"+v.Name)
		}
	}
	return all
}

// apart returns a term of anti-affinity. One that selects namespaces by their labels applies to all namespaces: their labels are unknown.
func apart(own string, term corev1.PodAffinityTerm) core.Apart {
	matches := selector(term.LabelSelector)
	all := term.NamespaceSelector != nil
	in := slices.Clone(term.Namespaces)
	if len(in) == 0 {
		in = []string{own}
	}
	return core.Apart{
		Key: fmt.Sprintf("%q %v %q %s", term.TopologyKey, all, in, metav1.FormatLabelSelector(term.LabelSelector)), Topology: same(term.TopologyKey),
		Matches: func(namespace string, l map[string]string) bool {
			return (all || slices.Contains(in, namespace)) && matches(l)
		},
	}
}

// spread returns a constraint of a pod with these labels.
func spread(own map[string]string, s corev1.TopologySpreadConstraint) core.Spread {
	matches, same := selector(s.LabelSelector), map[string]string{}
	for _, key := range s.MatchLabelKeys {
		if v, ok := own[key]; ok {
			same[key] = v
		}
	}
	out := core.Spread{
		Topology: s.TopologyKey, MaxSkew: int(s.MaxSkew), MinDomains: 1,
		AllNodes:  s.NodeAffinityPolicy != nil && *s.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore,
		Tolerated: s.NodeTaintsPolicy != nil && *s.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
		Matches: func(l map[string]string) bool {
			for key, v := range same {
				if l[key] != v {
					return false
				}
			}
			return matches(l)
		},
	}
	if s.MinDomains != nil {
		out.MinDomains = int(*s.MinDomains)
	}
	return out
}

// selector returns whether labels match. A selector that cannot be read matches all.
func selector(s *metav1.LabelSelector) func(map[string]string) bool {
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return func(map[string]string) bool { return true }
	}
	return func(l map[string]string) bool { return parsed.Matches(labels.Set(l)) }
}

// maxSelector bounds the labels that are sent of a pod that waits.
const maxSelector = 16

// selectorOf returns the labels that the node of a pod must have: those of its selector, and those with one value in the only term of its
// required node affinity. nil: none.
func selectorOf(p *corev1.Pod) map[string]string {
	all := map[string]string{}
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		if terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms; len(terms) == 1 {
			for _, e := range terms[0].MatchExpressions {
				if e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
					all[e.Key] = e.Values[0]
				}
			}
		}
	}
	maps.Copy(all, p.Spec.NodeSelector)
	if len(all) == 0 || len(all) > maxSelector {
		return nil
	}
	all, _ = limited(all)
	return all
}

// selects returns the Selects of a pod: its node selector, and its required node affinity. nil: it has none.
func selects(p *corev1.Pod) func(name string, l map[string]string) string {
	affinity := (*corev1.NodeAffinity)(nil)
	if p.Spec.Affinity != nil {
		affinity = p.Spec.Affinity.NodeAffinity
	}
	if len(p.Spec.NodeSelector) == 0 && (affinity == nil || affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil) {
		return nil
	}
	chosen, _ := limited(p.Spec.NodeSelector)
	keys := slices.Sorted(maps.Keys(chosen))
	required := nodeaffinity.NewRequiredNodeAffinity(nil, &corev1.Affinity{NodeAffinity: affinity})
	return func(name string, l map[string]string) string {
		for _, key := range keys {
			if v, ok := l[key]; !ok || v != chosen[key] {
				return wire.Clip(fmt.Sprintf("it selects %s=%s", key, chosen[key]))
			}
		}
		if ok, err := required.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: l}}); err != nil || !ok {
			return "its required node affinity does not match"
		}
		return ""
	}
}
