package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
	"github.com/weirkeeper/weirkeeper/kubernetes/kubetest"
	"github.com/weirkeeper/weirkeeper/kubernetes/mirror"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// world is an adapter of pool p of cluster c that runs, with its API server, and what the others of the bus receive.
type world struct {
	*testing.T
	server  *kubetest.Server
	nc      *nats.Conn
	adapter *Adapter
	agents  *wire.Client

	mu      sync.Mutex
	changed chan struct{}
	facts   map[string]api.NodeFacts
	beats   map[string]int
	state   api.SchedulerState
	samples map[string]float64
	number  uint64
	bad     []string
}

// start runs an adapter until the test ends.
func start(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	nats := bustest.Serve(t, server.Options{})
	w := &world{
		T: t, server: kubetest.Serve(t), nc: bustest.Connect(t, nats.ClientURL()), changed: make(chan struct{}),
		facts: map[string]api.NodeFacts{}, beats: map[string]int{}, samples: map[string]float64{},
	}
	w.agents = wire.NewClient(w.nc, "c", "p")
	for _, subject := range []string{"weir.c.node.p.*", "weir.c.heartbeat.p.*", "weir.c.placer.p.state"} {
		bustest.Subscribe(t, w.nc, subject, w.receive)
	}
	c := Config{
		Cluster: "c", Period: 300 * time.Millisecond, Batch: 20 * time.Millisecond, Grace: 50 * time.Millisecond, FirstBackoff: 50 * time.Millisecond, DeleteEnded: true,
		Mirror: mirror.Config{Pause: 50 * time.Millisecond}, Log: slog.New(slog.DiscardHandler),
		Pools: []Pool{{Pool: core.Pool{Name: "p", Default: true}, Conn: bustest.Connect(t, nats.ClientURL()), Sink: w}},
	}
	for _, f := range change {
		f(&c)
	}
	a, err := New(c, w.server.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	w.adapter = a
	ended := make(chan error)
	go func() { ended <- a.Run(t.Context()) }()
	if c.Pools[0].Lease == nil { // it answers at once; a request before its subscription would be lost
		w.until("requests have a responder", func() bool { return nats.GlobalAccount().Interest(message.PlacesSubject("c", "p")) > 0 })
	}
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
		w.read(func() {
			if len(w.bad) > 0 {
				t.Errorf("bad messages: %q", w.bad)
			}
		})
	})
	return w
}

// Write implements Sink.
func (w *world) Write(_ context.Context, samples []metrics.Sample) error {
	w.set(func() {
		for _, s := range samples {
			w.samples[s.Name] = s.Value
		}
	})
	return nil
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

// read calls f while no message is received.
func (w *world) read(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) receive(m *nats.Msg) {
	w.set(func() {
		node, kind := message.OfNode(m.Subject)
		var err error
		switch kind {
		case message.SubjectFacts:
			var f api.NodeFacts
			if _, err = wire.FactsOf(node, m.Data); err == nil {
				err = json.Unmarshal(m.Data, &f)
				w.facts[node.Name] = f
			}
		case message.SubjectHeartbeat:
			var h api.Heartbeat
			if h, err = message.DecodeHeartbeat(m.Data); err == nil && (h.Node != node.Name || len(h.Beats) > 0) {
				err = fmt.Errorf("heartbeat %+v", h)
			}
			w.beats[node.Name]++
		default:
			w.state = api.SchedulerState{} // a key may be missing now
			err = json.Unmarshal(m.Data, &w.state)
		}
		if err != nil {
			w.bad = append(w.bad, m.Subject+": "+err.Error())
		}
	})
}

// until waits until ok returns true. It calls ok again after each message, and now and then.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	end := time.NewTimer(patience)
	defer end.Stop()
	poll := time.NewTicker(20 * time.Millisecond) // what others change
	defer poll.Stop()
	for {
		w.mu.Lock()
		is, changed := ok(), w.changed
		w.mu.Unlock()
		if is {
			return
		}
		select {
		case <-changed:
		case <-poll.C:
		case <-end.C:
			w.Fatalf("not within %v: %s; %+v", patience, what, w.adapter.Status(time.Now()))
		}
	}
}

