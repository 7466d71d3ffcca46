package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// twinFile is the pool file of twins. A machine has 10 cpus, and all of them count.
const twinFile = `resource_groups: [{asg: {tag: "weir:pool"}}]
rotation: {health_gate: {wait: 0s}}
scaling_limits: {min_capacity: 1, max_capacity: 40, max_weight_to_add: 40, max_weight_to_remove: 40, max_tasks_to_kill: inf}
autoscaling: {tick: 400ms, lease: %v, setpoint: 1, target_capacity_margin: 0, default_signal_role: %[2]s}
autoscale_signals: [{app: web, namespace: %[2]s, name: wish, version: v1, period: 200ms, required_metrics: [{name: load, type: app_metrics, range: 10m}]}]
`

// twinLease is long enough that a holder renews it on a machine that is busy with other
// tests: a request to NATS has a third of it.
const twinLease = 6 * time.Second

// twinGroup is the pool's only group.
const twinGroup = "web"

// twins are two autoscalers on one pool, each with its own data folder, and the
// world that they share: Amazon, NATS, the pool's nodes and its signal, all of it
// in the process of the test.
type twins struct {
	*testing.T
	cluster string
	ttl     time.Duration
	bus     string // URL of NATS, beside the doors
	nc      *nats.Conn
	js      jetstream.JetStream
	cloud   *awsfake.Server
	demand  atomic.Int64 // machines that the signal requests
	all     [2]*twin

	mu    sync.Mutex
	nodes map[string]*twinNode
	terms []twinTerm // values written to the lease's key, in order
	kept  []uint64   // epochs of the values written to the pool's key, in order
}

// twinNode is the report of a node.
type twinNode struct {
	tasks    int
	draining bool
}

// twinTerm is a value of the lease's key.
type twinTerm struct {
	Holder   string `json:"holder"`
	Epoch    uint64 `json:"epoch"`
	Released bool   `json:"released"`
	at       time.Time
}

// startTwinBus runs NATS for any number of twins.
func startTwinBus(t *testing.T) string {
	t.Helper()
	return bustest.Serve(t, natsserver.Options{ServerName: "twins", JetStream: true, StoreDir: t.TempDir()}).Addr().String()
}

// newTwins makes the world of two autoscalers, and none of these yet. The pool has
// as many machines as the signal requests.
func newTwins(t *testing.T, bus, name string, ttl time.Duration, size int) *twins {
	t.Helper()
	installations.take(t)
	w := &twins{
		T: t, cluster: fmt.Sprintf("twins-%s-%d", name, os.Getpid()), ttl: ttl, bus: "nats://" + bus, nodes: map[string]*twinNode{},
		cloud: awstest.New(t, awsfake.Config{Start: time.Now(), Boot: 200 * time.Millisecond, Leave: 200 * time.Millisecond}),
	}
	w.demand.Store(int64(size))
	w.cloud.AddGroup(awsfake.ASG{
		Name: twinGroup, Tags: map[string]string{"weir:pool": w.cluster + "/default"}, Min: 1, Max: 40, Desired: size,
		Types: []awsfake.Type{{Name: "m5.4xlarge"}}, // more than 10 cpus
	})
	w.nc = bustest.Connect(t, w.bus)
	store := t.TempDir() // before the cleanup below: it is removed after the store is closed
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	w.serveMetrics(ctx, &wg, store)
	w.serveSignal(ctx, &wg)
	w.serveNodes(ctx, &wg)
	w.watchLease(ctx, &wg)
	for i := range w.all {
		w.all[i] = w.newTwin(string(rune('A'+i)), bus)
	}
	return w
}

// serveMetrics serves the metrics of the signal from that folder.
func (w *twins) serveMetrics(ctx context.Context, wg *sync.WaitGroup, dir string) {
	log := slog.New(slog.DiscardHandler)
	store, err := tsdbstore.Open(dir, tsdbstore.Config{Log: log})
	if err != nil {
		w.Fatal(err)
	}
	err = store.Write(ctx, []metrics.Sample{{Type: metrics.App, Name: metrics.AppName("web", "load"), Time: time.Now(), Value: 1}})
	if err != nil {
		w.Fatal(err)
	}
	server, err := embedded.Listen(ctx, w.nc, w.cluster, log)
	if err != nil {
		w.Fatal(err)
	}
	wg.Go(func() {
		if err := errors.Join(server.Serve(ctx, store), store.Close()); err != nil {
			w.Error(err)
		}
	})
}

