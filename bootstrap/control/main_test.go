package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	signalv1 "github.com/weirkeeper/weirkeeper/proto/signal/v1"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/plugin"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// The test binary is also the keeper, by its first argument, and the signals, by an environment variable.
const roleVariable = "WEIR_TEST_ROLE"

const (
	self  = "/proc/self/exe"
	limit = 20 * time.Second // for every wait of a test
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "keep" {
		if err := supervise.Keep(os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	switch os.Getenv(roleVariable) {
	case "":
		os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise every process waits a second before it ends
		goleak.VerifyTestMain(m)
	case "signal":
		plugin.Main(testSignal{})
	case "own command line":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := plugin.Serve(ctx, testSignal{}, signals.ServeConfig{Namespace: os.Args[1], Name: os.Args[2], App: os.Args[3]}); err != nil {
			os.Exit(1)
		}
	case "loud about":
		serve(&fixedDescription{answer: &signalv1.DescribeResponse{Name: "bell\a"}}, signalv1.ProtocolVersion)
	case "long about":
		serve(&fixedDescription{answer: &signalv1.DescribeResponse{ParametersSchema: bytes.Repeat([]byte(" "), 2*maxMessage)}}, signalv1.ProtocolVersion)
	case "versions 2 and 3":
		serve(&fixedDescription{answer: &signalv1.DescribeResponse{}}, 2, 3)
	case "versions 1 and 2":
		serve(&fixedDescription{answer: &signalv1.DescribeResponse{}}, 1, 2)
	case "windows":
		serve(&windows{}, signalv1.ProtocolVersion)
	}
}

// serve is the main function of a go-plugin that does not use the SDK.
func serve(p goplugin.Plugin, versions ...int) {
	versioned := map[int]goplugin.PluginSet{}
	for _, v := range versions {
		versioned[v] = goplugin.PluginSet{signalv1.PluginName: p}
	}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			MagicCookieKey: signalv1.CookieKey, MagicCookieValue: signalv1.CookieValue,
		},
		VersionedPlugins: versioned,
		GRPCServer:       goplugin.DefaultGRPCServer,
	})
}

// fixedDescription is a plugin with a configured description.
type fixedDescription struct {
	controlPlugin
	signalv1.UnimplementedControlServer
	answer *signalv1.DescribeResponse
}

func (a *fixedDescription) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	signalv1.RegisterControlServer(s, a)
	return nil
}

func (a *fixedDescription) Describe(context.Context, *signalv1.DescribeRequest) (*signalv1.DescribeResponse, error) {
	return a.answer, nil
}

// testSignal requests the configured number of CPUs, and logs in every format.
type testSignal struct{}

func (testSignal) About() plugin.About {
	slog.Debug("a debug line")
	slog.Info("an info line", "n", 1, slog.Group("in", "m", 2))
	slog.Warn("a warning", "err", errors.New("broken"))
	slog.Error("an error")
	fmt.Fprintln(os.Stderr, "no record")
	return plugin.About{
		Name: "test", Version: "v1.2.3",
		Metrics:    []plugin.Metric{{Name: "rps|.*", Type: plugin.AppMetrics, Range: 20 * time.Minute, Regex: true}},
		Parameters: []plugin.Parameter{{Name: "cpus", Type: plugin.Number, Default: 1.5}},
	}
}

func (testSignal) Value(_ context.Context, in signals.Input) (resource.Request, error) {
	fmt.Println("asked on stdout")
	fmt.Fprintln(os.Stderr, "asked on stderr")
	cpus, err := in.Parameters.Float("cpus", 1)
	return resource.Request{}.With(resource.CPUs, cpus), err
}

