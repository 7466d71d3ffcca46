//go:build plane

package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The tests of this file are reports that recur at other autoscalers of Kubernetes. docs/from-kubernetes-autoscalers.md lists them.

// Report 1: a node is Ready, its startup taint is still there, and a second machine is ordered for the same pod.
func TestNodeWithAStartupTaintIsComing(t *testing.T) {
	parallel(t)
	const taint = "example.com/cni"
	w := start(t, settings{startup: []string{taint}, pool: map[string]string{"period: 2s\n": "period: 2s\n    parameters: {pending_multiplier: 1}\n"}})
	w.deploy(deployment("app", 2, "900m"), -1)
	w.untilRuns("app", 2)
	w.settled()
	w.set(func() { w.taints = []corev1.Taint{{Key: taint, Effect: corev1.TaintEffectNoSchedule}} })
	before := len(w.machines())
	pods := 2*before + 1 // one more than they hold
	w.scale("app", pods)
	w.until("a machine comes for the last pod", func() bool { return len(w.machines()) > before })
	w.settled()
	seen := w.ever()
	if n := len(w.machines()) - before; n != 1 {
		t.Errorf("%d machines came for one pod", n)
	}
	w.stays("no other machine comes for it", 15*time.Second, func() bool { return w.ever() == seen })
	for _, n := range w.objects() {
		left := slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taint })
		w.must(http.MethodPatch, "/api/v1/nodes/"+n.Name, map[string]any{"spec": map[string]any{"taints": left}}, nil)
	}
	w.untilRuns("app", pods)
}

// Report 2: a machine that never registered cannot be removed while the pool has its minimum. It is replaced, without a loop.
func TestMachineThatNeverJoinsAtTheMinimum(t *testing.T) {
	parallel(t)
	w := start(t, settings{pool: map[string]string{"threshold_seconds: 1800}": "threshold_seconds: 10}", "min_capacity: 1,": "min_capacity: 2,"}})
	w.until("the pool has its minimum", func() bool { return len(w.machines()) == 2 })
	w.settled()
	first, dead := w.machines(), ""
	w.set(func() {
		w.joins = func(machine string) bool {
			if dead == "" {
				dead = machine // the one that the group starts in place of the lost one
			}
			return machine != dead
		}
	})
	w.aws.fault(t, "lose", first[0])
	w.until("another machine has joined", func() bool { now := w.machines(); return len(now) == 2 && !slices.Contains(now, first[0]) })
	w.until("the dead machine is ended", func() bool {
		all, err := w.aws.instances(t.Context())
		return err == nil && !slices.ContainsFunc(all, func(i instance) bool { return i.ID == dead && i.State == "running" })
	})
	if n := w.ever(); n > 5 {
		t.Errorf("%d machines were started, want 4: two, the dead one and its replacement", n)
	}
}

// Report 3: a group that cannot grow stops all scaling.
func TestGroupThatCannotGrow(t *testing.T) {
	parallel(t)
	w := start(t, settings{groups: []string{"blue", "green"}})
	w.aws.fault(t, "deny", "SetDesiredCapacity", "green")
	w.deploy(deployment("app", 8, "900m"), -1)
	w.untilRuns("app", 8)
}

// Reports 4, 9 and 15: a drain never ends, more and more machines are started meanwhile, and the cordon stays after it was given up.
func TestDrainThatIsNeverAllowed(t *testing.T) {
	parallel(t)
	w := start(t, settings{pool: map[string]string{"threshold_seconds: 120,": "threshold_seconds: 12,"}})
	w.deploy(deployment("app", 4, "900m"), 0)
	w.untilRuns("app", 4)
	w.settled()
	machine, seen := w.machineOf("app"), w.ever()
	pods := w.podsOf("app")
	w.drain(machine)
	w.until("the machine is cordoned", func() bool { return w.cordoned(machine) })
	w.text("disruption budget", "explain")
	w.until("its cordon is taken back", func() bool { n := w.node(machine); return n != nil && !n.Spec.Unschedulable && !w.cordoned(machine) })
	w.samePlaces("app", pods)
	if n := w.ever(); n > seen+2 {
		t.Errorf("%d machines were started during the drain", n-seen)
	}
}

