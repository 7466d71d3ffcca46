package placerd_test

import (
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/pools/local"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
	"github.com/weirkeeper/weirkeeper/resource"
)

// world is a bus with machines of two pools.
type world struct {
	*testing.T
	bus    localtest.Bus
	js     jetstream.JetStream
	folder string
	apps   jetstream.KeyValue

	mu        sync.Mutex
	nodes     map[string]map[string]api.Beat // node -> instance -> latest beat
	ever      map[string]map[string]bool     // app/index -> instances that any heartbeat listed
	exits     []api.Exited
	confirmed map[string]string // nudge -> pool
}

func newWorld(t *testing.T) *world {
	w := &world{
		T: t, bus: localtest.NewBus(t), nodes: map[string]map[string]api.Beat{}, ever: map[string]map[string]bool{}, confirmed: map[string]string{},
	}
	for _, entry := range w.bus.Env() {
		if folder, ok := strings.CutPrefix(entry, "WEIR_TEST_BUS="); ok {
			w.folder = folder
		}
	}
	in, err := bus.Receive(w.bus.Conn, bus.InboxConfig{
		Events: []string{
			message.HeartbeatSubject(cluster, message.Node{Pool: "*", Name: "*"}), message.ExitedSubject(cluster, message.Node{Pool: "*", Name: "*"}), message.ConfirmedSubject(cluster, "*"),
		},
		Messages: 10_000, Log: localtest.Log(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(in.Close)
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	wg.Go(func() {
		for {
			select {
			case <-ended:
				return
			case m := <-in.Messages():
				w.receive(m)
			}
		}
	})
	js, err := bus.JetStream(w.bus.Conn)
	if err != nil {
		t.Fatal(err)
	}
	w.js = js
	w.createStreams()
	return w
}

// createStreams creates the missing streams, as an admin does.
func (w *world) createStreams() {
	w.Helper()
	bustest.Streams(w, w.js, cluster, 1, "p", "q")
	var err error
	if w.apps, err = w.js.KeyValue(w.Context(), message.AppsBucket(cluster)); err != nil {
		w.Fatal(err)
	}
}

// emptyStore deletes every bucket, as if the servers came back with empty disks. The other streams stay: with the last
// stream of an account the server would remove the account's folder.
func (w *world) emptyStore() {
	w.Helper()
	names := w.js.KeyValueStoreNames(w.Context())
	for name := range names.Name() {
		if err := w.js.DeleteStream(w.Context(), "KV_"+name); err != nil {
			w.Fatal(err)
		}
	}
	if err := names.Error(); err != nil {
		w.Fatal(err)
	}
}

func key(app string, index int) string { return app + "/" + string(rune('0'+index)) }

func (w *world) receive(m *nats.Msg) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h, err := message.DecodeHeartbeat(m.Data); err == nil && strings.Contains(m.Subject, ".heartbeat.") {
		listed := map[string]api.Beat{}
		for _, b := range h.Beats {
			listed[b.Instance] = b
			k := key(b.App, b.Index)
			if w.ever[k] == nil {
				w.ever[k] = map[string]bool{}
			}
			w.ever[k][b.Instance] = true
		}
		w.nodes[h.Node] = listed
	} else if e, err := message.DecodeExited(message.Node{Pool: "p", Name: "n"}, m.Data); err == nil && strings.Contains(m.Subject, ".exited.") {
		w.exits = append(w.exits, e)
	} else if c, err := message.DecodeConfirmation(m.Data); err == nil {
		for _, id := range c.Nudges {
			w.confirmed[id] = c.Pool
		}
	}
}

// running returns the node and instance of each index with a running copy, as NODE/INSTANCE. An index with two copies
// has both.
func (w *world) running() map[string]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := map[string]string{}
	for _, node := range slices.Sorted(maps.Keys(w.nodes)) {
		for _, b := range w.nodes[node] {
			if b.State == api.CopyRunning {
				all[key(b.App, b.Index)] += " " + node + "/" + b.Instance
			}
		}
	}
	return all
}

func (w *world) waitFor(keys ...string) map[string]string {
	w.Helper()
	localtest.Until(w, "running: "+strings.Join(keys, " "), func() bool {
		return slices.Equal(slices.Sorted(maps.Keys(w.running())), keys)
	})
	return w.running()
}

// own runs the machines of a pool. The group begins with target machines of two cpus.
func (w *world) own(pool string, target int) *local.Group {
	w.Helper()
	owner, err := local.NewProvider(local.Config{
		Cluster: cluster, Pool: pool, Argv: localtest.AgentArgv(), Env: w.bus.Env(), Heartbeat: heartbeat,
		StopGrace: 300 * time.Millisecond, DataDir: w.TempDir(),
		Groups: []local.GroupConfig{{ID: "g", Max: 10, Target: target, Resources: resource.Vector{2, 1000, 1000, 0}}},
	}, w.bus.Conn, localtest.NewLauncher(w), localtest.Log(w))
	if err != nil {
		w.Fatal(err)
	}
	localtest.Run(w, owner.Run)
	return local.NewGroup(w.bus.Conn, cluster, pool, "g")
}

// placers starts the placers of both pools as a process.
func (w *world) placers(holder string) (kill func()) {
	w.Helper()
	cmd := exec.Command("/proc/self/exe", "placer", w.folder, holder, "p", "q")
	cmd.Stderr = w.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // returns that it was killed
	})
	w.Cleanup(kill)
	return kill
}