// untilFacts waits for facts of a machine that fulfill ok.
func (w *world) untilFacts(id string, ok func(f api.NodeFacts) bool) {
	w.Helper()
	w.until("facts of "+id, func() bool { f, is := w.facts[id]; return is && ok(f) })
}

// untilFresh waits for a state of the pool that is fresh, or one that is not, and returns it.
func (w *world) untilFresh(fresh bool) (s api.SchedulerState) {
	w.Helper()
	w.until("the state", func() bool { s = w.state; return s.Kind != "" && s.Fresh == fresh })
	return s
}

// cordon sends the next cordon of epoch 1.
func (w *world) cordon(id string, on bool) error {
	w.number++
	return w.agents.Cordon(w.Context(), id, on, pools.Sequence{Epoch: 1, Number: w.number})
}

func TestPublishes(t *testing.T) {
	w := start(t)
	w.server.Put(kubetest.Node("a", "p"), kubetest.Pod("t", "a"))
	w.untilFacts("i-a", func(f api.NodeFacts) bool {
		return f.Tasks == 1 && f.Allocated == resource.Vector{1, 1024} && f.Resources == resource.Vector{4, 8192, 20480} && f.BootID == "boot-a" && f.SafeToEvict &&
			f.Heartbeat == 300*time.Millisecond && *f.Slots == api.Slots{All: 110, Used: 1}
	})
	w.until("heartbeats", func() bool { return w.beats["i-a"] >= 3 })
	w.until("the state", func() bool {
		return w.state.Fresh && !w.state.Rows && w.state.Nodes == 1 && w.state.Kind == "kubernetes"
	})
	w.server.Delete(kube.Pods, "default", "t")
	w.untilFacts("i-a", func(f api.NodeFacts) bool { return f.Tasks == 0 })
	w.until("samples", func() bool { v, ok := w.samples["cpus_pending"]; return ok && v == 0 })
}

// An announcement is answered at once, and a reconnect too.
func TestAnnouncement(t *testing.T) {
	w := start(t, func(c *Config) { c.Period = time.Minute })
	w.server.Put(kubetest.Node("a", "p"))
	w.untilFacts("i-a", func(api.NodeFacts) bool { return true })
	w.set(func() { clear(w.facts); clear(w.beats) })
	if err := w.nc.Publish("weir.c.announce", nil); err != nil {
		t.Fatal(err)
	}
	w.until("facts and a heartbeat", func() bool { return len(w.facts) == 1 && w.beats["i-a"] > 0 }) // that of the start may come late
}

// While the API server is away, the state has the cause, and nodes are silent. Cordons are busy.
func TestAPIServerIsAway(t *testing.T) {
	w := start(t)
	w.server.Put(kubetest.Node("a", "p"), kubetest.Pod("t", "a"))
	w.untilFacts("i-a", func(api.NodeFacts) bool { return true })
	w.untilFresh(true) // the state of the start may come late
	for _, resource := range []string{kube.Nodes, kube.Pods} {
		w.server.Fail(http.StatusServiceUnavailable, resource)
		if why := w.untilFresh(false).Why; !strings.Contains(why, "watch "+resource) || w.adapter.Ready(time.Now()) == "" {
			t.Errorf("why %q, want the watch of %s", why, resource)
		}
		w.set(func() { w.state = api.SchedulerState{} })
		w.untilFresh(false) // another subscription may deliver facts from before the first such state after it
		w.set(func() { clear(w.facts); clear(w.beats) })
		for range 3 {
			w.set(func() { w.state = api.SchedulerState{} })
			w.untilFresh(false)
		}
		w.read(func() {
			if len(w.facts)+len(w.beats) > 0 {
				t.Errorf("facts %v and heartbeats %v of old knowledge", w.facts, w.beats)
			}
		})
		if err := w.cordon("i-a", true); err == nil || !strings.Contains(err.Error(), "the state of the nodes is not current") {
			t.Errorf("cordon: %v, want that it is busy", err)
		}
		w.server.Fail(0, resource)
		w.untilFacts("i-a", func(f api.NodeFacts) bool { return f.Tasks == 1 })
		w.untilFresh(true)
	}
	if why := w.adapter.Ready(time.Now()); why != "" {
		t.Errorf("not ready: %s", why)
	}
}