// Report 4: a finalizer holds a deleted pod. It is named, the drain ends at its deadline, and a later one succeeds.
func TestFinalizerInADrain(t *testing.T) {
	parallel(t)
	w := start(t, settings{pool: map[string]string{"threshold_seconds: 120,": "threshold_seconds: 45,"}})
	w.deploy(deployment("app", 4, "900m"), 1)
	w.untilRuns("app", 4)
	w.settled()
	machine, seen := w.machineOf("app"), w.ever()
	hold := func(pods []corev1.Pod, finalizers []string) {
		for _, p := range pods {
			if p.Spec.NodeName == nameOf(machine) {
				w.must(http.MethodPatch, pathOf(&p), map[string]any{"metadata": map[string]any{"finalizers": finalizers}}, nil)
			}
		}
	}
	hold(w.podsOf("app"), []string{"example.com/backup"})
	w.drain(machine)
	w.text("a finalizer or the kubelet of its node holds it", "explain")
	w.until("its cordon is taken back", func() bool { n := w.node(machine); return n != nil && !n.Spec.Unschedulable && !w.cordoned(machine) })
	if n := w.ever(); n > seen+2 {
		t.Errorf("%d machines were started during the drain", n-seen)
	}
	hold(w.podsOf("app"), nil)
	w.drain(machine)
	w.until("the machine ends, and its Node object goes", func() bool { return !slices.Contains(w.machines(), machine) && w.node(machine) == nil })
	w.untilRuns("app", 4)
}

// Report 5: a pod that must not be disrupted is evicted. Report 12: nobody says why a machine with little work stays.
func TestPodThatMustNotBeDisrupted(t *testing.T) {
	parallel(t)
	w := start(t, settings{})
	keep := deployment("keep", 2, "100m")
	keep.Spec.Template.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
	keep.Spec.Template.Spec.Containers[0].Resources.Requests = amounts("100m", "5Gi") // one on each machine
	w.deploy(deployment("app", 6, "900m"), -1)
	w.untilRuns("app", 6)
	w.deploy(keep, -1)
	w.untilRuns("keep", 2)
	pods := w.podsOf("keep")
	w.scale("app", 0)
	w.until("the other machines end", func() bool { return len(w.machines()) == 2 })
	w.until("the reason why two stay is explained", func() bool {
		out, err := w.weir("explain")
		return err == nil && (strings.Contains(out, "not safe to evict") || strings.Contains(out, "stay for their copies"))
	})
	w.settled()
	w.samePlaces("keep", pods)
	w.nothingIsLost()
}

// Report 6: a pod that tolerates the taint of a drain is not evicted. Report 7: a drain ends before the replacements run.
func TestPodThatToleratesTheDrain(t *testing.T) {
	parallel(t)
	w := start(t, settings{})
	d := deployment("app", 4, "900m")
	d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "weirkeeper.dev/draining", Operator: corev1.TolerationOpExists}}
	w.deploy(d, 1)
	w.untilRuns("app", 4)
	machine := w.machineOf("app")
	w.drain(machine)
	w.until("the machine ends, and its Node object goes", func() bool { return !slices.Contains(w.machines(), machine) && w.node(machine) == nil })
	w.untilRuns("app", 4)
	w.nothingIsLost()
}

// Report 7 and expected behaviour 14: a roll has each replacement ready first, within the budgets.
func TestRollWithinBudgets(t *testing.T) {
	parallel(t)
	w := start(t, settings{pool: map[string]string{"draining:": "rotation: {health_gate: {wait: 2s, within: 5m}, stop_after: 3}\ndraining:"}})
	w.deploy(deployment("app", 4, "900m"), 1)
	w.untilRuns("app", 4)
	w.settled()
	before := w.machines()
	w.until("the roll is ordered", func() bool { _, err := w.weir("pool", "roll", pool, "--why", "test"); return err == nil })
	w.until("all machines are replaced", func() bool {
		return !slices.ContainsFunc(w.machines(), func(m string) bool { return slices.Contains(before, m) }) && len(w.objects()) == len(w.machines())
	})
	w.untilRuns("app", 4)
	w.nothingIsLost()
}

// Report 13: pods that wait are no demand; or those that no machine can hold are, without end.
func TestPodThatNoMachineCanHold(t *testing.T) {
	parallel(t)
	w := start(t, settings{})
	w.deploy(deployment("app", 2, "900m"), -1)
	w.untilRuns("app", 2)
	w.settled()
	seen := w.ever()
	w.deploy(deployment("giant", 1, "64"), -1)
	w.text("it needs 64 cpus, the largest machine", "status")
	w.stays("no machine is ordered for it", 15*time.Second, func() bool { return w.ever() == seen })
}

// Report 13: if new machines cannot join, pods that wait do not raise the pool to its maximum.
func TestMachinesNeverJoin(t *testing.T) {
	parallel(t)
	w := start(t, settings{pool: map[string]string{"threshold_seconds: 1800}": "threshold_seconds: 10}"}})
	w.until("the first machine joins", func() bool { return len(w.machines()) == 1 })
	w.settled()
	w.set(func() { w.joins = func(string) bool { return false } })
	w.deploy(deployment("app", 4, "900m"), -1)
	w.text("machines in a row never joined", "status")
	seen := w.ever()
	w.stays("no other machine is started", 15*time.Second, func() bool { return w.ever() == seen })
	if seen > 12 {
		t.Errorf("%d machines were started before", seen)
	}
}