// serveSignal answers with the set request, and reports each client to the gate.
func (w *twins) serveSignal(ctx context.Context, wg *sync.WaitGroup) {
	l, err := sigproto.Listen(sigproto.Address(w.cluster, "wish", "web"))
	if err != nil {
		w.Fatal(err)
	}
	wg.Go(func() {
		<-ctx.Done()
		l.Close()
	})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { w.answer(ctx, c) })
		}
	})
}

func (w *twins) answer(ctx context.Context, c net.Conn) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	conn := sigproto.NewServerConn(c, sigproto.ServerConfig{})
	if _, err := conn.ReadHello(); err != nil {
		return
	}
	who := w.peer(c)
	for {
		if _, err := conn.Next(); err != nil {
			return
		}
		if who != nil {
			who.gate.pass("ask", false)
		}
		if conn.Answer(sigproto.Response{Resources: sigproto.Resources{CPUs: new(10 * float64(w.demand.Load()))}}) != nil {
			return
		}
	}
}

// peer returns the twin at the other end.
func (w *twins) peer(c net.Conn) *twin {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil
	}
	var who *twin
	raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		for _, t := range w.all {
			if err == nil && int(t.pid.Load()) == int(cred.Pid) {
				who = t
			}
		}
	})
	return who
}

// serveNodes advances the time, and reports for the machines that are in service.
func (w *twins) serveNodes(ctx context.Context, wg *sync.WaitGroup) {
	bustest.Subscribe(w, w.nc, "weir."+w.cluster+".agent.default.*.cordon", func(m *nats.Msg) {
		var r struct{ On bool }
		if err := json.Unmarshal(m.Data, &r); err != nil {
			w.Errorf("cordon: %v", err)
		}
		w.node(strings.Split(m.Subject, ".")[4], func(n *twinNode) { n.draining = r.On })
		m.Respond([]byte("{}"))
		w.speak()
	})
	wg.Go(func() {
		beat := time.NewTicker(100 * time.Millisecond)
		defer beat.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
				w.cloud.Advance(max(0, time.Since(w.cloud.Now())))
				w.speak()
			}
		}
	})
}

// node changes the report of a node.
func (w *twins) node(id string, change func(*twinNode)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nodes[id] == nil {
		w.nodes[id] = &twinNode{}
	}
	change(w.nodes[id])
}

func (w *twins) speak() {
	for _, i := range w.cloud.Instances(twinGroup) {
		if i.Lifecycle != "InService" || i.State != "running" {
			continue
		}
		f := api.NodeFacts{
			ID: i.ID, Pool: "default", Group: twinGroup, BootID: i.ID, Resources: resource.Vector{resource.CPUs: 10}, SafeToEvict: true, At: time.Now(),
		}
		w.node(i.ID, func(n *twinNode) { f.Tasks, f.Draining = n.tasks, n.draining })
		data, err := json.Marshal(f)
		if err == nil {
			err = w.nc.Publish(message.FactsSubject(w.cluster, message.Node{Pool: "default", Name: i.ID}), data)
		}
		if err != nil && !w.nc.IsClosed() {
			w.Errorf("speak for node %s: %v", i.ID, err)
		}
	}
}

// watchLease notes every value of the lease's key, and the writers of the pool's state.
func (w *twins) watchLease(ctx context.Context, wg *sync.WaitGroup) {
	var err error
	if w.js, err = jetstream.New(w.nc); err != nil {
		w.Fatal(err)
	}
	bustest.Streams(w.T, w.js, w.cluster, 1, "default")
	bucket := names.PoolBucket(w.cluster, "default")
	consumer, err := w.js.OrderedConsumer(ctx, kvbucket.Stream(bucket), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{"$KV." + bucket + ".lease", "$KV." + bucket + ".state"},
	})
	if err != nil {
		w.Fatal(err)
	}
	watch, err := consumer.Messages()
	if err != nil {
		w.Fatal(err)
	}
	context.AfterFunc(ctx, watch.Stop)
	wg.Go(func() {
		for {
			m, err := watch.Next()
			if err != nil {
				return
			}
			meta, err := m.Metadata()
			if err != nil {
				w.Errorf("read a change: %v", err)
				return
			}
			w.noteValue(strings.TrimPrefix(m.Subject(), "$KV."+bucket+"."), m.Data(), meta.Timestamp)
		}
	})
}

