//go:build plane

package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	for _, p := range w.podsOf("app") {
		if !slices.ContainsFunc(pods, func(o corev1.Pod) bool { return o.UID == p.UID && o.Spec.NodeName == p.Spec.NodeName }) {
			t.Errorf("pod %s runs on %s, and did not before", p.Name, p.Spec.NodeName)
		}
	}
	if n := w.ever(); n > seen+2 {
		t.Errorf("%d machines were started during the drain", n-seen)
	}
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
	for _, p := range w.podsOf("keep") {
		if !slices.ContainsFunc(pods, func(o corev1.Pod) bool { return o.UID == p.UID && o.Spec.NodeName == p.Spec.NodeName }) {
			t.Errorf("pod %s was evicted and came again", p.Name)
		}
	}
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
