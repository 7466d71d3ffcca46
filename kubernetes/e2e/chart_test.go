//go:build plane

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The release of the chart. Its service account is the user adapter.
const release, namespace = "weir-kubernetes", "weir"

// install applies all objects of the chart, as Helm does.
func (p *plane) install(values string) {
	p.Helper()
	p.must(http.MethodPost, "/api/v1/namespaces", corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, nil)
	cmd := exec.Command(program(p.T, "render"), "../../deploy/helm/weir-kubernetes", release, namespace)
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(values), &errs
	out, err := cmd.Output()
	if err != nil {
		p.Fatalf("%v: %s", err, &errs)
	}
	for line := range strings.Lines(string(out)) {
		var o struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
		}
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			p.Fatalf("%v: %s", err, line)
		}
		base := "/apis/" + o.APIVersion
		if o.APIVersion == "v1" {
			base = "/api/v1"
		}
		switch o.Kind {
		case "ConfigMap", "ServiceAccount", "Deployment", "PodDisruptionBudget":
			base += "/namespaces/" + namespace
		}
		plural := strings.ToLower(o.Kind) + "s"
		if o.Kind == "ValidatingAdmissionPolicy" {
			plural = "validatingadmissionpolicies"
		}
		p.must(http.MethodPost, base+"/"+plural+"?fieldValidation=Strict", json.RawMessage(line), nil)
	}
}

// must sends a request of the admin.
func (p *plane) must(method, path string, in, out any) {
	p.Helper()
	if err := p.do(p.Context(), method, path, in, out); err != nil {
		p.Fatalf("%s %s: %v", method, path, err)
	}
}

// values are those of the chart for the pool of a world.
var values = fmt.Sprintf(`{"replicas": 1, "config": {"pools": {"default": null, %q: {"default": true}}}}`, pool)

// The service account of the chart cordons nodes of its pools, and nothing else.
func TestChartLimitsTheServiceAccount(t *testing.T) {
	p := startPlane(t)
	p.install(values)
	for name, of := range map[string]string{"ours": pool, "theirs": "other"} {
		p.must(http.MethodPost, "/api/v1/nodes", corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"weirkeeper.dev/pool": of}, Annotations: map[string]string{"a": "1"}},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///z/i-" + name, Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}},
		}, nil)
	}
	other := p.as(adapter)
	taints := func(list ...corev1.Taint) any { return map[string]any{"spec": map[string]any{"taints": list}} }
	var node corev1.Node
	p.must(http.MethodGet, "/api/v1/nodes/ours", nil, &node)
	cordoned := append(node.Spec.Taints, corev1.Taint{Key: "weirkeeper.dev/draining", Effect: corev1.TaintEffectNoSchedule})
	p.until("the policy is in effect", func() bool {
		return codeOf(other.do(t.Context(), http.MethodPatch, "/api/v1/nodes/theirs", map[string]any{"spec": map[string]any{"unschedulable": true}}, nil)) != 0
	})
	meta := func(key string, value any) any { return map[string]any{"metadata": map[string]any{key: value}} }
	for _, c := range []struct {
		name, method, path string
		body               any
		want               string // part of the refusal; empty: it is allowed
	}{
		{"cordon", http.MethodPatch, "/api/v1/nodes/ours", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"weirkeeper.dev/cordon": "{}"}},
			"spec": map[string]any{"unschedulable": true, "taints": cordoned}}, ""},
		{"cordon taken back", http.MethodPatch, "/api/v1/nodes/ours", map[string]any{"spec": map[string]any{"unschedulable": nil, "taints": node.Spec.Taints}}, ""},
		{"cordon of another pool", http.MethodPatch, "/api/v1/nodes/theirs", map[string]any{"spec": map[string]any{"unschedulable": true}}, "belongs to no pool"},
		{"label", http.MethodPatch, "/api/v1/nodes/ours", meta("labels", map[string]any{"x": "y"}), "changes no labels"},
		{"finalizer", http.MethodPatch, "/api/v1/nodes/ours", meta("finalizers", []string{"x/y"}), "changes no labels"},
		{"another annotation", http.MethodPatch, "/api/v1/nodes/ours", meta("annotations", map[string]any{"a": "2"}), "only its own annotation"},
		{"a new annotation", http.MethodPatch, "/api/v1/nodes/ours", meta("annotations", map[string]any{"b": "2"}), "only its own annotation"},
		{"an annotation removed", http.MethodPatch, "/api/v1/nodes/ours", meta("annotations", map[string]any{"a": nil}), "only its own annotation"},
		{"another taint", http.MethodPatch, "/api/v1/nodes/ours", taints(append(node.Spec.Taints, corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoExecute})...), "only its own taint"},
		{"a taint removed", http.MethodPatch, "/api/v1/nodes/ours", taints(node.Spec.Taints[1:]...), "only its own taint"},
		{"its taint evicts", http.MethodPatch, "/api/v1/nodes/ours", taints(append(node.Spec.Taints, corev1.Taint{Key: "weirkeeper.dev/draining", Effect: corev1.TaintEffectNoExecute})...), "only its own taint"},
		{"podCIDR", http.MethodPatch, "/api/v1/nodes/ours", map[string]any{"spec": map[string]any{"podCIDR": "10.1.0.0/24", "podCIDRs": []string{"10.1.0.0/24"}}}, "changes nothing else"},
		{"status", http.MethodPatch, "/api/v1/nodes/ours/status", map[string]any{"status": map[string]any{"phase": "Running"}}, "cannot patch resource"},
		{"new node", http.MethodPost, "/api/v1/nodes", corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, "cannot create resource"},
		{"node of another pool deleted", http.MethodDelete, "/api/v1/nodes/theirs", nil, "belongs to no pool"},
		{"secrets", http.MethodGet, "/api/v1/secrets", nil, "cannot list resource"},
		{"pod deleted", http.MethodDelete, "/api/v1/namespaces/default/pods/x", nil, "cannot delete resource"},
		{"eviction", http.MethodPost, "/api/v1/namespaces/default/pods/x/eviction", map[string]any{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": "x", "namespace": "default"}}, `"x" not found`},
		{"pods", http.MethodGet, "/api/v1/pods", nil, ""},
		{"node deleted", http.MethodDelete, "/api/v1/nodes/ours", nil, ""},
	} {
		err := other.do(t.Context(), c.method, c.path, c.body, nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if err := p.do(t.Context(), http.MethodPatch, "/api/v1/nodes/theirs", meta("labels", map[string]any{"x": "y"}), nil); err != nil {
		t.Errorf("the policy limits others: %v", err)
	}
}
