package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

func TestSession(t *testing.T) {
	launcher, h := runLauncher(t), newHost(t)
	spec, address := h.signalSpec(t, "signal")
	child := start(t, launcher, spec)

	about, err := h.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(about.SDK, "weirkeeper-go") {
		t.Errorf("SDK = %q", about.SDK)
	}
	about.SDK = ""
	want := Description{
		Name: "test", Version: "v1.2.3",
		Metrics: []RequiredMetric{{Name: "rps|.*", Type: "app_metrics", Range: 20 * time.Minute, Regex: true}},
		Schema: json.RawMessage(`{"$schema":"https://json-schema.org/draft/2020-12/schema","additionalProperties":false,` +
			`"properties":{"cpus":{"default":1.5,"type":"number"}},"type":"object"}`),
		Encodings: []string{"json", "columnar"},
		Protocol:  1,
	}
	if diff := cmp.Diff(want, about); diff != "" {
		t.Errorf("Describe: -want +got\n%s", diff)
	}
	if !about.Columnar() {
		t.Error("not columnar")
	}
	if err := h.Health(t.Context()); err != nil {
		t.Error(err)
	}
	// The socket listens before the handshake, so no wait is needed.
	if cpus := evaluate(t, address, true); cpus != 2.5 {
		t.Errorf("cpus = %v", cpus)
	}
	h.lines.await(t, "stderr: no record\n", "stdout: asked on stdout\n", "stderr: asked on stderr\n")
	if strings.Contains(h.lines.String(), "|grpc|") {
		t.Errorf("the handshake was passed on:\n%s", h.lines)
	}

	kill(t, child.PID(), syscall.SIGTERM)
	if exit := awaitExit(t, child); exit.Code != 0 {
		t.Errorf("after SIGTERM: %s", exit)
	}
	if err := h.Health(t.Context()); err == nil {
		t.Error("a process that has ended is well")
	}
	h.Close()
	if _, err := h.Describe(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("Describe after Close: %v", err)
	}
}

func TestLogKeepsLevels(t *testing.T) {
	launcher, h := runLauncher(t), newHost(t)
	spec, _ := h.signalSpec(t, "signal")
	start(t, launcher, spec)
	for _, want := range []map[string]any{
		{"level": "DEBUG", "msg": "a debug line"},
		{"level": "INFO", "msg": "an info line", "attrs": map[string]any{"n": 1.0, "in": map[string]any{"m": 2.0}}},
		{"level": "WARN", "msg": "a warning", "attrs": map[string]any{"err": "broken"}},
		{"level": "ERROR", "msg": "an error"},
	} {
		if diff := cmp.Diff(want, h.log.record(t, want["msg"].(string))); diff != "" {
			t.Errorf("record: -want +got\n%s", diff)
		}
	}
}