func TestPending(t *testing.T) {
	w := start(t)
	zone := func(n *corev1.Node) { n.Labels[corev1.LabelTopologyZone] = "z" }
	selects := func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "z", "weirkeeper.dev/pool": "p"}
	}
	w.server.Put(kubetest.Node("a", "p", zone), kubetest.Pod("w", "", selects), kubetest.Pod("large", "", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = kubetest.Requests("10000", "1Gi") }),
		kubetest.Pod("other", "", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }))
	w.until("samples without the pod that no machine can hold", func() bool { return w.samples["cpus_pending"] == 1 && w.samples["mem_pending"] == 1024 })
	var r api.Pending
	if err := call.Request(t.Context(), w.nc, "weir.c.placer.p.pending", nil, &r); err != nil {
		t.Fatal(err)
	}
	byName := map[string]api.PendingCopy{}
	for _, c := range r.Copies {
		byName[c.App] = c
	}
	large := byName["default/large"]
	if r.Total != 2 || r.Resources[resource.CPUs] != 10001 || r.Never[resource.CPUs] != 10000 || !large.Never || !strings.HasPrefix(large.Why, "it needs 10000 cpus, the largest machine (node a) has 4 cpus") || len(r.Sizes) != 1 || !r.State.Fresh {
		t.Errorf("pending %+v", r)
	}
	if c := byName["default/w"]; c.Version != "ReplicaSet/web" || !strings.HasPrefix(c.Why, "0/1 nodes are available") || c.Since.IsZero() || c.Zone != "z" || len(c.Labels) != 1 || c.Labels["weirkeeper.dev/pool"] != "p" {
		t.Errorf("copy %+v", c)
	}
	if s := w.adapter.Status(time.Now()); len(s.Unplaced) != 1 || s.Unplaced[0].Pod != "default/other" || !strings.Contains(s.Unplaced[0].Why, "it selects disk=ssd") {
		t.Errorf("status %+v", s)
	}
}

func TestDrain(t *testing.T) {
	w := start(t)
	daemon := kubetest.Pod("d", "a", func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "DaemonSet" })
	w.server.Put(kubetest.Node("a", "p"), kubetest.Node("b", "p"), daemon, kubetest.Pod("t1", "a"), kubetest.Pod("t2", "a"), kubetest.Pod("t3", "b"))
	w.untilFacts("i-a", func(f api.NodeFacts) bool { return f.Tasks == 2 })
	var allowed atomic.Bool
	w.server.OnEvict(func(p *corev1.Pod) *metav1.Status { // a budget that allows t1 later
		if p.Name == "t1" && !allowed.Load() {
			return &metav1.Status{Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "Cannot evict pod as it would violate the pod's disruption budget."}
		}
		return nil
	})
	if err := w.cordon("i-a", true); err != nil {
		t.Fatal(err)
	}
	n := w.server.Node("a")
	if !n.Spec.Unschedulable || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != core.DrainTaint || !strings.Contains(n.Annotations[core.CordonAnnotation], `"epoch":1,"number":1,"on":true,"before":false`) {
		t.Errorf("node %+v %+v", n.Spec, n.Annotations)
	}
	w.untilFacts("i-a", func(f api.NodeFacts) bool {
		return f.Draining && len(f.Blocked) == 1 && f.Blocked[0].Task == "default/t1" && strings.Contains(f.Blocked[0].Why, "disruption budget") && f.CordonedBy == ""
	})
	allowed.Store(true)
	w.untilFacts("i-a", func(f api.NodeFacts) bool { return f.Draining && f.Tasks == 0 && len(f.Blocked) == 0 })
	w.untilFacts("i-b", func(f api.NodeFacts) bool { return f.Tasks == 1 && !f.Draining })
	if n := w.server.Node("b"); n.Spec.Unschedulable {
		t.Errorf("node b %+v", n.Spec)
	}
	if err := w.cordon("i-a", false); err != nil {
		t.Fatal(err)
	}
	w.untilFacts("i-a", func(f api.NodeFacts) bool { return !f.Draining && f.SafeToEvict })
	if n := w.server.Node("a"); n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
		t.Errorf("node %+v", n.Spec)
	}
	for _, r := range w.server.Requests() {
		if strings.Contains(r, "/pods/d/") || strings.Contains(r, "/pods/t3/") {
			t.Errorf("request %s", r)
		}
	}
}

