package natsbus

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

const (
	leaseTTL  = 2 * time.Second
	keepAlive = 6 * time.Second
)

// member is one of several harmonizers of a cluster, with its parts in production: its own
// connection, the lease and the memory.
type member struct {
	*harmonizer.Harmonizer
	nc     *nats.Conn
	cancel context.CancelFunc
	done   chan struct{}
}

func startMember(t *testing.T, url, name string) *member {
	t.Helper()
	m := &member{nc: connect(t, url), done: make(chan struct{})}
	js, err := jetstream.New(m.nc)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Streams(t, js, cluster, 1)
	lease, err := state.NewLease(js, state.LeaseConfig{Bucket: names.HarmonizerBucket(cluster), Holder: name, TTL: leaseTTL, Log: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	memory, err := state.OpenAppMemory(t.Context(), js, lease, cluster)
	if err != nil {
		t.Fatal(err)
	}
	bus, err := NewBus(m.nc, Config{Cluster: cluster}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := NewRows(m.nc, RowsConfig{Cluster: cluster, Folder: t.TempDir()}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	m.Harmonizer, err = harmonizer.New(harmonizer.Config{Cluster: cluster, Apps: apps.Config{
		HeartbeatPeriod: 500 * time.Millisecond, DropletLost: 4 * time.Second, NudgeKeepAlive: keepAlive, DisruptionLimit: 1,
	}}, harmonizer.Ports{Bus: bus, Source: rows, Lease: lease, Memory: memory}, logger(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	go func() {
		defer close(m.done)
		_ = m.Run(ctx) // ends with an error when it is killed
	}()
	t.Cleanup(m.kill)
	return m
}

// kill ends it abruptly: it sends nothing more to the lease or the bus.
func (m *member) kill() {
	m.nc.Close()
	m.cancel()
	<-m.done
}

// witness receives the starts, and obeys none.
type witness struct {
	mu     sync.Mutex
	starts map[string][]time.Time // by app and index
}

func startWitness(t *testing.T, nc *nats.Conn) *witness {
	t.Helper()
	w := &witness{starts: map[string][]time.Time{}}
	_, err := nc.Subscribe(message.SubjectStart, func(m *nats.Msg) {
		s, err := message.DecodeStart(m.Data)
		if err != nil {
			t.Errorf("start %s: %v", m.Data, err)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, i := range s.Indices {
			key := fmt.Sprintf("%s/%d", s.App, i)
			w.starts[key] = append(w.starts[key], time.Now())
		}
	})
	if err != nil || nc.Flush() != nil {
		t.Fatal(err)
	}
	return w
}

// atLeast returns how many indices were started at least that often.
func (w *witness) atLeast(times int) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, at := range w.starts {
		if len(at) >= times {
			n++
		}
	}
	return n
}

// The leader is killed while it sends nudges. The standby takes over within the lease. It
// sends the missing nudges, and repeats sent ones only after their keep-alive.
func TestStandbyTakesOver(t *testing.T) {
	const n, rate = 120, 40
	url := startServer(t, t.TempDir(), -1).ClientURL()
	client := connect(t, url)
	kv := bucket(t, client)
	w := startWitness(t, client)
	first := startMember(t, url, "first")
	await.True(t, "the first leads", first.Leading)
	second := startMember(t, url, "second")
	await.True(t, "the second stands by", func() bool {
		s, err := second.Status(t.Context(), api.HarmonizerQuery{})
		return err == nil && s.Complete && s.Leader == "first"
	})
	startEmptyNode(t, connect(t, url))
	set(t, kv, "web", n)
	await.True(t, "some are started", func() bool { return w.atLeast(1) >= rate })
	first.kill()
	killed := time.Now()
	await.True(t, "the second leads", second.Leading)
	if took := time.Since(killed); took > leaseTTL+15*time.Second {
		t.Errorf("the second leads after %v, the lease lasts %v", took, leaseTTL)
	}
	await.True(t, "all are started", func() bool { return w.atLeast(1) == n })
	await.True(t, "all are started again", func() bool { return w.atLeast(2) == n })
	w.mu.Lock()
	defer w.mu.Unlock()
	for index, at := range w.starts {
		for i := 1; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap < keepAlive-1500*time.Millisecond { // a message may be late
				t.Errorf("%s is started again after %v", index, gap)
			}
		}
	}
}

// startEmptyNode sends heartbeats of a node that runs nothing and ignores nudges, so that both
// states become complete.
func startEmptyNode(t *testing.T, nc *nats.Conn) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() { cancel(); wg.Wait() })
	wg.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			_ = nc.Publish(message.HeartbeatSubject(cluster, message.Node{Pool: "p", Name: "n1"}), []byte(`{"dea":"n1","droplets":[]}`)) // if one is lost, another follows
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}
