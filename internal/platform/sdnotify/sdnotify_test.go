package sdnotify

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// patience bounds how long a test waits for a message.
const patience = await.Patience

// manager is the socket of a service manager.
type manager struct {
	t *testing.T
	c *net.UnixConn
}

// newManager opens a socket, and sets the variables of systemd for this process.
func newManager(t *testing.T, watchdog time.Duration) manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv(variableSocket, path)
	if watchdog > 0 {
		t.Setenv(variableWatchdog, strconv.FormatInt(watchdog.Microseconds(), 10))
		t.Setenv(variablePID, strconv.Itoa(os.Getpid()))
	}
	return manager{t, c}
}

// next returns the lines of the next message.
func (m manager) next() []string {
	m.t.Helper()
	if err := m.c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		m.t.Fatal(err)
	}
	data := make([]byte, 4096)
	n, err := m.c.Read(data)
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.Split(string(data[:n]), "\n")
}

// until drops messages before the one with the line.
func (m manager) until(line string) {
	m.t.Helper()
	for !slices.Contains(m.next(), line) {
	}
}

func take(t *testing.T) *Notifier {
	t.Helper()
	n, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// start runs the notifier, and returns a function that ends it.
func start(t *testing.T, n *Notifier, alive func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx, alive) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v, want nil", err)
		}
	}
}

func TestReadyOnlyWhenLoopResponds(t *testing.T) {
	m := newManager(t, 0)
	var up atomic.Bool
	stop := start(t, take(t), func(context.Context) error {
		if up.Load() {
			return nil
		}
		return errors.New("the loop\nhas not begun")
	})
	if got := m.next(); !slices.Equal(got, []string{"STATUS=does not respond: the loop has not begun"}) {
		t.Fatalf("first message %q, want a status of one line", got)
	}
	up.Store(true)
	if got := m.next(); !slices.Equal(got, []string{"READY=1", "STATUS="}) {
		t.Fatalf("message %q, want READY=1 and an empty status", got)
	}
	stop()
	if got := m.next(); !slices.Equal(got, []string{"STOPPING=1"}) {
		t.Errorf("last message %q, want STOPPING=1", got)
	}
}

func TestWatchdogOnlyWhileLoopAdvances(t *testing.T) {
	m := newManager(t, 100*time.Millisecond)
	var down atomic.Bool
	defer start(t, take(t), func(ctx context.Context) error {
		if down.Load() {
			<-ctx.Done() // Run bounds it
			return ctx.Err()
		}
		return nil
	})()
	if got := m.next(); !slices.Equal(got, []string{"READY=1", "WATCHDOG=1", "STATUS="}) {
		t.Fatalf("first message %q, want READY=1 with a sign of life", got)
	}
	for range 3 {
		if got := m.next(); !slices.Equal(got, []string{"WATCHDOG=1"}) {
			t.Fatalf("message %q, want WATCHDOG=1", got)
		}
	}
	down.Store(true)
	m.until("STATUS=does not respond: context deadline exceeded")
	if err := m.c.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := m.c.Read(make([]byte, 100)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v, want no message while the loop hangs", n, err)
	}
	down.Store(false)
	if got := m.next(); !slices.Equal(got, []string{"STATUS="}) {
		t.Fatalf("message %q, want an empty status", got)
	}
	if got := m.next(); !slices.Equal(got, []string{"WATCHDOG=1"}) {
		t.Errorf("message %q, want WATCHDOG=1", got)
	}
}

func TestReload(t *testing.T) {
	m := newManager(t, 0)
	n := take(t)
	n.Reloading()
	got := m.next()
	usec, found := strings.CutPrefix(got[len(got)-1], "MONOTONIC_USEC=")
	if at, err := strconv.ParseInt(usec, 10, 64); got[0] != "RELOADING=1" || !found || err != nil || at <= 0 {
		t.Fatalf("message %q, want RELOADING=1 and the monotonic time", got)
	}
	n.Rejected("weir.yaml:3: nats: " + strings.Repeat("x", 1000) + "\x1b[31m")
	status := m.next()
	if len(status) != 1 || len(status[0]) != len("STATUS=")+maxStatus || !strings.HasPrefix(status[0], "STATUS=weir.yaml:3: nats: xxx") {
		t.Fatalf("message %q, want a bounded status", status)
	}
	n.Reloaded()
	if got := m.next(); !slices.Equal(got, []string{"READY=1", status[0]}) {
		t.Errorf("message %q, want READY=1 and the status", got)
	}
}