// A shutdown through go-plugin ends the process like SIGTERM.
func TestControllerEndsSignal(t *testing.T) {
	launcher, h := runLauncher(t), newHost(t)
	spec, _ := h.signalSpec(t, "signal")
	child := start(t, launcher, spec)
	if _, err := h.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix://"+h.link.hello.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The server ends before or after its response.
	_ = conn.Invoke(t.Context(), "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
	if exit := awaitExit(t, child); exit.Code != 0 {
		t.Errorf("after Shutdown: %s", exit)
	}
}

// A program with its own command line becomes a plugin by plugin.Serve.
func TestServe(t *testing.T) {
	launcher, h := runLauncher(t), newHost(t)
	spec, address := h.signalSpec(t, "own command line")
	child := start(t, launcher, spec)
	if about, err := h.Describe(t.Context()); err != nil || about.Name != "test" {
		t.Errorf("Describe = %+v, %v", about, err)
	}
	if cpus := evaluate(t, address, false); cpus != 2.5 {
		t.Errorf("cpus = %v", cpus)
	}
	h.log.record(t, "an error")
	kill(t, child.PID(), syscall.SIGTERM)
	if exit := awaitExit(t, child); exit.Code != 0 {
		t.Errorf("after SIGTERM: %s", exit)
	}
}

// A signal that a user starts runs without go-plugin and prints no handshake.
func TestByHand(t *testing.T) {
	launcher := runLauncher(t)
	lines := newSyncBuffer()
	h := newHost(t)
	spec, address := h.signalSpec(t, "signal")
	spec.Env = append(os.Environ(), roleVariable+"=signal") // as without the session
	spec.Lines = func(stream string, line []byte) { fmt.Fprintf(lines, "%s: %s\n", stream, line) }
	child := start(t, launcher, spec)
	awaitSocket(t, address)
	if cpus := evaluate(t, address, false); cpus != 2.5 {
		t.Errorf("cpus = %v", cpus)
	}
	lines.await(t, "stdout: asked on stdout\n")
	if strings.Contains(lines.String(), "grpc") {
		t.Errorf("it printed a handshake:\n%s", lines)
	}
	kill(t, child.PID(), syscall.SIGTERM)
	if exit := awaitExit(t, child); exit.Code != 0 {
		t.Errorf("after SIGTERM: %s", exit)
	}
}

func TestExitCodes(t *testing.T) {
	launcher := runLauncher(t)
	for _, test := range []struct {
		name string
		args []string
		want int
	}{
		{"too few arguments", []string{"ns"}, 2},
		{"an empty argument", []string{"ns", "", "app"}, 2},
		{"an address that is too long", []string{"ns", strings.Repeat("n", 200), "app"}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			child := start(t, launcher, h.spec([]string{roleVariable + "=signal"}, append([]string{self}, test.args...)...))
			if exit := awaitExit(t, child); exit.Code != test.want {
				t.Errorf("%s, want status %d", exit, test.want)
			}
			h.log.await(t, `"level":"ERROR"`)
		})
	}
}

func TestWrongPlugins(t *testing.T) {
	launcher := runLauncher(t)
	for _, test := range []struct {
		name  string
		role  string
		want  error
		words []string
	}{
		{"control characters", "loud about", errDescription, []string{`"bell\a"`}},
		{"a description that is too long", "long about", nil, []string{"larger than max"}},
		{"other versions", "versions 2 and 3", ErrProtocol, []string{`version "2"`, "bootstrap has version 1"}},
		{"our version among others", "versions 1 and 2", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			spec, _ := h.signalSpec(t, test.role)
			start(t, launcher, spec)
			about, err := h.Describe(t.Context())
			if test.words == nil {
				if err != nil || about.Protocol != 1 || about.Columnar() {
					t.Errorf("Describe = %+v, %v", about, err)
				}
				return
			}
			checkError(t, err, test.want, test.words...)
		})
	}
}

func checkError(t *testing.T, err, want error, words ...string) {
	t.Helper()
	if err == nil || want != nil && !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	for _, wantText := range words {
		if !strings.Contains(err.Error(), wantText) {
			t.Errorf("error %q lacks %q", err, wantText)
		}
	}
	if len(err.Error()) > 1000 {
		t.Errorf("error has %d bytes", len(err.Error()))
	}
}

// What a process does instead of a handshake is a shell command. DIR is the session's folder.
func TestNoHandshake(t *testing.T) {
	launcher := runLauncher(t)
	for _, test := range []struct {
		name   string
		script string
		want   error
		words  []string
	}{
		{"none", `exec sleep 300`, context.DeadlineExceeded, []string{"no handshake"}},
		{"ends at once", `exit 0`, errEnded, []string{"no handshake"}},
		{"killed before", `kill -9 $$`, errEnded, []string{"no handshake"}},
		{"killed within", `printf '1|1|unix'; kill -9 $$`, ErrHandshake, []string{"1|1|unix"}},
		{"garbage", `head -c 3000 /dev/zero | tr '\0' '\377'; echo; exec sleep 300`, ErrHandshake, []string{"first line"}},
		{"ten megabytes in a line", `head -c 10000000 /dev/zero | tr '\0' x; echo; exec sleep 300`, ErrHandshake, []string{"xxxx"}},
		{"an empty line", `echo; exec sleep 300`, ErrHandshake, []string{`""`}},
		{"socket elsewhere", `echo "1|1|unix|/tmp/other|grpc|"; exec sleep 300`, ErrHandshake, []string{"/tmp/other", "plugin-dir"}},
		{"socket above", `echo "1|1|unix|$DIR/../x|grpc|"; exec sleep 300`, ErrHandshake, []string{"want a unix socket in"}},
		{"tcp", `echo "1|1|tcp|127.0.0.1:1|grpc|"; exec sleep 300`, ErrHandshake, []string{`"tcp"`}},
		{"no socket there", `echo "1|1|unix|$DIR/x|grpc|"; exec sleep 300`, nil, []string{"no such file"}},
		{"a file there", `touch $DIR/x; echo "1|1|unix|$DIR/x|grpc|"; exec sleep 300`, nil, []string{"not a socket"}},
		{"a link there", `ln -s /run $DIR/x; echo "1|1|unix|$DIR/x|grpc|"; exec sleep 300`, nil, []string{"not a socket"}},
		{"a certificate", fmt.Sprintf(`echo "1|1|unix|$DIR/x|grpc|%060d"; exec sleep 300`, 0), ErrHandshake, []string{"certificate"}},
		{"net/rpc", `echo "1|1|unix|$DIR/x|netrpc|"; exec sleep 300`, ErrHandshake, []string{`"netrpc"`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHost(t)
			child := start(t, launcher, h.spec(nil, "/bin/sh", "-c", "DIR=$PLUGIN_UNIX_SOCKET_DIR; "+test.script))
			wait := limit
			if test.want == context.DeadlineExceeded {
				wait = 2 * time.Second
			}
			_, err := h.Describe(whileAlive(t, child, wait))
			checkError(t, err, test.want, test.words...)
		})
	}
}

