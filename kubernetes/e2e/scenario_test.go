//go:build plane

package e2e

import (
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// away is how long the API server is away. A full run takes 5 minutes for it.
var away = map[bool]time.Duration{false: 40 * time.Second, true: 5 * time.Minute}[os.Getenv("FULL") != ""]

// parallel lets a test run beside others: it mostly waits.
func parallel(t *testing.T) { t.Parallel() }

// A Deployment grows: its pods wait, the pool grows, and they run. It shrinks: pods are evicted within their budget, machines end, and their
// Node objects go. At rest nothing moves.
func TestDeploymentGrowsAndShrinks(t *testing.T) {
	parallel(t)
	w := start(t, settings{})
	w.deploy(deployment("app", 2, "900m"), 1)
	w.untilRuns("app", 2)
	w.deploy(deployment("small", 5, "300m"), 1)
	w.untilRuns("small", 5)
	began := time.Now()
	w.scale("app", 9)
	w.untilRuns("app", 9)
	t.Logf("from 2 to 9 pods in %v, on %d machines", time.Since(began).Round(every), len(w.machines()))
	grown := len(w.machines())
	began = time.Now()
	w.scale("app", 3)
	w.untilRuns("app", 3)
	w.until("the pool shrinks, and the Node objects go", func() bool { n := len(w.machines()); return n < grown && n <= 5 && len(w.objects()) == n })
	took := time.Since(began)
	if t.Logf("from %d to %d machines in %v", grown, len(w.machines()), took.Round(every)); took > 3*time.Minute { // the window of the signal has 10 s
		t.Error("the scale-in took too long")
	}
	w.untilRuns("app", 3)
	w.untilRuns("small", 5)
	w.nothingIsLost()
	w.settled()
	machines, pods := w.machines(), w.running()
	w.stays("the same pods run on the same machines", 15*time.Second, func() bool {
		return slices.Equal(w.machines(), machines) && maps.EqualFunc(w.running(), pods, slices.Equal)
	})
}

// samePlaces requires that the pods of a Deployment are these, on the same nodes.
func (w *world) samePlaces(name string, pods []corev1.Pod) {
	w.plane.Helper()
	for _, p := range w.podsOf(name) {
		if !slices.ContainsFunc(pods, func(o corev1.Pod) bool { return o.UID == p.UID && o.Spec.NodeName == p.Spec.NodeName }) {
			w.plane.Errorf("pod %s runs on %s, and did not before", p.Name, p.Spec.NodeName)
		}
	}
}

func (w *world) nothingIsLost() {
	w.plane.Helper()
	w.set(func() {
		if len(w.lost) > 0 {
			w.plane.Errorf("pods ran when their machine ended: %v", w.lost)
		}
	})
}

// A machine with a spot notice is cordoned, and its pods are evicted within their budget and before its end. After its end the Node object goes.
func TestSpotNotice(t *testing.T) {
	parallel(t)
	w := start(t, settings{spot: true})
	slow, grace := deployment("app", 3, "900m"), int64(3600)
	slow.Spec.Template.Spec.TerminationGracePeriodSeconds = &grace
	w.deploy(slow, 1)
	w.untilRuns("app", 3)
	machine := w.machineOf("app")
	w.aws.fault(t, "interrupt", machine)
	w.until("the pods have less time to end than the machine", func() bool {
		return slices.ContainsFunc(w.podsOf("app"), func(p corev1.Pod) bool {
			return p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds <= 115
		})
	})
	if !w.cordoned(machine) {
		t.Error("the machine is not cordoned")
	}
	w.until("its pods have ended", func() bool { return w.left(machine) == 0 })
	w.untilRuns("app", 3)
	w.aws.fault(t, "lose", machine) // the provider takes it
	w.until("its Node object is deleted", func() bool { return w.node(machine) == nil })
	w.nothingIsLost()
}

// A machine that never joins is replaced, and the pods run on others.
func TestMachineThatNeverJoins(t *testing.T) {
	parallel(t)
	w := start(t, settings{pool: map[string]string{"threshold_seconds: 1800}": "threshold_seconds: 10}"}})
	w.deploy(deployment("app", 2, "900m"), -1)
	w.untilRuns("app", 2)
	w.settled() // at its very first start, an autoscaler treats running machines as joined
	var dead string
	w.set(func() {
		w.joins = func(machine string) bool {
			if dead == "" {
				dead = machine
			}
			return machine != dead
		}
	})
	w.scale("app", 6)
	w.untilRuns("app", 6)
	w.until("the machine is ended", func() bool {
		all, err := w.aws.instances(t.Context())
		return err == nil && dead != "" && !slices.ContainsFunc(all, func(i instance) bool { return i.ID == dead && i.State == "running" })
	})
	if n := w.ever(); n > 8 {
		t.Errorf("%d machines were started", n)
	}
}

// While the API server is away, no machine is ended, repaired or ordered. Afterwards the pool shrinks.
func TestAPIServerIsAway(t *testing.T) {
	parallel(t)
	w := start(t, settings{pool: map[string]string{"draining:": "health: {mode: act, detection: {node_update_timeout: 5s, detection_modes: [{type: AGENT_HEARTBEAT, options: {expected_interval: 3s, miss: 3}}]}}\ndraining:"}})
	w.deploy(deployment("app", 8, "900m"), 1)
	w.untilRuns("app", 8)
	w.settled()
	machines, seen := w.machines(), w.ever()
	w.scale("app", 2) // the pool could shrink now
	w.server.kill()
	w.text("no current state of its nodes", "status")
	w.stays("all machines run, and no other one", away, func() bool { return slices.Equal(w.machines(), machines) && w.ever() == seen })
	w.startServer()
	w.until("the pool shrinks", func() bool { return len(w.machines()) < len(machines) && len(w.objects()) == len(w.machines()) })
	w.untilRuns("app", 2)
	w.nothingIsLost()
}

// Of two adapters one acts. After its end, and that of the autoscaler, in a drain, the others finish the drain.
func TestTakeoverInADrain(t *testing.T) {
	parallel(t)
	w := start(t, settings{adapters: 2, standby: true})
	w.deploy(deployment("app", 4, "900m"), 0)
	w.untilRuns("app", 4)
	first := w.leader()
	if first == nil {
		t.Fatal("no adapter leads")
	}
	for _, a := range w.adapters {
		if s, ok := statusOf(a); a != first && (!ok || len(s.Leads) > 0) {
			t.Errorf("%s leads too: %+v", a.name, s)
		}
	}
	machine := w.machineOf("app")
	w.drain(machine)
	w.until("the machine is cordoned", func() bool { return w.cordoned(machine) })
	w.text("disruption budget", "explain")
	first.kill()
	w.daemons["bootstrap"].kill()
	w.until("the other adapter leads", func() bool { a := w.leader(); return a != nil && a != first })
	if !w.cordoned(machine) {
		t.Error("the takeover ended the cordon")
	}
	w.allow("app", 1)
	w.until("the machine ends, and its Node object goes", func() bool { return !slices.Contains(w.machines(), machine) && w.node(machine) == nil })
	w.untilRuns("app", 4)
	w.nothingIsLost()
}

// After a takeover in a drain that no budget ever allows, the others take the cordon back at its deadline (report 15).
func TestTakeoverTakesTheCordonBack(t *testing.T) {
	parallel(t)
	w := start(t, settings{adapters: 2, standby: true, pool: map[string]string{"threshold_seconds: 120,": "threshold_seconds: 25,"}})
	w.deploy(deployment("app", 4, "900m"), 0)
	w.untilRuns("app", 4)
	w.settled()
	first, machine, pods := w.leader(), w.machineOf("app"), w.podsOf("app")
	if first == nil {
		t.Fatal("no adapter leads")
	}
	w.drain(machine)
	w.until("the machine is cordoned", func() bool { return w.cordoned(machine) })
	first.kill()
	w.daemons["bootstrap"].kill()
	w.until("the other adapter leads", func() bool { a := w.leader(); return a != nil && a != first })
	w.until("its cordon is taken back", func() bool { n := w.node(machine); return n != nil && !n.Spec.Unschedulable && !w.cordoned(machine) })
	w.samePlaces("app", pods)
}
