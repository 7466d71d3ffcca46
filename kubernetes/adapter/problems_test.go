package adapter

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
	"github.com/weirkeeper/weirkeeper/kubernetes/kubetest"
)

// untilProblem waits until the state of the pool has a problem with this text, or none with it.
func (w *world) untilProblem(text string, is bool) {
	w.Helper()
	w.until(fmt.Sprintf("%q among the problems: %v", text, is), func() bool {
		return w.state.Fresh && is == slices.ContainsFunc(w.state.Problems, func(p string) bool { return strings.Contains(p, text) })
	})
}

// A right that is missing is a problem of the pool, with where to give it, until a request has succeeded. Nothing shrinks for it.
func TestMissingRights(t *testing.T) {
	for _, tt := range []struct {
		right, effect string
		refuse        string // method
		resource      string // that cannot be read
	}{
		{right: "get of nodes", effect: "no node can be cordoned", refuse: http.MethodGet},
		{right: "patch of nodes", effect: "no node can be cordoned", refuse: http.MethodPatch},
		{right: "delete of nodes", effect: "the Node objects of ended machines stay", refuse: http.MethodDelete},
		{right: "create of pods/eviction", effect: "no pod is evicted", refuse: http.MethodPost},
		{right: "list and watch of poddisruptionbudgets", effect: "no machine is removed", resource: kube.Budgets},
		{right: "list and watch of persistentvolumes", effect: "no machine with a claim is removed", resource: kube.Volumes},
	} {
		t.Run(tt.right, func(t *testing.T) {
			t.Parallel()
			w := start(t)
			w.server.Put(kubetest.Node("a", "p"), kubetest.Node("b", "p"), kubetest.Pod("t", "a"))
			w.untilFacts("i-a", func(f api.NodeFacts) bool { return f.Tasks == 1 })
			w.server.Refuse(tt.refuse)
			if tt.resource != "" {
				w.server.Fail(http.StatusForbidden, tt.resource)
			}
			work := func() {
				w.Helper()
				err := w.cordon("i-a", true)
				if refused := tt.refuse == http.MethodGet || tt.refuse == http.MethodPatch; refused != (err != nil) || refused && !strings.Contains(err.Error(), "the service account needs "+tt.right) {
					t.Errorf("cordon: %v", err)
				}
				if err := w.nc.Publish("weir.c.agent.p.i-b.gone", []byte(`{"node":"i-b","pool":"p"}`)); err != nil {
					t.Fatal(err)
				}
			}
			work()
			w.untilProblem("the service account needs "+tt.right+": add it to the ClusterRole of weir-kubernetes", true)
			w.untilProblem(tt.effect, true)
			tt.refuse = ""
			w.server.Refuse("")
			if tt.resource != "" {
				w.server.Fail(0, tt.resource)
			}
			work()
			w.untilProblem("the service account needs", false)
		})
	}
}

// A server of a version without policy/v1 has no budgets: that is named, and no machine is removed.
func TestServerWithoutBudgets(t *testing.T) {
	w := start(t)
	w.server.Fail(http.StatusNotFound, kube.Budgets)
	w.server.Put(kubetest.Node("a", "p"))
	w.untilProblem("no machine is removed: watch poddisruptionbudgets: ", true)
	if p := w.places(api.PlacesQuestion{Leave: []string{"i-a"}, Most: 1}); len(p.Leave) > 0 {
		t.Errorf("leave %v", p.Leave)
	}
}

// Nodes that people have to correct, and pods that no pool is for, are problems. Those that pass are not.
func TestProblemsOfNodesAndPods(t *testing.T) {
	w := start(t)
	starts := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }
	w.server.Put(kubetest.Node("a", "p"), kubetest.Node("starts", "p", starts), kubetest.Node("none", "p", func(n *corev1.Node) { n.Spec.ProviderID = "" }),
		kubetest.Node("twin", "p", func(n *corev1.Node) { n.Spec.ProviderID = "aws:///us-east-1a/i-a" }),
		kubetest.Pod("other", "", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }))
	w.untilProblem("node none: it has no providerID", true)
	w.untilProblem("node a: the Node objects a, twin have the same providerID", true)
	w.untilProblem("pod default/other waits: no pool has machines for it: pool p: it selects disk=ssd", true)
	w.untilProblem("node starts", false)
	for i := range 2 * api.MaxSchedulerLines {
		w.server.Put(kubetest.Node(fmt.Sprint("n", i), "p", func(n *corev1.Node) { n.Spec.ProviderID = "" }))
	}
	w.untilProblem("more problems, which /status of weir-kubernetes lists", true)
	w.read(func() {
		if err := w.state.Validate(); err != nil || len(w.state.Problems) != api.MaxSchedulerLines {
			t.Errorf("%d problems, %v", len(w.state.Problems), err)
		}
	})
	w.server.Fail(http.StatusServiceUnavailable, kube.Pods)
	w.untilFresh(false)
	if w.adapter.stateOf("p", w.adapter.mirror.State(time.Now())).Problems != nil {
		t.Error("old knowledge has problems")
	}
}