// want writes a row, and sends a nudge for the indices.
func (w *world) want(app, pool string, instances int, id string, indices ...int) {
	w.Helper()
	row, err := json.Marshal(api.App{Name: app, Pool: pool, Instances: instances, Version: "v1", Command: "exec sleep 86321", CPUs: 1, Mem: 10})
	if err == nil {
		_, err = w.apps.Put(w.Context(), app, row)
	}
	if err != nil {
		w.Fatal(err)
	}
	w.nudge(id, api.Start{App: app, Version: "v1", Indices: indices})
}

func (w *world) nudge(id string, start api.Start) {
	w.Helper()
	data, err := json.Marshal(start)
	if err == nil {
		err = w.bus.PublishMsg(&nats.Msg{Subject: message.SubjectStart, Header: nats.Header{message.HeaderNudge: {id}}, Data: data})
	}
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) isConfirmed(id, pool string) {
	w.Helper()
	localtest.Until(w, "nudge "+id+" is confirmed by pool "+pool, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.confirmed[id] == pool
	})
}

// leader waits until a placer holds the lease of the pool, and receives messages.
func (w *world) leader(pool, holder string) {
	w.Helper()
	js, err := bus.JetStream(w.bus.Conn)
	if err != nil {
		w.Fatal(err)
	}
	localtest.Until(w, holder+" places the instances of pool "+pool, func() bool {
		e, err := kvbucket.New(js, names.PlacerBucket(cluster, pool)).Get(w.Context(), "lease")
		return err == nil && strings.Contains(string(e.Value), `"`+holder+`"`)
	})
	localtest.Until(w, holder+" receives messages", func() bool {
		_, err := placerbus.GetPending(w.Context(), w.bus.Conn, cluster, pool)
		return err == nil
	})
}

// A process with the placers of two pools is killed, and a standby takes over. No instance stops, moves or runs twice, and
// an instance that waited for room starts without a further nudge.
func TestStandbyTakesOverAfterKill(t *testing.T) {
	w := newWorld(t)
	first := w.placers("first")
	w.leader("p", "first")
	w.leader("q", "first")
	w.placers("second")
	group := w.own("p", 1)
	w.own("q", 1)
	localtest.Until(t, "two nodes", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.nodes) == 2
	})
	w.want("web", "p", 3, "n1", 0, 1, 2)
	w.want("api", "q", 2, "n2", 0)
	w.isConfirmed("n1", "p")
	w.isConfirmed("n2", "q")
	localtest.Until(t, "two copies of web, and one of api", func() bool { return len(w.running()) == 3 })
	before := w.running()

	first()
	w.leader("p", "second")
	w.leader("q", "second")
	if err := group.SetTarget(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	w.nudge("n3", api.Start{App: "api", Version: "v1", Indices: []int{1}})
	w.isConfirmed("n3", "q")
	after := w.waitFor("api/0", "api/1", "web/0", "web/1", "web/2")
	for k, where := range before {
		if after[k] != where {
			t.Errorf("%s ran on%s, and after the takeover on%s", k, where, after[k])
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.exits) > 0 {
		t.Errorf("instances ended: %+v", w.exits)
	}
	for k, instances := range w.ever {
		if len(instances) != 1 {
			t.Errorf("%s had the instances %v, want one", k, slices.Sorted(maps.Keys(instances)))
		}
	}
}

// The store is replaced by an empty one while a placer works. No instance stops, and the placer places again: a new row,
// and an index of the row that is written again.
func TestPlacerWorksAfterAnEmptyStore(t *testing.T) {
	w := newWorld(t)
	w.placers("first")
	w.leader("p", "first")
	w.leader("q", "first")
	w.own("p", 2)
	localtest.Until(t, "two nodes", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.nodes) == 2
	})
	w.want("web", "p", 2, "n1", 0)
	w.isConfirmed("n1", "p")
	before := w.waitFor("web/0")

	w.emptyStore()
	w.createStreams()
	w.leader("p", "first")
	w.want("web", "p", 2, "n2", 1)
	w.want("api", "p", 1, "n3", 0)
	w.isConfirmed("n2", "p")
	w.isConfirmed("n3", "p")
	after := w.waitFor("api/0", "web/0", "web/1")
	if after["web/0"] != before["web/0"] {
		t.Errorf("web/0 ran on%s, and after the loss on%s", before["web/0"], after["web/0"])
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.exits) > 0 {
		t.Errorf("instances ended: %+v", w.exits)
	}
}