// A process prints a wrong first line and ends before the session has read the line: the error names the line.
func TestWrongLineOfAnEndedProcess(t *testing.T) {
	s := &Session{link: newAttachment(0), connected: make(chan struct{})}
	ctx, end := context.WithCancelCause(t.Context())
	end(errEnded)
	checkError(t, s.await(ctx), errEnded, "no handshake")
	s.link.receive([]byte("1|1|unix"))
	checkError(t, s.await(ctx), ErrHandshake, "1|1|unix")
}

var errEnded = errors.New("the process has ended")

// whileAlive returns a context that ends with the child, like that of a probe, and after a time.
func whileAlive(t *testing.T, child *supervise.Child, wait time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	t.Cleanup(cancel)
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-child.Done():
			end(errEnded)
		case <-ctx.Done():
		}
	}()
	return ctx
}

func TestStoppedSignal(t *testing.T) {
	launcher, h := runLauncher(t), newHost(t)
	spec, _ := h.signalSpec(t, "signal")
	spec.StopGrace = 10 * time.Millisecond
	child := start(t, launcher, spec)
	if err := h.Health(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := await.Halt(child.PID()); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(context.Context) error{
		"Describe": func(ctx context.Context) error { _, err := h.Describe(ctx); return err },
		"Health":   h.Health,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s of a stopped process: %v", name, err)
		}
		cancel()
	}
	h.Close() // does not block
	if err := child.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// The process is stopped between its handshake and the first call.
func TestStoppedAtHandshake(t *testing.T) {
	launcher, h := runLauncher(t), newHost(t)
	spec, _ := h.signalSpec(t, "signal")
	spec.StopGrace = 10 * time.Millisecond
	lines := spec.Lines
	pid, stopped := make(chan int, 1), make(chan struct{})
	spec.Lines = func(stream string, line []byte) {
		if strings.Contains(string(line), "|grpc|") {
			if err := await.Halt(<-pid); err != nil {
				t.Error(err)
			}
			close(stopped)
		}
		lines(stream, line)
	}
	child := start(t, launcher, spec)
	pid <- child.PID()
	<-stopped
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := h.Describe(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Describe of a stopped process: %v", err)
	}
	h.Close() // it does not wait for the stopped process
	if err := child.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestGrandchildHoldsOutput(t *testing.T) {
	launcher, h := runLauncher(t), newHost(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec := h.spec([]string{roleVariable + "=signal"}, "/bin/sh", "-c", `sleep 300 & exec "$0" "$@"`, program, "ns", "name", appOf(t))
	child := start(t, launcher, spec)
	if _, err := h.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	kill(t, child.PID(), syscall.SIGKILL)
	awaitExit(t, child)
	if _, err := h.Describe(t.Context()); err == nil {
		t.Error("a dead process describes itself")
	}
}

// A session may be closed at any time and leaves nothing, whatever happens to its process.
func TestCloseLeavesNothing(t *testing.T) {
	launcher := runLauncher(t)
	if err := start(t, launcher, supervise.Spec{Name: "first", Argv: []string{"/bin/true"}}).Stop(t.Context()); err != nil {
		t.Fatal(err) // the launcher's permanent descriptors are open now
	}
	files := openFiles(t)
	for _, test := range []struct {
		name string
		run  func(t *testing.T, h *host, child *supervise.Child) // nil: the process is not started
	}{
		{"never started", nil},
		{"alive, before the handshake", func(*testing.T, *host, *supervise.Child) {}},
		{"alive", func(t *testing.T, h *host, _ *supervise.Child) {
			if _, err := h.Describe(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{"killed, before the handshake", func(t *testing.T, _ *host, child *supervise.Child) { kill(t, child.PID(), syscall.SIGKILL) }},
		{"killed as it connects", func(t *testing.T, h *host, child *supervise.Child) {
			<-h.connected
			kill(t, child.PID(), syscall.SIGKILL)
			_, _ = h.Describe(t.Context())
		}},
		{"called while it closes", func(t *testing.T, h *host, _ *supervise.Child) {
			go func() { _, _ = h.Describe(t.Context()) }()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for range 3 {
				h := newHost(t)
				spec, _ := h.signalSpec(t, "signal")
				if test.run == nil {
					h.Close()
					continue
				}
				child := start(t, launcher, spec)
				test.run(t, h, child)
				h.Close()
				if err := child.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}
			awaitFiles(t, files)
		})
	}
}

// awaitFiles waits until only these descriptors are open: gRPC closes its own shortly after it has returned.
func awaitFiles(t *testing.T, want []string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(limit); ; {
		left := openFiles(t)
		if len(left) == len(want) {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("descriptors: -want +got\n%s", cmp.Diff(want, left))
		}
	}
}

func TestPrepareOwnsEnvironment(t *testing.T) {
	h := newHost(t)
	spec := h.spec([]string{"PLUGIN_CLIENT_CERT=x", "PLUGIN_UNIX_SOCKET_DIR=/elsewhere", "OTHER=kept"}, self)
	for _, entry := range spec.Env {
		if strings.HasPrefix(entry, "PLUGIN_CLIENT_CERT") || strings.HasSuffix(entry, "/elsewhere") {
			t.Errorf("environment has %s", entry)
		}
	}
	if !slices.Contains(spec.Env, "OTHER=kept") || !slices.Contains(spec.Env, "PLUGIN_PROTOCOL_VERSIONS=1") {
		t.Errorf("environment is %q", spec.Env)
	}
	info, err := os.Stat(h.link.folder)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info.Mode(), err)
	}
}

func TestNewSessionRefuses(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for _, test := range []struct {
		name     string
		config   Config
		wantText string
	}{
		{"no logger", Config{}, "no logger"},
		{"relative folder", Config{Folder: "x", Log: log}, "not absolute"},
		{"long folder", Config{Folder: "/" + strings.Repeat("x", 70), Log: log}, "too long"},
		{"no folder", Config{Folder: "/no/such/folder", Log: log}, "no such file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := NewSession(test.config); err == nil || !strings.Contains(err.Error(), test.wantText) {
				t.Errorf("NewSession: %v, want %q", err, test.wantText)
			}
		})
	}
}

// TestFolderIsRemovedWhileFilesAreMade removes the folder of a socket while its process creates files there.
func TestFolderIsRemovedWhileFilesAreMade(t *testing.T) {
	link := newAttachment(0)
	link.folder = filepath.Join(shortFolder(t), "plugin-dir")
	for range 30 {
		if err := os.Mkdir(link.folder, 0o700); err != nil {
			t.Fatal(err)
		}
		begun := make(chan struct{})
		var making sync.WaitGroup
		making.Go(func() {
			for n := range 109 { // fewer files than removals after the start
				if os.WriteFile(filepath.Join(link.folder, strconv.Itoa(n)), nil, 0o600) != nil {
					return // the folder is missing
				}
				if n == 100 {
					close(begun)
				}
			}
		})
		<-begun
		link.removeFolder()
		making.Wait()
		if _, err := os.Stat(link.folder); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the folder is left: %v", err)
		}
	}
}