func (w *twins) noteValue(key string, value []byte, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if key == "state" {
		w.kept = append(w.kept, w.epochOf(key, value))
		return
	}
	term := twinTerm{at: at}
	if err := json.Unmarshal(value, &term); err != nil {
		w.Errorf("the lease: %v", err)
	}
	w.terms = append(w.terms, term)
}

// epochOf returns the epoch of the writer of a value.
func (w *twins) epochOf(key string, value []byte) uint64 {
	line, _, _ := bytes.Cut(value, []byte("\n"))
	var head struct{ Epoch uint64 }
	if err := json.Unmarshal(line, &head); err != nil {
		w.Errorf("%s: %v", key, err)
	}
	return head.Epoch
}

// expectTakenOver checks whether the last takeover left anything that was written
// before it.
func (w *twins) expectTakenOver() {
	w.Helper()
	terms := w.held()
	found, err := integrity.Read(w.Context(), w.js, names.PoolBucket(w.cluster, "default"))
	if err != nil {
		w.Fatal(err)
	}
	for _, k := range found.Keys {
		if k.Deleted || k.Name != "state" && !strings.HasPrefix(k.Name, "drain.") {
			continue
		}
		if epoch, now := w.epochOf(k.Name, k.Value), terms[len(terms)-1].Epoch; epoch != now {
			w.Errorf("%s is of epoch %d, now is %d", k.Name, epoch, now)
		}
	}
}

// held returns all values of the lease's key so far.
func (w *twins) held() []twinTerm {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.terms)
}

// twin is one of two autoscalers.
type twin struct {
	name   string
	world  *twins
	data   string
	config string
	holder string // under which it holds the lease; known when it has run
	gate   *gate
	cloud  *cloudDoor
	bus    *busDoor
	cmd    *exec.Cmd
	done   chan struct{}
	pid    atomic.Int64 // 0: it does not run
	still  atomic.Bool  // it is stopped

	mu    sync.Mutex
	lines []string
}

func (w *twins) newTwin(name, bus string) *twin {
	w.Helper()
	a := &twin{name: name, world: w, data: w.TempDir(), config: w.TempDir()}
	a.gate = &gate{tb: w, halt: func() {
		if err := await.Halt(int(a.pid.Load())); err != nil {
			w.Error(err)
		}
		a.still.Store(true)
	}}
	a.bus = openBusDoor(w, a.gate, w.cluster, bus)
	w.Cleanup(a.bus.close)
	a.cloud = &cloudDoor{gate: a.gate, server: w.cloud, still: a.still.Load}
	a.cloud.http = httptest.NewServer(a.cloud)
	w.Cleanup(a.cloud.http.Close)
	keys := filepath.Join(a.config, "keys.json")
	for path, text := range map[string]string{
		keys: fmt.Sprintf(`{"accessKeyId": "AKID%s", "secretAccessKey": "SECRET"}`, name),
		filepath.Join(a.config, "weir.yaml"): fmt.Sprintf("nats: {servers: [\"nats://%s\"]}\naws: {region: %s, endpoint_url: \"%s\", access_key_file: %s}\n",
			a.bus.listen.Addr(), w.cloud.Region(), a.cloud.http.URL, keys),
		filepath.Join(a.config, w.cluster, "default.yaml"): fmt.Sprintf(twinFile, w.ttl, w.cluster),
	} {
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	return a
}

// start runs it. It ends with the test.
func (a *twin) start() {
	w := a.world
	w.Helper()
	a.cmd = exec.Command(weirOf(w), "autoscaler", "--data", a.data, "--config-dir", a.config, "--cluster", w.cluster)
	a.cmd.Env = append(os.Environ(), asWeir+"=1")
	out, err := a.cmd.StderrPipe()
	if err != nil {
		w.Fatal(err)
	}
	a.done = make(chan struct{})
	if err := offspring.Start(a.cmd); err != nil {
		w.Fatal(err)
	}
	a.pid.Store(int64(a.cmd.Process.Pid))
	cmd, done := a.cmd, a.done
	go func() {
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			a.mu.Lock()
			a.lines = append(a.lines, time.Now().Format("05.000 ")+lines.Text())
			a.mu.Unlock()
		}
		cmd.Wait()
	}()
	w.Cleanup(func() {
		a.gate.disarm()
		a.signal(syscall.SIGKILL)
		<-done
		if w.Failed() {
			w.Logf("%s said:\n%s", a.name, strings.Join(a.log(0), "\n"))
		}
	})
}

