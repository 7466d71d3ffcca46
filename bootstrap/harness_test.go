package bootstrap_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// deadline bounds every wait of a test.
const deadline = await.Patience

// noReleases is a Fetcher without releases.
type noReleases struct{}

func (noReleases) Fetch(_ context.Context, ref release.Ref) (release.Installed, error) {
	return release.Installed{}, fmt.Errorf("fetch %s: %w", ref, release.ErrNotFound)
}

// planOf returns the plan of one pool: the default signal, and the given signals of apps "web", "app2", ... Their
// addresses are unique to the test.
func planOf(namespace string, more ...bootstrap.SignalPlan) bootstrap.Plan {
	unique := fmt.Sprintf("%s%d", namespace, os.Getpid())
	plan := bootstrap.Plan{Cluster: "prod", Pool: "default", Signals: []bootstrap.SignalPlan{
		bootstrap.NewSignalPlan(sigproto.DefaultApp, unique, "default", ""),
	}}
	for _, s := range more {
		plan.Signals = append(plan.Signals, bootstrap.NewSignalPlan(s.App, unique, s.Name, s.Version))
	}
	return plan
}

// newBootstrap returns a bootstrap whose processes get this process's environment.
func newBootstrap(l *supervise.Launcher, plan bootstrap.Plan, f bootstrap.Fetcher, change func(*bootstrap.Config)) (*bootstrap.Bootstrap, error) {
	program := testprograms.Plain("bootstrap", self)
	config := bootstrap.Config{
		Plan: withTestVariables(plan), Launcher: l, Releases: f, ReadyTimeout: long, SwapTimeout: time.Second,
		Shipped: func(p bootstrap.SignalPlan, app string) []string {
			return []string{program, asSignal, p.Namespace, p.Name, app}
		},
		Autoscaler: []string{program, asAutoscaler},
		Env:        os.Environ(),
		Environ:    os.Environ(),
		Log:        slog.New(slog.DiscardHandler),
	}
	change(&config)
	return bootstrap.New(config)
}

// withTestVariables returns the plan with signals that get the variables of the tests.
func withTestVariables(plan bootstrap.Plan) bootstrap.Plan {
	plan.Signals = slices.Clone(plan.Signals)
	for i := range plan.Signals {
		plan.Signals[i].Environment += strings.Join([]string{
			"", markVariable, gateVariable, behaviourVariable, selfVariable, brittleVariable,
		}, " ")
	}
	return plan
}

// pool is a running bootstrap with its test fixtures.
type pool struct {
	*bootstrap.Bootstrap
	plan     bootstrap.Plan
	arrivals *arrivals
	end      func() error // ends it and returns Run's error
}

// start runs a bootstrap until the test ends. Then nothing of it may be left.
func start(t testing.TB, plan bootstrap.Plan, f bootstrap.Fetcher, timeouts time.Duration) *pool {
	t.Helper()
	return startWith(t, plan, f, func(c *bootstrap.Config) { c.ReadyTimeout = timeouts })
}

