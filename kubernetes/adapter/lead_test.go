package adapter

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/kubernetes/core"
	"github.com/weirkeeper/weirkeeper/kubernetes/kubetest"
	"github.com/weirkeeper/weirkeeper/kubernetes/mirror"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Of two adapters one acts. The other takes over in the middle of a drain, and ends it.
func TestTakeoverInADrain(t *testing.T) {
	nats := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	nc := bustest.Connect(t, nats.ClientURL())
	js, err := bus.JetStream(nc)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, "c", 1, "p")
	api := kubetest.Serve(t)
	api.Put(kubetest.Node("a", "p"), kubetest.Pod("t", "a"))
	var allowed atomic.Bool
	api.OnEvict(func(*corev1.Pod) *metav1.Status {
		if allowed.Load() {
			return nil
		}
		return &metav1.Status{Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "budget"}
	})
	run := func(holder string) (a *Adapter, stop func()) {
		lease, err := state.NewLease(js, state.LeaseConfig{Bucket: names.PlacerBucket("c", "p"), Holder: holder, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		conn := bustest.Connect(t, nats.ClientURL())
		a, err = New(Config{
			Cluster: "c", Period: 200 * time.Millisecond, Batch: 20 * time.Millisecond, FirstBackoff: 50 * time.Millisecond, Mirror: mirror.Config{Pause: 50 * time.Millisecond}, Log: slog.New(slog.DiscardHandler),
			Pools: []Pool{{Pool: core.Pool{Name: "p"}, Conn: conn, Lease: lease}},
		}, api.Client(t))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		stop = func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if err := conn.FlushTimeout(patience); err != nil { // the server has no subscription of it any more
				t.Error(err)
			}
		}
		return a, stop
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		end, poll := time.NewTimer(patience), time.NewTicker(10*time.Millisecond)
		defer end.Stop()
		defer poll.Stop()
		for !ok() {
			select {
			case <-poll.C:
			case <-end.C:
				t.Fatalf("not within %v: %s", patience, what)
			}
		}
	}
	untilResponder := func() {
		t.Helper()
		until("cordons have a responder", func() bool {
			return nats.GlobalAccount().Interest(wire.Subject("c", "p", "i-a", wire.OpCordon)) > 0
		})
	}
	first, stopFirst := run("first")
	until("the first adapter publishes", func() bool { return first.counts.facts.Load() > 0 })
	second, stopSecond := run("second")
	until("the second adapter is fresh", func() bool { return second.mirror.State(time.Now()).Fresh })
	agents := wire.NewClient(nc, "c", "p")
	untilResponder()
	if err := agents.Cordon(t.Context(), "i-a", true, pools.Sequence{Epoch: 3, Number: 7}); err != nil {
		t.Fatal(err)
	}
	until("an eviction is refused", func() bool { return first.counts.refusals.Load() > 0 })
	if n := second.counts.facts.Load() + second.counts.evictions.Load() + second.counts.cordons.Load(); n > 0 {
		t.Errorf("the standby has acted %d times", n)
	}
	stopFirst()
	until("the second adapter publishes", func() bool { return second.counts.facts.Load() > 0 })
	untilResponder()
	if err := agents.Cordon(t.Context(), "i-a", false, pools.Sequence{Epoch: 3, Number: 6}); err == nil || !strings.Contains(err.Error(), "late") {
		t.Errorf("late request after the takeover: %v", err)
	}
	allowed.Store(true)
	until("the pod is evicted", func() bool { _, pods := sizeOf(second); return pods == 0 })
	stopSecond()
}

func sizeOf(a *Adapter) (nodes, pods int) {
	a.mirror.Read(func(c *core.Cluster) { nodes, pods = c.Size() })
	return nodes, pods
}