// signal sends a signal to the process, if it runs.
func (a *twin) signal(s syscall.Signal) {
	if s == syscall.SIGCONT {
		a.still.Store(false)
	}
	a.cmd.Process.Signal(s)
}

// kill ends it as a power failure does.
func (a *twin) kill() {
	a.signal(syscall.SIGKILL)
	<-a.done
	a.pid.Store(0)
}

func (a *twin) ended() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

// end requests it to end, and waits for that.
func (a *twin) end() {
	a.world.Helper()
	a.signal(syscall.SIGTERM)
	select {
	case <-a.done:
	case <-time.After(patience):
		a.world.Fatalf("%s does not end", a.name)
	}
	a.pid.Store(0)
	if code := a.cmd.ProcessState.ExitCode(); code != 0 {
		a.world.Errorf("%s ended with exit code %d:\n%s", a.name, code, strings.Join(a.log(0), "\n"))
	}
}

// log returns the lines that came after the first n.
func (a *twin) log(n int) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.lines[n:])
}

func (a *twin) mark() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.lines)
}

// says waits for a line with that text after a mark, and returns the mark behind it.
func (a *twin) says(mark int, text string) int {
	a.world.Helper()
	next := 0
	eventually(a.world, fmt.Sprintf("%q from %s", text, a.name), func() error {
		lines := a.log(mark)
		i := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, text) })
		if next = mark + i + 1; i >= 0 {
			return nil
		}
		if a.ended() {
			a.world.Fatalf("%s has ended", a.name)
		}
		return fmt.Errorf("%s\n%s", strings.Join(lines, "\n"), a.world.whoHolds())
	})
	return next
}

// whoHolds returns the newest claims of the lease, and which twins stand still.
func (w *twins) whoHolds() string {
	var said strings.Builder
	terms := w.held()
	for _, t := range terms[max(0, len(terms)-3):] {
		fmt.Fprintf(&said, "%s the lease: %+v\n", t.at.Format("05.000"), t)
	}
	for _, a := range w.all {
		if a == nil { // the ward of a health test has one
			continue
		}
		fmt.Fprintf(&said, "%s is %s, stands still: %v\n", a.name, a.holder, await.Halted(int(a.pid.Load())))
	}
	return said.String()
}

const (
	logsHeld    = `"pool lease acquired"`
	logsLost    = `"pool lease lost, standing by"`
	logsStandby = `"standing by: another autoscaler holds the pool"`
)

// id is the name under which it holds the lease.
func (a *twin) id() string {
	a.world.Helper()
	if a.holder == "" {
		id, err := daemon.HolderName(slog.New(slog.DiscardHandler), a.data, a.world.cluster, "default")
		if err != nil {
			a.world.Fatal(err)
		}
		a.holder = id
	}
	return a.holder
}

// startBoth starts both, and returns the holder of the pool and the standby.
func (w *twins) startBoth() (holder, other *twin) {
	w.Helper()
	w.all[0].start()
	w.all[1].start()
	eventually(w, "a holder", func() error {
		for i, a := range w.all {
			if slices.ContainsFunc(a.log(0), func(line string) bool { return strings.Contains(line, logsHeld) }) {
				holder, other = a, w.all[1-i]
				return nil
			}
		}
		if w.all[0].ended() && w.all[1].ended() {
			w.Fatal("both have ended")
		}
		return errors.New("nobody holds the pool")
	})
	other.says(0, logsStandby)
	return holder, other
}

// weir types a command about the pool.
func (w *twins) weir(args ...string) string {
	w.Helper()
	r := weir(append([]string{"--nats", w.bus, "--cluster", w.cluster}, args...)...)
	if r.code != 0 {
		w.Fatalf("weir %q: exit code %d, %s", args, r.code, r.stderr)
	}
	return r.stdout
}

