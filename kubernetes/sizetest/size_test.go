package sizetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
	"github.com/weirkeeper/weirkeeper/kubernetes/kubetest"
	"github.com/weirkeeper/weirkeeper/kubernetes/program"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
	vector "github.com/weirkeeper/weirkeeper/resource"
)

// child is set in the process that is measured.
const child = "WEIR_KUBERNETES_CHILD"

const patience = 5 * time.Minute

func TestMain(m *testing.M) {
	if os.Getenv(child) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	os.Exit(program.Main(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// size is that of a cluster.
type size struct{ nodes, pods int }

// site is the program, with its servers.
type site struct {
	testing.TB
	size
	api    *kubetest.Server
	cmd    *exec.Cmd
	nc     *nats.Conn
	facts  *nats.Subscription
	listed time.Duration // from the start of the program to its first fresh state
}

// open starts the program and waits until it is fresh.
func open(tb testing.TB, s size) *site {
	tb.Helper()
	servers := bustest.Serve(tb, server.Options{})
	w := &site{TB: tb, size: s, api: kubetest.Serve(tb)}
	fill(w.api, s)
	nc := bustest.Connect(tb, servers.ClientURL())
	w.nc = nc
	w.facts = bustest.SubscribeSync(tb, nc, message.FactsSubject("c", message.Node{Pool: "p", Name: "*"}))
	if err := w.facts.SetPendingLimits(-1, -1); err != nil {
		tb.Fatal(err)
	}
	states := bustest.SubscribeSync(tb, nc, "weir.c.placer.p.state")
	path := filepath.Join(tb.TempDir(), "k.yaml")
	text := fmt.Sprintf("cluster: c\nnats: {servers: [%q]}\nkubernetes: {server: %q}\npools: {p: {default: true}}\nmetrics: none\nlease: false\nadmin: {addr: \"off\"}\n", servers.ClientURL(), w.api.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	w.cmd = exec.CommandContext(tb.Context(), os.Args[0], "--config", path)
	w.cmd.Env, w.cmd.Stderr = append(os.Environ(), child+"=1"), os.Stderr
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := w.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = w.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := w.cmd.Wait(); err != nil && tb.Context().Err() == nil {
			tb.Error(err)
		}
	})
	for {
		m, err := states.NextMsg(patience)
		if err != nil {
			tb.Fatal(err)
		}
		if strings.Contains(string(m.Data), `"fresh":true`) {
			w.listed = time.Since(began)
			return w
		}
	}
}

// apps is the number of apps of the pods: a fifth is spread over zones, and half have a disruption budget.
const apps = 1000

// fill makes a realistic cluster: nodes with 40 images, pods of 2 containers with 20 variables, and managed fields.
func fill(api *kubetest.Server, s size) {
	fields := []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{` + strings.Repeat(`"f:app.kubernetes.io/name":{},`, 40) + `".":{}}}}`)}}
	var env []corev1.EnvVar
	for i := range 20 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("VARIABLE_%d", i), Value: strings.Repeat("value", 8)})
	}
	requests := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")}}
	containers := []corev1.Container{{Name: "web", Image: "registry.example/web:1", Env: env, Resources: requests}, {Name: "proxy", Image: "registry.example/proxy:1", Env: env, Resources: requests}}
	var images []corev1.ContainerImage
	for i := range 40 {
		images = append(images, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example/image-%d@sha256:%064d", i, i), fmt.Sprintf("registry.example/image-%d:v1", i)}, SizeBytes: 1 << 28})
	}
	all := make([]runtime.Object, 0, s.nodes+s.pods)
	for i := range s.nodes {
		all = append(all, kubetest.Node(nodeName(i), "p", func(n *corev1.Node) {
			n.ManagedFields, n.Status.Images = fields, images
			for k := range 20 {
				n.Labels[fmt.Sprintf("label-%d.example/name", k)] = fmt.Sprintf("value-%d", k)
			}
			n.Labels[corev1.LabelTopologyZone] = fmt.Sprint("zone-", i%3)
		}))
	}
	owners := []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-5d8f7c9b4", Controller: new(true)}}
	tolerations := []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300))}}
	spread := make([][]corev1.TopologySpreadConstraint, apps)
	labels := make([]map[string]string, apps)
	for i := range apps {
		labels[i] = map[string]string{"app.kubernetes.io/name": fmt.Sprint("web-", i), "pod-template-hash": "5d8f7c9b4"}
		selector := &metav1.LabelSelector{MatchLabels: labels[i]}
		if i%5 == 0 {
			spread[i] = []corev1.TopologySpreadConstraint{{TopologyKey: corev1.LabelTopologyZone, MaxSkew: 5, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector}}
		}
		if i%2 == 0 {
			all = append(all, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("web-", i), Namespace: fmt.Sprintf("team-%d", i%50)},
				Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 10}})
		}
	}
	for i := range s.pods {
		all = append(all, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: podName(i), Namespace: fmt.Sprintf("team-%d", i%50), OwnerReferences: owners, ManagedFields: fields, Labels: labels[i%apps]},
			Spec:       corev1.PodSpec{NodeName: nodeName((i + i/s.nodes) % s.nodes), Containers: containers, Tolerations: tolerations, TopologySpreadConstraints: spread[i%apps]}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	api.Fill(all...)
}

func nodeName(i int) string { return fmt.Sprintf("ip-10-0-%d-%d", i/256, i%256) }
func podName(i int) string  { return fmt.Sprintf("web-5d8f7c9b4-%05d", i) }

// peak returns the largest resident memory of the program so far, in MB.
func (w *site) peak() float64 {
	w.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.cmd.Process.Pid))
	if err != nil {
		w.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		w.Fatalf("no VmHWM in %s", text)
	}
	kib, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		w.Fatal(err)
	}
	return kib / 1024
}

// processor returns the processor time of the program so far.
func (w *site) processor() time.Duration {
	w.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.cmd.Process.Pid))
	if err != nil {
		w.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		w.Fatal(err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		w.Fatal(err)
	}
	const tick = 10 * time.Millisecond // of the kernel
	return time.Duration(user+system) * tick
}

// change ends a pod. It returns the machine of its node, and the tasks that are left there.
func (w *site) change(i int) (id string, tasks int) {
	name := podName(i)
	w.api.Delete(kube.Pods, fmt.Sprintf("team-%d", i%50), name)
	return "i-" + nodeName((i+i/w.nodes)%w.nodes), w.pods/w.nodes - 1
}

// places requests where the pods fit, with 2000 candidates, and returns how long the answer took.
func (w *site) places() time.Duration {
	w.Helper()
	q := api.PlacesQuestion{Most: api.MaxPlacesLeave, Kinds: []api.PlacesKind{{Group: "g", Resources: vector.Vector{4, 8192, 20480}, Weight: 1, Slots: 110, Room: 100}}}
	for i := range min(2000, w.nodes) {
		q.Leave = append(q.Leave, "i-"+nodeName(i))
	}
	began := time.Now()
	p, err := placerbus.GetPlaces(w.Context(), w.nc, "c", "p", q)
	if err != nil || p.Nodes != w.nodes || len(p.Leave) == 0 {
		w.Errorf("places: %d nodes, %d of them can leave, error %v", p.Nodes, len(p.Leave), err)
	}
	return time.Since(began)
}

// untilFacts waits for the facts of a machine with this number of tasks.
func (w *site) untilFacts(id string, tasks int) {
	w.Helper()
	for {
		m, err := w.facts.NextMsg(patience)
		if err != nil {
			w.Fatal(err)
		}
		node, _ := message.OfNode(m.Subject)
		if node.Name != id {
			continue
		}
		if f, err := wire.DecodeFacts(m.Data); err != nil {
			w.Fatal(err)
		} else if f.Tasks == tasks {
			return
		}
	}
}

// A tenth of the largest cluster fits into a bound.
func TestMemory(t *testing.T) {
	w := open(t, size{500, 10_000})
	id, tasks := w.change(3)
	w.untilFacts(id, tasks)
	took := w.places()
	const most = 60
	if got := w.peak(); got > most {
		t.Errorf("the program takes %.0f MB at its peak, the bound is %d", got, most)
	} else {
		t.Logf("%d nodes, %d pods: %.0f MB at the peak, fresh after %v, %v of processor time, %v for places", w.nodes, w.pods, got, w.listed.Round(time.Millisecond), w.processor(), took)
	}
}

// BenchmarkCluster measures 5000 nodes and 100,000 pods with 100 changes of pods and 22 of nodes in a second. It fails above a limit.
//
//	peak_MB          largest resident memory                              (limit: 200)
//	steady_core_%    processor time in the steady state                   (limit: 7)
//	list_s           from the start of the program to its fresh state
//	list_cpu_s       processor time until then
//	places_ms        to answer where the pods fit, meanwhile
//	change_p50_ms    from a change to the facts, at the median            (limit: 200)
//	change_p99_ms    at the 99th percentile                               (limit: 1000)
func BenchmarkCluster(b *testing.B) {
	bounded := func(value, limit float64, unit string) {
		if b.ReportMetric(value, unit); value > limit {
			b.Errorf("%s is %.1f, the limit is %v", unit, value, limit)
		}
	}
	for b.Loop() {
		w := open(b, size{5000, 100_000})
		b.ReportMetric(w.listed.Seconds(), "list_s")
		b.ReportMetric(w.processor().Seconds(), "list_cpu_s")
		done := make(chan struct{})
		ctx, stop := context.WithCancel(b.Context())
		go func() { defer close(done); w.load(ctx) }()
		began, used := time.Now(), w.processor()
		asked := make(chan time.Duration, 1)
		go func() { asked <- w.places() }()
		var took []time.Duration
		for i := range 150 {
			changed := time.Now()
			id, tasks := w.change(i)
			w.untilFacts(id, tasks)
			took = append(took, time.Since(changed))
		}
		b.ReportMetric(float64((<-asked).Milliseconds()), "places_ms")
		rest := time.NewTimer(max(0, 40*time.Second-time.Since(began)))
		<-rest.C
		bounded(100*(w.processor()-used).Seconds()/time.Since(began).Seconds(), 7, "steady_core_%")
		stop()
		<-done
		slices.Sort(took)
		bounded(float64(took[len(took)/2].Microseconds())/1e3, 200, "change_p50_ms")
		bounded(float64(took[len(took)*99/100].Microseconds())/1e3, 1000, "change_p99_ms")
		bounded(w.peak(), 200, "peak_MB")
	}
	b.ReportMetric(0, "ns/op")
}

// load changes 100 pods and 22 nodes in a second until ctx ends, none of those that the benchmark changes.
func (w *site) load(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for round := 0; ; round++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for k := range 10 {
			i := 1000 + (round*10+k)%(w.pods-1000)
			w.api.Change(kube.Pods, fmt.Sprintf("team-%d", i%50), podName(i), func(o runtime.Object) {
				o.(*corev1.Pod).Status.Message = fmt.Sprint(round)
			})
		}
		for k := range 2 + round%5/4 {
			w.api.Change(kube.Nodes, "", nodeName((round*3+k)%w.nodes), func(o runtime.Object) {
				o.(*corev1.Node).Status.Conditions[0].LastHeartbeatTime = metav1.Unix(int64(round), 0)
			})
		}
	}
}