// A budget that never allows an eviction: the pod stays, with growing pauses, until the cordon is taken back.
func TestBudgetThatNeverAllows(t *testing.T) {
	w := start(t)
	w.server.OnEvict(func(*corev1.Pod) *metav1.Status {
		return &metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}
	})
	w.server.Put(kubetest.Node("a", "p"), kubetest.Pod("t", "a"))
	w.untilFacts("i-a", func(f api.NodeFacts) bool { return f.Tasks == 1 })
	if err := w.cordon("i-a", true); err != nil {
		t.Fatal(err)
	}
	w.untilFacts("i-a", func(f api.NodeFacts) bool {
		return len(f.Blocked) == 1 && strings.Contains(f.Blocked[0].Why, "more than one PodDisruptionBudget")
	})
	if b := w.adapter.Status(time.Now()).Blocked; len(b) != 1 || b[0].Node != "a" {
		t.Errorf("status %+v", b)
	}
	if err := w.cordon("i-a", false); err != nil {
		t.Fatal(err)
	}
	w.untilFacts("i-a", func(f api.NodeFacts) bool { return f.Tasks == 1 && !f.Draining && len(f.Blocked) == 0 })
}

// What an operator cordoned stays cordoned, and a late request changes nothing, also after a restart.
func TestCordonOfAnOperator(t *testing.T) {
	w := start(t)
	w.server.Put(kubetest.Node("a", "p", func(n *corev1.Node) { n.Spec.Unschedulable = true }))
	w.untilFacts("i-a", func(f api.NodeFacts) bool { return f.CordonedBy == "other" && f.Draining && !f.SafeToEvict })
	if err := w.agents.Cordon(t.Context(), "i-a", true, pools.Sequence{Epoch: 2, Number: 5}); err != nil {
		t.Fatal(err)
	}
	w.untilFacts("i-a", func(f api.NodeFacts) bool { return f.CordonedBy == "" && f.Draining })
	if err := w.agents.Cordon(t.Context(), "i-a", false, pools.Sequence{Epoch: 1, Number: 9}); err == nil || !strings.Contains(err.Error(), "request is late") {
		t.Errorf("late request: %v", err)
	}
	w.server.OnPatch(func(n int) bool { return n <= 3 }) // conflicts are repeated
	if err := w.agents.Cordon(t.Context(), "i-a", false, pools.Sequence{Epoch: 2, Number: 6}); err != nil {
		t.Fatal(err)
	}
	if n := w.server.Node("a"); !n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
		t.Errorf("node %+v, want that it is still unschedulable", n.Spec)
	}
	w.untilFacts("i-a", func(f api.NodeFacts) bool { return f.CordonedBy == "other" })
}

// Before the end of a spot machine, a pod has less than its own grace period.
func TestSpotInterruption(t *testing.T) {
	w := start(t)
	long := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(3600)) }
	w.server.Put(kubetest.Node("a", "p"), kubetest.Pod("long", "a", long), kubetest.Pod("short", "a"))
	w.untilFacts("i-a", func(f api.NodeFacts) bool { return f.Tasks == 2 })
	if err := call.Request(t.Context(), w.nc, "weir.c.agent.p.i-a.cordon", wire.CordonRequest{On: true, Reason: api.DrainSpot, Deadline: time.Now().Add(30 * time.Minute)}, nil); err != nil {
		t.Fatal(err)
	}
	w.untilFacts("i-a", func(f api.NodeFacts) bool { return f.Draining && f.Tasks == 0 })
	graces := map[string]string{}
	for _, r := range w.server.Requests() {
		if path, is := strings.CutPrefix(r, "POST /api/v1/namespaces/default/pods/"); is {
			pod, grace, _ := strings.Cut(path, "/eviction")
			graces[pod] = grace
		}
	}
	if !strings.HasPrefix(graces["long"], " grace=17") || graces["short"] != "" {
		t.Errorf("grace periods %q, want that long has a little less than 30 minutes", graces)
	}
}