// runLauncher returns a launcher that runs until the test ends.
func runLauncher(t testing.TB) *supervise.Launcher {
	t.Helper()
	launcher, err := supervise.NewLauncher(supervise.Config{KeeperArgv: []string{self, "keep"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := launcher.Run(ctx); err != nil {
			t.Errorf("launcher's end: %v", err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	return launcher
}

// host is a session under test with its output and its folder.
type host struct {
	*Session
	folder string
	log    *syncBuffer
	lines  *syncBuffer
}

// newHost returns a session that is closed when the test ends. Then its folder must be empty.
func newHost(t testing.TB) *host {
	t.Helper()
	h := &host{folder: shortFolder(t), log: newSyncBuffer(), lines: newSyncBuffer()}
	handler := slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.Level(-10)})
	session, err := NewSession(Config{Folder: h.folder, Log: slog.New(handler)})
	if err != nil {
		t.Fatal(err)
	}
	h.Session = session
	t.Cleanup(func() {
		session.Close()
		if left, err := os.ReadDir(h.folder); err != nil || len(left) > 0 {
			t.Errorf("the session left %v, %v", left, err)
		}
	})
	return h
}

// shortFolder returns a folder whose path is short enough for a socket.
func shortFolder(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// spec returns a spec of the session.
func (h *host) spec(env []string, argv ...string) supervise.Spec {
	return h.Prepare(supervise.Spec{
		Name: "signal", Argv: argv, Env: append(os.Environ(), env...), StopGrace: 5 * time.Second,
		Lines: func(stream string, line []byte) { fmt.Fprintf(h.lines, "%s: %s\n", stream, line) },
	})
}

// signalSpec returns a spec of this binary in a role, with its own app.
func (h *host) signalSpec(t testing.TB, role string) (spec supervise.Spec, address string) {
	app := appOf(t)
	return h.spec([]string{roleVariable + "=" + role}, self, "ns", "name", app), sigproto.Address("ns", "name", app)
}

func appOf(t testing.TB) string {
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	return fmt.Sprintf("%d-%s", os.Getpid(), name[:min(len(name), 50)])
}

func start(t testing.TB, launcher *supervise.Launcher, spec supervise.Spec) *supervise.Child {
	t.Helper()
	child, err := launcher.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return child
}

func kill(t testing.TB, pid int, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, signal); err != nil {
		t.Fatal(err)
	}
}

func awaitExit(t testing.TB, child *supervise.Child) supervise.Exit {
	t.Helper()
	select {
	case <-child.Done():
	case <-time.After(limit):
		t.Fatal("the process does not end")
	}
	exit, _ := child.Exit()
	return exit
}

// evaluate requests the CPUs from a signal on its socket.
func evaluate(t testing.TB, address string, columnar bool) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	client := sigproto.NewClient(sigproto.ClientConfig{
		Address: address, Columnar: columnar, Hello: sigproto.Hello{Cluster: "c", Pool: "p", Parameters: map[string]any{"cpus": 2.5}},
	})
	defer client.Close()
	answer, err := client.Evaluate(ctx, sigproto.Evaluation{
		Timestamp: 1, Series: []sigproto.Series{{Name: "m", Times: []int64{1}, Values: []float64{2}}},
	})
	if err != nil || answer.Resources.CPUs == nil {
		t.Fatalf("Evaluate = %+v, %v", answer, err)
	}
	return *answer.Resources.CPUs
}

// awaitSocket waits until a process listens on an abstract address.
func awaitSocket(t testing.TB, address string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(limit)
	for {
		if conn, err := net.Dial("unix", "@"+address); err == nil {
			conn.Close()
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("no process listens at @%s", address)
		}
	}
}

// syncBuffer is a buffer with a wait function.
type syncBuffer struct {
	mu   sync.Mutex
	text []byte
	more chan struct{} // closed with the next write
}

func newSyncBuffer() *syncBuffer { return &syncBuffer{more: make(chan struct{})} }

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	close(b.more)
	b.more = make(chan struct{})
	return len(p), nil
}

// await waits until the buffer contains all texts.
func (b *syncBuffer) await(t testing.TB, want ...string) {
	t.Helper()
	late := time.After(limit)
	for _, text := range want {
		for {
			b.mu.Lock()
			found, more := bytes.Contains(b.text, []byte(text)), b.more
			b.mu.Unlock()
			if found {
				break
			}
			select {
			case <-more:
			case <-late:
				t.Fatalf("no %q in:\n%s", text, b.String())
			}
		}
	}
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text)
}

// record returns the log record with that message, without its time.
func (b *syncBuffer) record(t testing.TB, message string) map[string]any {
	t.Helper()
	b.await(t, `"msg":"`+message+`"`)
	for line := range strings.Lines(b.String()) {
		var r map[string]any
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r["msg"] == message {
			delete(r, "time")
			return r
		}
	}
	return nil
}

// openFiles returns the targets of this process's descriptors.
func openFiles(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(target, "/proc/") { // the descriptor of this folder
			files = append(files, e.Name()+" "+target)
		}
	}
	slices.Sort(files)
	return files
}