// The reason stays while the daemon responds, and returns after it did not.
func TestReasonOfRejectionStays(t *testing.T) {
	m := newManager(t, 100*time.Millisecond)
	n := take(t)
	var down atomic.Bool
	n.Rejected("rejected early") // before the daemon is ready
	defer start(t, n, func(context.Context) error {
		if down.Load() {
			return errors.New("busy")
		}
		return nil
	})()
	m.until("STATUS=rejected early")
	if got := m.next(); !slices.Equal(got, []string{"READY=1", "WATCHDOG=1", "STATUS=rejected early"}) {
		t.Fatalf("first message of Run %q, want the reason", got)
	}
	n.Rejected("rejected")
	m.until("STATUS=rejected")
	for range 3 {
		if got := m.next(); !slices.Equal(got, []string{"WATCHDOG=1"}) {
			t.Fatalf("message %q, want WATCHDOG=1 alone", got)
		}
	}
	down.Store(true)
	m.until("STATUS=does not respond: busy")
	down.Store(false)
	if got := m.next(); !slices.Equal(got, []string{"STATUS=rejected"}) {
		t.Fatalf("message %q, want the reason again", got)
	}
	n.Rejected("")
	m.until("STATUS=")
	if got := m.next(); !slices.Equal(got, []string{"WATCHDOG=1"}) {
		t.Errorf("message %q, want WATCHDOG=1 alone", got)
	}
}

func TestChildrenDoNotInheritTheSocket(t *testing.T) {
	newManager(t, time.Second)
	if n := take(t); n.socket == "" || n.watchdog != time.Second {
		t.Fatalf("Take = %q, %v, want the socket and 1s", n.socket, n.watchdog)
	}
	for _, entry := range os.Environ() {
		if strings.HasPrefix(entry, "NOTIFY_SOCKET") || strings.HasPrefix(entry, "WATCHDOG_") {
			t.Errorf("the environment of children has %s", entry)
		}
	}
	if n := take(t); n.socket != "" || n.watchdog != 0 {
		t.Errorf("second Take = %q, %v, want no socket", n.socket, n.watchdog)
	}
}

func TestWithoutServiceManager(t *testing.T) {
	t.Setenv(variableSocket, "")
	n := take(t)
	n.Reloading()
	n.Rejected("why")
	n.Reloaded()
	start(t, n, func(context.Context) error { panic("alive is called without a service manager") })()
}

func TestVariablesOfSystemd(t *testing.T) {
	for name, test := range map[string]struct {
		socket, watchdog, pid string
		want                  time.Duration
		problem               string
	}{
		"no watchdog":           {"/run/systemd/notify", "", "", 0, ""},
		"abstract socket":       {"@notify", "30000000", "", 30 * time.Second, ""},
		"of another process":    {"/run/systemd/notify", "30000000", "1", 0, ""},
		"relative path":         {"notify", "", "", 0, "want the absolute path of a socket"},
		"@ alone":               {"@", "", "", 0, "want the absolute path of a socket"},
		"not a number":          {"/run/systemd/notify", "soon", "", 0, "want a number of microseconds"},
		"zero":                  {"/run/systemd/notify", "0", "", 0, "want a number of microseconds"},
		"negative":              {"/run/systemd/notify", "-5", "", 0, "want a number of microseconds"},
		"more than a day":       {"/run/systemd/notify", "9223372036854775807", "", 0, "want a number of microseconds"},
		"vsock, not supported":  {"vsock:2:1234", "", "", 0, "unset it to run without systemd"},
		"watchdog, pid garbage": {"/run/systemd/notify", "30000000", "x", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(variableSocket, test.socket)
			t.Setenv(variableWatchdog, test.watchdog)
			t.Setenv(variablePID, test.pid)
			n, err := Take()
			if test.problem != "" {
				if err == nil || !strings.Contains(err.Error(), test.problem) {
					t.Fatalf("Take = %v, want an error with %q", err, test.problem)
				}
				return
			}
			if err != nil || n.watchdog != test.want {
				t.Errorf("Take = %v, %v, want a watchdog of %v", n, err, test.want)
			}
		})
	}
}

func TestServiceManagerIsGone(t *testing.T) {
	t.Setenv(variableSocket, filepath.Join(t.TempDir(), "missing"))
	err := take(t).Run(t.Context(), func(context.Context) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "start the daemon by its systemd unit") {
		t.Errorf("Run = %v, want an error with a remedy", err)
	}
}
