//go:build plane

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	kubernetes "github.com/weirkeeper/weirkeeper/kubernetes/adapter"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
)

const cluster, pool = "c", "web"

// settings are those of a world.
type settings struct {
	groups []string          // Auto Scaling groups; default: one
	pool   map[string]string // text of the pool's file by a text that it replaces
	joins  func(machine string) bool
	taints []corev1.Taint // of new nodes
	// adapters is how many run; default 1. standby: a second autoscaler runs.
	adapters int
	standby  bool
	startup  []string // startup taints
	spot     bool     // machines are spot instances
}

// world is a pool under Kubernetes with everything around it.
type world struct {
	*plane
	*kubelets
	aws      *cloud
	nats     string
	config   string
	daemons  map[string]*process
	adapters []*adapterProcess
	guarded  atomic.Bool // no budget may be violated now
}

// adapterProcess is a weir-kubernetes that runs.
type adapterProcess struct {
	*process
	status string // URL
}

const poolFile = `resource_groups: [{asg: {tag: "weir:pool"}}]
scaling_limits: {min_capacity: 1, max_capacity: 20, max_weight_to_add: 20, max_weight_to_remove: 20, max_tasks_to_kill: inf}
autoscaling: {tick: 1s, lease: 5s, setpoint: 0.8, target_capacity_margin: 0.1, configuration_grace: 0s, orphan_instance_uptime_threshold_seconds: 1800}
autoscale_signals:
  - app: kube
    name: pending
    kind: builtin
    period: 2s
    required_metrics:
      - {name: cpus_allocated, type: system_metrics, range: 10s}
      - {name: cpus_pending, type: system_metrics, range: 10s}
draining: {draining_time_threshold_seconds: 120, force_terminate: false, process_spot_warnings: true}
`

// start starts a world.
func start(t *testing.T, s settings) *world {
	t.Helper()
	if len(s.groups) == 0 {
		s.groups = []string{"blue"}
	}
	w := &world{plane: startPlane(t), aws: startCloud(t, s.groups, s.spot), daemons: map[string]*process{}, config: filepath.Join(t.TempDir(), "etc")}
	nats := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	w.nats = nats.ClientURL()
	js, err := bus.JetStream(bustest.Connect(t, w.nats))
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, cluster, 1, pool)
	text := poolFile
	for old, replaced := range s.pool {
		if !strings.Contains(text, old) {
			t.Fatalf("the file of the pool has no %q", old)
		}
		text = strings.Replace(text, old, replaced, 1)
	}
	write(t, filepath.Join(w.config, cluster, pool+".yaml"), text)
	write(t, filepath.Join(w.config, "weir.yaml"), fmt.Sprintf("nats: {servers: [%q]}\naws: {region: us-west-2, signals_bucket: weir-signals, endpoint_url: \"http://%s\", path_style: true, access_key_file: %q, warning_queue_url: \"http://%s/123456789012/weir-notices\"}\n",
		w.nats, w.aws.address, filepath.Join(w.aws.data, "aws-keys.json"), w.aws.address))
	w.startControllers(lifecycleGrace)
	w.install(values)
	w.kubelets = startKubelets(t, w.client, w.aws)
	w.set(func() { w.joins, w.taints = s.joins, s.taints })
	w.followBudgets()
	w.daemon("metrics", "metrics", "serve", "--addr", fmt.Sprintf("127.0.0.1:%d", bustest.Ports(t, 1)[0]))
	for range max(1, s.adapters) {
		w.startAdapter(s.startup)
	}
	w.daemon("bootstrap", "bootstrap", "--pool", pool)
	if s.standby {
		w.daemon("standby", "bootstrap", "--pool", pool)
	}
	w.report = w.describe
	return w
}

// daemon starts a daemon of weir with a data folder of its own.
func (w *world) daemon(name string, args ...string) {
	w.daemons[name] = run(w.plane.T, name, []string{"WEIR_DATA=" + w.path("data-"+name)},
		append([]string{program(w.plane.T, "weir")}, append(args, "--config-dir", w.config, "--cluster", cluster, "--admin-addr", "off")...)...)
}

