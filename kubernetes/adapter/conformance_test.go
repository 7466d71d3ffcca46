package adapter

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsconf"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/roles"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/kube"
	"github.com/weirkeeper/weirkeeper/kubernetes/kubetest"
	"github.com/weirkeeper/weirkeeper/kubernetes/mirror"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/store"
	"github.com/weirkeeper/weirkeeper/placer/schedulertest"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
	vector "github.com/weirkeeper/weirkeeper/resource"
)

// The adapter keeps the protocol of a scheduler without rows.
func TestConformance(t *testing.T) {
	schedulertest.RunNodes(t, func(t *testing.T) schedulertest.NodeSite {
		bus := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
		b := &binder{api: kubetest.Serve(t), tasks: map[string]*bound{}}
		b.api.OnEvict(b.evicted)
		for _, name := range nodeNames() {
			b.api.Put(kubetest.Node(name, "p", func(n *corev1.Node) { n.Status.Allocatable = kubetest.Amounts("2", "1000Mi") }))
		}
		a, err := New(Config{
			Cluster: "c", Period: 300 * time.Millisecond, Batch: 20 * time.Millisecond, Grace: time.Millisecond, FirstBackoff: 50 * time.Millisecond,
			Mirror: mirror.Config{Pause: 50 * time.Millisecond}, Log: slog.New(slog.DiscardHandler),
			Pools: []Pool{{Pool: core.Pool{Name: "p", Default: true}, Conn: bustest.Connect(t, bus.ClientURL())}},
		}, b.api.Client(t))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- a.Run(t.Context()) }()
		t.Cleanup(func() {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		return schedulertest.NodeSite{
			Site:  schedulertest.Site{Conn: bustest.Connect(t, bus.ClientURL()), Cluster: "c", Pool: "p"},
			Start: b.start, Stop: b.stop, Where: b.where, Cordon: b.cordon,
			Away: func(away bool) {
				status := 0
				if away {
					status = http.StatusServiceUnavailable
				}
				b.api.Fail(status, kube.Nodes, kube.Pods)
			},
		}
	})
}

// The permissions of the role scheduler are enough, and no message is refused.
func TestPermissions(t *testing.T) {
	c := bustest.ServeCluster(t, false, natsconf.Cluster{Name: "c", Pools: []natsconf.Pool{{Name: "p", Scheduler: true}}})
	js, err := bus.JetStream(c.Connect(t, roles.User{Role: roles.Admin, Cluster: "c"}))
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, "c", 3, "p")
	refused := make(chan error, 100)
	conn := c.Connect(t, roles.User{Role: roles.Scheduler, Cluster: "c", Pool: "p"}, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	own, err := bus.JetStream(conn)
	if err != nil {
		t.Fatal(err)
	}
	lease, err := state.NewLease(own, state.LeaseConfig{Bucket: names.PlacerBucket("c", "p"), Holder: "h", Replicas: 3, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	api := kubetest.Serve(t)
	api.Put(kubetest.Node("a", "p"), kubetest.Pod("w", ""))
	a, err := New(Config{
		Cluster: "c", Period: 300 * time.Millisecond, Grace: time.Millisecond, Log: slog.New(slog.DiscardHandler), DeleteEnded: true,
		Pools: []Pool{{Pool: core.Pool{Name: "p", Default: true}, Conn: conn, Lease: lease, Sink: embedded.NewClient(conn, "c", store.PlacerWriter("p"))}},
	}, api.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	pool := c.Connect(t, roles.User{Role: roles.Pool, Cluster: "c", Pool: "p"})
	facts, states := bustest.SubscribeSync(t, pool, "weir.c.node.p.*"), bustest.SubscribeSync(t, pool, "weir.c.placer.p.state")
	beats := bustest.SubscribeSync(t, pool, "weir.c.heartbeat.p.*")
	ended := make(chan error)
	go func() { ended <- a.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	for _, sub := range []*nats.Subscription{states, facts, beats} {
		if _, err := sub.NextMsg(patience); err != nil {
			t.Fatalf("%s: %v", sub.Subject, err)
		}
	}
	cordon := func() error {
		return wire.NewClient(pool, "c", "p").Cordon(t.Context(), "i-a", true, pools.Sequence{Epoch: 1, Number: 1})
	}
	err = cordon()
	for errors.Is(err, wire.ErrNoAgent) { // it publishes as soon as it has the lease, and subscribes a little later
		if _, err := states.NextMsg(patience); err != nil {
			t.Fatal(err)
		}
		err = cordon()
	}
	if err != nil {
		t.Error(err)
	}
	p, err := placerbus.GetPending(t.Context(), c.Connect(t, roles.User{Role: roles.Operator, Cluster: "c", Pools: []string{"p"}}), "c", "p")
	if err != nil || p.Total != 1 || p.State == nil {
		t.Errorf("pending %+v, %v", p, err)
	}
	if err := pool.Publish("weir.c.agent.p.i-a.gone", []byte(`{"node":"i-a","pool":"p"}`)); err != nil {
		t.Fatal(err)
	}
	for api.Node("a") != nil {
		if _, err := states.NextMsg(patience); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-refused:
		t.Error(err)
	default:
	}
}

func nodeNames() []string { return []string{"n1", "n2"} }

// binder does the work of a scheduler and of a controller: each task is a pod, which gets a node with room.
type binder struct {
	api *kubetest.Server

	mu    sync.Mutex
	tasks map[string]*bound
	made  int
}

// bound is a task with its pod.
type bound struct {
	pod  string
	size vector.Vector
	node string
}

func (b *binder) start(task string, size vector.Vector) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks[task] = &bound{size: size}
	b.placeLocked(b.tasks[task])
	return nil
}

// placeLocked makes the pod of a task, on a node with room if there is one.
func (b *binder) placeLocked(one *bound) {
	b.made++
	one.pod, one.node = fmt.Sprintf("pod-%d", b.made), ""
	for _, name := range nodeNames() {
		used := vector.Vector{}
		for _, other := range b.tasks {
			if other.node == name {
				used = used.Add(other.size)
			}
		}
		if n := b.api.Node(name); one.node == "" && !n.Spec.Unschedulable && one.size.Fits(vector.Vector{2, 1000}.Sub(used)) {
			one.node = name
		}
	}
	b.api.Put(kubetest.Pod(one.pod, one.node, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(int64(one.size[0]*1000), resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(int64(one.size[1])<<20, resource.BinarySI),
		}
	}))
}

// evicted makes another pod in place of an evicted one.
func (b *binder) evicted(p *corev1.Pod) *metav1.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, task := range slices.Sorted(maps.Keys(b.tasks)) {
		if b.tasks[task].pod == p.Name {
			b.placeLocked(b.tasks[task])
		}
	}
	return nil
}

func (b *binder) stop(task string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.tasks[task]
	if one == nil {
		return errors.New("unknown task")
	}
	delete(b.tasks, task)
	b.api.Delete(kube.Pods, "default", one.pod)
	return nil
}

func (b *binder) where(task string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one := b.tasks[task]; one != nil && one.node != "" {
		return "i-" + one.node
	}
	return ""
}

// cordon cordons a node as kubectl does.
func (b *binder) cordon(node string, on bool) error {
	b.api.Change(kube.Nodes, "", node[len("i-"):], func(o runtime.Object) { o.(*corev1.Node).Spec.Unschedulable = on })
	return nil
}