// startWith is start with a modified configuration.
func startWith(t testing.TB, plan bootstrap.Plan, f bootstrap.Fetcher, change func(*bootstrap.Config)) *pool {
	t.Helper()
	expectNothingLeft(t)
	p := &pool{plan: plan, arrivals: listenForArrivals(t)}
	launcher, err := supervise.NewLauncher(supervise.Config{KeeperArgv: []string{self, asKeeper}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if p.Bootstrap, err = newBootstrap(launcher, plan, f, change); err != nil {
		t.Fatal(err)
	}
	launching, stopLaunching := context.WithCancel(context.Background())
	running, stopRunning := context.WithCancel(context.Background())
	var errLauncher, errRun error
	var launcherEnded, runEnded sync.WaitGroup
	launcherEnded.Go(func() { errLauncher = launcher.Run(launching) })
	runEnded.Go(func() { errRun = p.Run(running) })
	p.end = sync.OnceValue(func() error {
		stopRunning()
		runEnded.Wait()
		stopLaunching()
		launcherEnded.Wait()
		return errors.Join(errRun, errLauncher)
	})
	t.Cleanup(func() {
		if err := p.end(); err != nil {
			t.Errorf("bootstrap ended with %v, want nil", err)
		}
		for _, a := range p.arrivals.all {
			a.awaitEnd(t)
		}
	})
	return p
}

// process returns the signal process of an app.
func (p *pool) process(app string) api.Process {
	for _, s := range p.Status().Signals {
		if s.App == app {
			return s
		}
	}
	return api.Process{}
}

// awaitProcess waits until good returns true for the signal process of an app.
func (p *pool) awaitProcess(t testing.TB, app, what string, good func(api.Process) bool) api.Process {
	t.Helper()
	await.Nil(t, fmt.Sprintf("signal of app %s is %s", app, what), func() error {
		if now := p.process(app); !good(now) {
			return fmt.Errorf("it is %+v", now)
		}
		return nil
	})
	return p.process(app)
}

func running(p api.Process) bool { return p.State == "running" }

// request makes an evaluation at a signal's address.
func request(t testing.TB, address string) error {
	t.Helper()
	client := sigproto.NewClient(sigproto.ClientConfig{Address: address, Hello: sigproto.Hello{Cluster: "prod", Pool: "default"}})
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	_, err := client.Evaluate(ctx, sigproto.Evaluation{Timestamp: 1})
	return err
}

// arrivals receives the streams of started autoscalers.
type arrivals struct {
	listener *net.UnixListener
	all      []*autoscaler // received so far
}

func listenForArrivals(t testing.TB) *arrivals {
	t.Helper()
	path := filepath.Join(t.TempDir(), "arrivals")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	t.Setenv(arrivalsVariable, path)
	return &arrivals{listener: l}
}

// autoscaler is a started autoscaler with its directory.
type autoscaler struct {
	pid    int
	reader *bootstrap.Reader
	ended  chan struct{} // closed when the stream has ended
	err    error         // the reader's error, after ended

	mu   sync.Mutex
	text bytes.Buffer // content of the stream
}

// next waits for the next autoscaler, and reads its directory until it ends.
func (a *arrivals) next(t testing.TB) *autoscaler {
	t.Helper()
	a.listener.SetDeadline(time.Now().Add(deadline))
	conn, err := a.listener.AcceptUnix()
	if err != nil {
		t.Fatalf("no autoscaler came: %v", err)
	}
	defer conn.Close()
	words, rights := make([]byte, 32), make([]byte, unix.CmsgSpace(4))
	n, nr, _, _, err := conn.ReadMsgUnix(words, rights)
	if err != nil {
		t.Fatal(err)
	}
	got := &autoscaler{reader: bootstrap.NewReader(), ended: make(chan struct{})}
	if got.pid, err = strconv.Atoi(string(words[:n])); err != nil {
		t.Fatal(err)
	}
	stream := fileOf(t, rights[:nr])
	go func() {
		defer close(got.ended)
		got.err = got.reader.Run(tee{stream, got})
	}()
	a.all = append(a.all, got)
	return got
}

// fileOf returns the descriptor in a message.
func fileOf(t testing.TB, rights []byte) net.Conn {
	t.Helper()
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages with the autoscaler's words, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("descriptors %v with the autoscaler's words, %v", fds, err)
	}
	file := os.NewFile(uintptr(fds[0]), "directory")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// tee is a stream that stores the read data.
type tee struct {
	net.Conn
	to *autoscaler
}

func (s tee) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.to.keep(b[:n])
	return n, err
}

func (a *autoscaler) keep(text []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text.Write(text)
}

// revisions returns the revisions received so far.
func (a *autoscaler) revisions(t testing.TB) []bootstrap.Directory {
	t.Helper()
	a.mu.Lock()
	text := a.text.String()
	a.mu.Unlock()
	return decodeRevisions(t, text[:strings.LastIndexByte(text, '\n')+1])
}

// awaitEntry waits until good returns true for the app's entry in the directory.
func (a *autoscaler) awaitEntry(t testing.TB, app, what string, good func(bootstrap.Entry) bool) bootstrap.Entry {
	t.Helper()
	await.Value(t, "the first revision", a.reader.First())
	var e bootstrap.Entry
	await.Nil(t, fmt.Sprintf("the entry of app %s is %s", app, what), func() error {
		if e = a.reader.Entry(app); !good(e) {
			return fmt.Errorf("it is %+v", e)
		}
		return nil
	})
	return e
}

func (a *autoscaler) awaitEnd(t testing.TB) {
	t.Helper()
	await.Value(t, "the end of the directory's stream", a.ended)
	if !errors.Is(a.err, bootstrap.ErrGone) {
		t.Errorf("the directory's stream ended with %v, want ErrGone", a.err)
	}
}

func up(e bootstrap.Entry) bool   { return e.Down == "" && e.Group != 0 }
func down(e bootstrap.Entry) bool { return e.Down != "" }

// gate delays the signals named gated: each start waits for one call of open.
type gate struct{ listener net.Listener }

func newGate(t testing.TB) *gate {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	t.Setenv(gateVariable, path)
	return &gate{l}
}

// open lets one waiting or future signal pass.
func (g *gate) open(t testing.TB) {
	t.Helper()
	g.listener.(*net.UnixListener).SetDeadline(time.Now().Add(deadline))
	conn, err := g.listener.Accept()
	if err != nil {
		t.Fatalf("no signal came to the gate: %v", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
}

// expectNothingLeft marks all processes that the test will start, and fails unless all have ended at its end.
func expectNothingLeft(t testing.TB) {
	t.Helper()
	mark := fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(t.Name(), "/", "-"), os.Getpid(), time.Now().UnixNano())
	t.Setenv(markVariable, mark)
	t.Cleanup(func() {
		await.Nil(t, "the end of all processes", func() error {
			if left := marked(mark); len(left) > 0 {
				return fmt.Errorf("left: %q", left)
			}
			return nil
		})
	})
}

// marked returns the command lines of the processes with a mark, except this one and the servers of tests.
func marked(mark string) (lines []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		environ, _ := os.ReadFile(filepath.Join(dir, "environ")) // empty if it is dead
		if slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(e []byte) bool { return string(e) == markVariable+"="+mark }) {
			line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			lines = append(lines, filepath.Base(dir)+": "+string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
		}
	}
	return lines
}

// kill ends a process as a crash would; a negative number is a group.
func kill(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