// weir runs a command, and returns its output.
func (w *world) weir(args ...string) (string, error) {
	return command(w.plane.T, []string{"WEIR_DATA=" + w.path("data-commands"), "CMAN_POOL=" + pool}, append([]string{program(w.plane.T, "weir")}, append(args, "--config-dir", w.config, "--cluster", cluster)...)...)
}

var adapterNumber atomic.Int64

// startAdapter starts a weir-kubernetes with the rights of the chart.
func (w *world) startAdapter(startup []string) {
	t, port := w.plane.T, bustest.Ports(w.plane.T, 1)[0]
	name := fmt.Sprintf("weir-kubernetes-%d", adapterNumber.Add(1))
	write(t, w.path("adapter.token"), adapter)
	data, err := json.Marshal(map[string]any{
		"cluster": cluster, "nats": map[string]any{"servers": []string{w.nats}}, "kubernetes": map[string]any{"server": w.url(), "ca_file": w.ca(), "token_file": w.path("adapter.token")},
		"pools": map[string]any{pool: map[string]any{"default": true, "startup_taints": startup}}, "period": "2s", "grace": "1s", "admin": map[string]any{"addr": fmt.Sprintf("127.0.0.1:%d", port)},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := w.path(name + ".yaml")
	write(t, path, string(data))
	w.adapters = append(w.adapters, &adapterProcess{run(t, name, nil, program(t, "weir-kubernetes"), "--config", path), fmt.Sprintf("http://127.0.0.1:%d/status", port)})
}

// statusOf returns the status of an adapter; false: it does not answer.
func statusOf(a *adapterProcess) (s kubernetes.Status, ok bool) {
	c := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := c.Get(a.status)
	if err != nil {
		return s, false
	}
	defer response.Body.Close()
	return s, json.NewDecoder(response.Body).Decode(&s) == nil
}

// leader returns the adapter that acts for the pool; nil: none does.
func (w *world) leader() *adapterProcess {
	for _, a := range w.adapters {
		if s, ok := statusOf(a); ok && slices.Contains(s.Leads, pool) {
			return a
		}
	}
	return nil
}

// describe logs what an operator reads first.
func (w *world) describe() {
	for _, args := range [][]string{{"status"}, {"explain"}, {"node", "status", "--all"}} {
		out, err := w.weir(args...)
		w.plane.Logf("weir %v: %v\n%s", args, err, out)
	}
	for _, a := range w.adapters {
		s, ok := statusOf(a)
		w.plane.Logf("%s: %v %+v", a.name, ok, s)
	}
	for node, pods := range w.running() {
		w.plane.Logf("node %s: %v", node, pods)
	}
}

func amount(text string) resource.Quantity { return resource.MustParse(text) }

func amounts(cpus, mem string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: amount(cpus), corev1.ResourceMemory: amount(mem)}
}

// deployment returns a Deployment whose pods request that many cpus.
func deployment(name string, replicas int32, cpus string) *appsv1.Deployment {
	labels, grace := map[string]string{"app": name}, int64(5)
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: amounts(cpus, "64Mi")}}},
		}},
	}}
}

const deployments = "/apis/apps/v1/namespaces/default/deployments"

// deploy creates a Deployment, and a disruption budget that allows so many pods to be away; less than 0: no budget.
func (w *world) deploy(d *appsv1.Deployment, away int) {
	w.plane.Helper()
	w.guarded.Store(false)
	w.must(http.MethodPost, deployments, d, nil)
	if away >= 0 {
		most := intstr.FromInt32(int32(away))
		w.must(http.MethodPost, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &most, Selector: d.Spec.Selector},
		}, nil)
	}
}

// allow changes how many pods of a Deployment may be away.
func (w *world) allow(name string, away int) {
	w.plane.Helper()
	w.must(http.MethodPatch, "/apis/policy/v1/namespaces/default/poddisruptionbudgets/"+name, map[string]any{"spec": map[string]any{"maxUnavailable": away}}, nil)
}

// scale sets the replicas of a Deployment.
func (w *world) scale(name string, replicas int) {
	w.plane.Helper()
	w.guarded.Store(false)
	w.must(http.MethodPatch, deployments+"/"+name, map[string]any{"spec": map[string]any{"replicas": replicas}}, nil)
}