// record is the last tick.
func (w *twins) record() (api.TickRecord, error) {
	r := weir("--nats", w.bus, "--cluster", w.cluster, "explain", "--output", "json")
	if r.code != 0 {
		return api.TickRecord{}, errors.New(r.stderr)
	}
	return printedRecord([]byte(r.stdout))
}

// tick waits for a record of a tick that began after now.
func (w *twins) tick(what string, want func(api.TickRecord) error) (found api.TickRecord) {
	w.Helper()
	now := time.Now()
	eventually(w, what, func() error {
		r, err := w.record()
		if err == nil && !r.At.After(now) {
			err = errors.New("no tick comes")
		}
		if err == nil {
			err = want(r)
		}
		found = r
		return err
	})
	return found
}

// settled waits until the pool matches the signal's request: that target, so many
// machines in service, none on its way out.
func (w *twins) settled() {
	w.Helper()
	w.settledAt(int(w.demand.Load()))
}

func (w *twins) settledAt(n int) {
	w.Helper()
	eventually(w, fmt.Sprintf("a pool of %d", n), func() error {
		target, all := w.cloud.Target(twinGroup), w.cloud.Instances(twinGroup)
		serving := 0
		for _, i := range all {
			if i.Lifecycle == "InService" {
				serving++
			}
		}
		if target != n || serving != n || len(all) != n {
			return fmt.Errorf("target %d, in service %d of %d", target, serving, len(all))
		}
		return nil
	})
}

// stays waits until that many ticks more are over, and checks whether the pool is
// as before.
func (w *twins) stays(n int) {
	w.Helper()
	for range n {
		w.tick("a tick", func(api.TickRecord) error { return nil })
	}
	w.settled()
}

// expectOneWriter goes through what the provider and the lease's key have seen:
// no process wrote without the lease, except for what was in flight when it was
// halted; it never had two holders; no instance was ended twice or by the
// provider's own choice.
func (w *twins) expectOneWriter() {
	w.Helper()
	terms := w.held()
	for i := 1; i < len(terms); i++ {
		a, b := terms[i-1], terms[i]
		switch {
		case a.Epoch == b.Epoch && a.Holder != b.Holder:
			w.Errorf("epoch %d is both %s's and %s's", a.Epoch, a.Holder, b.Holder)
		case b.Epoch != a.Epoch && b.Epoch != a.Epoch+1:
			w.Errorf("epoch %d comes after %d", b.Epoch, a.Epoch)
		case a.Holder != b.Holder && !a.Released && b.at.Sub(a.at) < w.ttl:
			w.Errorf("%s took over %v after %s had renewed the lease of %v", b.Holder, b.at.Sub(a.at), a.Holder, w.ttl)
		}
	}
	w.mu.Lock()
	if !slices.IsSorted(w.kept) {
		w.Errorf("what one tick hands on to the next was written by the epochs %v: want none after a higher one", w.kept)
	}
	w.mu.Unlock()
	for _, a := range w.all {
		_, writes := a.cloud.log()
		for _, x := range writes {
			if !x.halted && !w.mayWrite(terms, a.id(), x.at) {
				w.Errorf("%s began %s %s at %s, without the pool being its own", a.name, x.action, x.subject, x.at.Format("05.000"))
			}
		}
	}
	ended := map[string]int{}
	for _, c := range w.cloud.Calls() {
		if c.Action == "TerminateInstanceInAutoScalingGroup" && c.Err == "" {
			ended[c.Params["InstanceId"]]++
		}
	}
	for id, n := range ended {
		if n > 1 {
			w.Errorf("instance %s was ended %d times", id, n)
		}
	}
	for _, e := range w.cloud.Endings() {
		if e.By != awsfake.ByGroup {
			w.Errorf("instance %s was ended by %s", e.Instance, e.By)
		}
	}
}

// mayWrite reports whether the holder had the lease at that time.
func (w *twins) mayWrite(terms []twinTerm, holder string, at time.Time) bool {
	i := slices.IndexFunc(terms, func(t twinTerm) bool { return t.at.After(at) })
	if i < 0 {
		i = len(terms)
	}
	if i == 0 {
		return false
	}
	last := terms[i-1]
	return last.Holder == holder && !last.Released && at.Sub(last.at) < w.ttl
}