// Report 14, and node health: a condition that node-problem-detector reports replaces the machine.
func TestSickNodeIsReplaced(t *testing.T) {
	parallel(t)
	w := start(t, settings{pool: map[string]string{"draining:": "health: {mode: act, detection: {node_update_timeout: 5s, tolerate: 30s, detection_modes: [{type: AGENT_HEARTBEAT, options: {expected_interval: 3s, miss: 3}}]}}\ndraining:"}})
	w.deploy(deployment("app", 4, "900m"), 1)
	w.untilRuns("app", 4)
	w.settled()
	machine := w.machineOf("app")
	w.must(http.MethodPatch, "/api/v1/nodes/"+nameOf(machine)+"/status", map[string]any{"status": corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: "KernelDeadlock", Status: corev1.ConditionTrue, Reason: "DockerHung", Message: "a task hangs"}},
	}}, nil)
	w.until("the machine ends, and its Node object goes", func() bool { return !slices.Contains(w.machines(), machine) && w.node(machine) == nil })
	w.untilRuns("app", 4)
}

// Report 14: a condition that has ended repairs nothing. The machine of a kubelet that is silent is replaced, and no other one.
func TestConditionThatEndsAndSilentKubelet(t *testing.T) {
	parallel(t)
	w := start(t, settings{pool: map[string]string{
		"threshold_seconds: 120,": "threshold_seconds: 12,",
		"draining:":               "health: {mode: act, detection: {node_update_timeout: 5s, tolerate: 30s, detection_modes: [{type: AGENT_HEARTBEAT, options: {expected_interval: 3s, miss: 3}}]}}\ndraining:",
	}})
	w.deploy(deployment("app", 4, "900m"), 1)
	w.untilRuns("app", 4)
	w.settled()
	machine, before, seen := w.machineOf("app"), w.machines(), w.ever()
	for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
		w.must(http.MethodPatch, "/api/v1/nodes/"+nameOf(machine)+"/status", map[string]any{"status": corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: "KernelDeadlock", Status: status, Reason: "DockerHung", Message: "a task hangs"}},
		}}, nil)
		if status == corev1.ConditionTrue {
			w.text("KernelDeadlock", "node", "status", machine)
		}
	}
	w.stays("all machines run, and no other one", 40*time.Second, func() bool { return slices.Equal(w.machines(), before) && w.ever() == seen })
	w.guarded.Store(false) // pods of a silent kubelet are not Ready
	w.set(func() {
		w.mute, w.holds = machine, func(p *corev1.Pod) bool { return p.Spec.NodeName == nameOf(machine) }
	})
	w.until("the machine ends, and its Node object goes", func() bool { return !slices.Contains(w.machines(), machine) && w.node(machine) == nil })
	w.untilRuns("app", 4)
	for _, one := range before {
		if one != machine && !slices.Contains(w.machines(), one) {
			t.Errorf("machine %s has ended too", one)
		}
	}
}

// What people have to correct is in the status: a node without a providerID, and a right that is missing. With the right, the drain goes on.
func TestProblemsAreInTheStatus(t *testing.T) {
	parallel(t)
	w := start(t, settings{})
	w.deploy(deployment("app", 4, "900m"), 1)
	w.untilRuns("app", 4)
	w.must(http.MethodPost, "/api/v1/nodes", corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "bare", Labels: map[string]string{"weirkeeper.dev/pool": pool}}, Spec: corev1.NodeSpec{Unschedulable: true}}, nil)
	w.text("node bare: it has no providerID", "status")
	w.text("node bare: it has no providerID", "doctor", pool)
	const role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/" + release
	verbs := func(all ...string) {
		var o struct {
			Rules []map[string]any `json:"rules"`
		}
		w.must(http.MethodGet, role, nil, &o)
		o.Rules[0]["verbs"] = all
		w.must(http.MethodPatch, role, o, nil)
	}
	verbs("get", "list", "watch", "delete")
	machine := w.machineOf("app")
	w.drain(machine)
	w.text("the service account needs patch of nodes", "status")
	if w.cordoned(machine) || !slices.Contains(w.machines(), machine) {
		t.Error("the machine is cordoned, or has ended")
	}
	verbs("get", "list", "watch", "patch", "delete")
	w.until("the machine ends, and its Node object goes", func() bool { return !slices.Contains(w.machines(), machine) && w.node(machine) == nil })
	w.until("the status has the right no more", func() bool {
		out, err := w.weir("status")
		return err == nil && !strings.Contains(out, "the service account needs")
	})
	w.nothingIsLost()
}