// untilRuns waits until all pods of a Deployment run.
func (w *world) untilRuns(name string, replicas int) {
	w.plane.Helper()
	w.until(fmt.Sprintf("%d pods of %s run", replicas, name), func() bool {
		var d appsv1.Deployment
		err := w.do(w.plane.Context(), http.MethodGet, deployments+"/"+name, nil, &d)
		return err == nil && int(d.Status.ReadyReplicas) == replicas && int(d.Status.Replicas) == replicas
	})
	w.guarded.Store(true)
}

// followBudgets fails the test if fewer pods are healthy than a budget requires, while the budgets are guarded.
func (w *world) followBudgets() {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			_ = w.watch(ctx, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", func(e event) {
				var b policyv1.PodDisruptionBudget
				if json.Unmarshal(e.Object, &b) == nil && w.guarded.Load() && b.Status.CurrentHealthy < b.Status.DesiredHealthy {
					w.plane.Errorf("budget %s: %d pods are healthy, want at least %d", b.Name, b.Status.CurrentHealthy, b.Status.DesiredHealthy)
				}
			})
			pause(ctx, every)
		}
	})
	w.plane.Cleanup(func() { stop(); wg.Wait() })
}

// pods returns the pods of a Deployment.
func (w *world) podsOf(name string) []corev1.Pod {
	var list corev1.PodList
	if w.do(w.plane.Context(), http.MethodGet, "/api/v1/namespaces/default/pods?labelSelector=app%3D"+name, nil, &list) != nil {
		return nil
	}
	return list.Items
}

// node returns the node of a machine; nil: there is none.
func (w *world) node(machine string) *corev1.Node {
	n := &corev1.Node{}
	if w.do(w.plane.Context(), http.MethodGet, "/api/v1/nodes/"+nameOf(machine), nil, n) != nil {
		return nil
	}
	return n
}

// cordoned reports whether Weirkeeper has cordoned the node of a machine.
func (w *world) cordoned(machine string) bool {
	n := w.node(machine)
	return n != nil && n.Spec.Unschedulable && slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == core.DrainTaint })
}

// drain orders the end of a machine.
func (w *world) drain(machine string) {
	w.plane.Helper()
	w.until("the order is accepted", func() bool {
		_, err := w.weir("pool", "drain", pool, machine, "--why", "test")
		return err == nil
	})
}

// text waits until a command of weir prints a text.
func (w *world) text(want string, args ...string) {
	w.plane.Helper()
	w.until(fmt.Sprintf("%q in %v", want, args), func() bool {
		out, _ := w.weir(args...)
		return strings.Contains(out, want)
	})
}

// machineOf returns a machine with a pod of a Deployment, and its other pods.
func (w *world) machineOf(name string) string {
	w.plane.Helper()
	pods := w.podsOf(name)
	for _, m := range w.machines() {
		if slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Spec.NodeName == nameOf(m) }) {
			return m
		}
	}
	w.plane.Fatalf("no machine has a pod of %s", name)
	return ""
}

// settled waits until all machines have joined, and no other one comes for a while.
func (w *world) settled() {
	w.plane.Helper()
	var last []string
	since := time.Now()
	w.until("the pool is at rest", func() bool {
		all, err := w.aws.instances(w.plane.Context())
		if now := w.machines(); err != nil || !slices.Equal(now, last) || len(now) != len(w.objects()) || slices.ContainsFunc(all, func(i instance) bool { return i.State == "pending" }) {
			last, since = now, time.Now()
		}
		return time.Since(since) > 15*time.Second // longer than the windows of the signal
	})
}

// stays requires for a time that a condition holds.
func (w *world) stays(what string, within time.Duration, ok func() bool) {
	w.plane.Helper()
	if eventually(w.plane.Context(), within, func() bool { return !ok() }) {
		w.plane.Errorf("it does not hold for %v: %s", within, what)
	}
}

// objects returns the Node objects.
func (w *world) objects() (all []corev1.Node) {
	var list corev1.NodeList
	if w.do(w.plane.Context(), http.MethodGet, "/api/v1/nodes", nil, &list) != nil {
		return nil
	}
	return list.Items
}