func TestRefusedCordons(t *testing.T) {
	w := start(t)
	w.server.Put(kubetest.Node("a", "p"))
	w.untilFacts("i-a", func(api.NodeFacts) bool { return true })
	if err := w.cordon("i-b", true); !errors.Is(err, wire.ErrInvalid) {
		t.Errorf("unknown machine: %v", err)
	}
	w.server.OnPatch(func(int) bool { return true })
	if err := w.cordon("i-a", true); err == nil || !strings.Contains(err.Error(), "5 attempts met a conflict") {
		t.Errorf("conflicts: %v", err)
	}
	var refusal *call.Error
	if err := call.Request(t.Context(), w.nc, "weir.c.agent.p.i-a.cordon", map[string]any{"on": true, "later": 1}, nil); !errors.As(err, &refusal) || refusal.Code != call.CodeInvalid {
		t.Errorf("unknown key: %v", err)
	}
}

// The Node object of a machine that has ended is deleted, and no other one.
func TestGone(t *testing.T) {
	w := start(t)
	w.server.Put(kubetest.Node("a", "p"), kubetest.Node("b", "p"))
	w.untilFacts("i-b", func(api.NodeFacts) bool { return true })
	for _, m := range []string{`{"node":"i-b","pool":"p"}`, `{"node":"i-a","pool":"x"}`, `{`} {
		if err := w.nc.Publish("weir.c.agent.p.i-a.gone", []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.nc.Publish("weir.c.agent.p.i-b.gone", []byte(`{"node":"i-b","pool":"p"}`)); err != nil {
		t.Fatal(err)
	}
	w.until("node b is deleted", func() bool { return w.server.Node("b") == nil })
	if w.server.Node("a") == nil {
		t.Error("node a is deleted")
	}
}

func TestMetrics(t *testing.T) {
	w := start(t)
	w.server.Put(kubetest.Node("a", "p"), kubetest.Node("b", "p", func(n *corev1.Node) { n.Spec.ProviderID = "" }), kubetest.Pod("t", "a"), kubetest.Pod("w", ""))
	w.until("samples", func() bool { return w.samples["cpus_pending"] == 1 })
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(w.adapter.Collector())
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			got[strings.TrimPrefix(f.GetName(), "weir_kubernetes_")] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{"fresh": 1, "nodes": 2, "node_problems": 1, "pods": 2, "pods_waiting": 1, "pods_unplaced": 0, "watch_errors_total": 0} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s = %v, %v, want %v", name, v, ok, want)
		}
	}
	if s := w.adapter.Status(time.Now()); len(s.Problems) != 1 || s.Problems[0].Node != "b" {
		t.Errorf("status %+v", s)
	}
}

// Conditions of a node, those of its kubelet and of node-problem-detector, fail in its facts: node health counts them as a result of its
// heartbeat. They end as they began.
func TestConditionsOfANode(t *testing.T) {
	w := start(t)
	set := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) {
		w.server.Change(kube.Nodes, "", "a", func(o runtime.Object) {
			n := o.(*corev1.Node)
			n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, Reason: "Cause", Message: "a task hangs"})
		})
	}
	failed := func(kind string, want bool) func(api.NodeFacts) bool {
		return func(f api.NodeFacts) bool {
			return slices.ContainsFunc(f.Conditions, func(c api.NodeCondition) bool {
				return c.Type == kind && c.Failed == want && !c.Unknown && (!want || c.Why == "Cause: a task hangs")
			})
		}
	}
	w.server.Put(kubetest.Node("a", "p"))
	w.untilFacts("i-a", failed("Ready", false))
	for kind, good := range map[corev1.NodeConditionType]corev1.ConditionStatus{"KernelDeadlock": corev1.ConditionFalse, "Ready": corev1.ConditionTrue, "NetworkingReady": corev1.ConditionTrue} {
		bad := map[corev1.ConditionStatus]corev1.ConditionStatus{corev1.ConditionTrue: corev1.ConditionFalse, corev1.ConditionFalse: corev1.ConditionTrue}[good]
		set(kind, bad)
		w.untilFacts("i-a", failed(string(kind), true))
		set(kind, good)
		w.untilFacts("i-a", failed(string(kind), false))
	}
}
