package supervise

import (
	"bufio"
	"bytes"
	"context"
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

	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// The test binary is also the keeper, by its first argument, and other processes, by an environment variable.
const (
	roleVariable    = "WEIR_TEST_ROLE"
	commandVariable = "WEIR_TEST_COMMAND"
	socketVariable  = "WEIR_TEST_SOCKET"
	markVariable    = "WEIR_TEST_MARK" // in all processes of a test
)

const self = "/proc/self/exe"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "keep" {
		exitWith(Keep(os.Stdin, os.Stdout))
	}
	switch os.Getenv(roleVariable) {
	case "":
		// With the race detector, every process waits a second before it ends.
		os.Setenv("GORACE", "atexit_sleep_ms=0")
		goleak.VerifyTestMain(m)
	case "hello":
		fmt.Println("hello from", os.Args[0])
	case "serve":
		exitWith(serveHello())
	case "leave":
		// It joins the group of its parent, so the group with its own number is empty.
		childEnd, err := syscall.Getpgid(os.Getppid())
		if err == nil {
			err = syscall.Setpgid(0, childEnd)
		}
		if err == nil {
			<-time.After(time.Hour)
		}
		exitWith(err)
	case "hide":
		exitWith(hide())
	case "supervise":
		exitWith(superviseCommand())
	}
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveHello listens on an abstract socket and sends a greeting on each connection.
func serveHello() error {
	listener, err := net.Listen("unix", os.Getenv(socketVariable))
	if err != nil {
		return err
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		fmt.Fprintln(conn, "hello")
		conn.Close()
	}
}

// probeHello returns a probe that expects the greeting of serveHello.
func probeHello(socket string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return err
		}
		defer conn.Close()
		if deadline, ok := ctx.Deadline(); ok {
			conn.SetDeadline(deadline)
		}
		_, err = bufio.NewReader(conn).ReadString('\n')
		return err
	}
}

// superviseCommand supervises one shell command until SIGTERM and prints its output. "inner: X" is another supervisor,
// of X. "churn: X" runs X four times, each restarted when it has ended. "other: X" runs X as otherUser. "detached: X" runs X
// detached, without output, and prints its identity.
func superviseCommand() error {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	launcher, err := NewLauncher(Config{KeeperArgv: []string{self, "keep"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { _ = launcher.Run(ctx) })

	command := os.Getenv(commandVariable)
	inner, isInner := strings.CutPrefix(command, "inner: ")
	churned, isChurn := strings.CutPrefix(command, "churn: ")
	others, isOther := strings.CutPrefix(command, "other: ")
	apart, isDetached := strings.CutPrefix(command, "detached: ")
	spec := Spec{Name: "child", Argv: []string{"/bin/sh", "-c", command}, Env: without(os.Environ(), roleVariable),
		Lines: func(_ string, line []byte) { fmt.Printf("%s\n", line) }}
	switch {
	case isInner:
		spec.Argv = []string{self}
		spec.Env = append(without(os.Environ(), commandVariable), commandVariable+"="+inner)
	case isOther:
		spec.Argv[2], spec.Isolated, spec.User = others, true, otherUser
	case isDetached:
		spec.Argv[2] = apart
		return printDetached(ctx, launcher, spec)
	case isChurn:
		spec.Argv[2] = churned
		for range 4 {
			running.Go(func() { churn(ctx, launcher, spec) })
		}
		<-ctx.Done()
		return nil
	}
	if _, err := launcher.Start(ctx, spec); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func churn(ctx context.Context, launcher *Launcher, spec Spec) {
	for {
		child, err := launcher.Start(ctx, spec)
		if err != nil {
			return
		}
		<-child.Done()
	}
}

func without(env []string, variable string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool { return strings.HasPrefix(e, variable+"=") })
}

// newLauncher returns a launcher that runs until the test ends.
func newLauncher(t testing.TB) *Launcher {
	t.Helper()
	launcher, stop := runLauncher(t)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("launcher's end: %v", err)
		}
	})
	return launcher
}

// runLauncher returns a running launcher, and a function that ends it and returns its error.
func runLauncher(t testing.TB) (*Launcher, func() error) {
	t.Helper()
	return runChanged(t, func(*Launcher) {})
}

// withoutCgroups changes a launcher as if the system had no cgroups.
func withoutCgroups(l *Launcher) { l.cgroup, l.noCgroup = "", errNoCgroup }

// runChanged is runLauncher for a launcher that change modifies before it runs.
func runChanged(t testing.TB, change func(*Launcher)) (*Launcher, func() error) {
	t.Helper()
	launcher, err := NewLauncher(Config{KeeperArgv: []string{self, "keep"}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	change(launcher)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- launcher.Run(ctx) }()
	return launcher, func() error { cancel(); return <-ended }
}

// listing collects output lines and notifies waiting callers.
type listing struct {
	mu    sync.Mutex
	lines []string
}

func (l *listing) add(_ string, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(line))
}

func (l *listing) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// shell returns a spec that runs a command, with the mark of the test.
func shell(command, mark string, lines *listing) Spec {
	return Spec{
		Name:  "shell",
		Argv:  []string{"/bin/sh", "-c", command},
		Env:   []string{"PATH=" + os.Getenv("PATH"), markVariable + "=" + mark},
		Lines: lines.add,
	}
}

func start(t testing.TB, l *Launcher, spec Spec) *Child {
	t.Helper()
	child, err := l.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return child
}

// awaitEnd waits until a child is done.
func awaitEnd(t testing.TB, c *Child) Exit {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(await.Patience):
		t.Fatalf("process %d has not ended after %v", c.PID(), await.Patience)
	}
	exit, _ := c.Exit()
	return exit
}

// newMark returns a mark for the processes of a test. At the end of the test it kills all of them.
func newMark(t testing.TB) string {
	mark := fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(t.Name(), "/", "-"), os.Getpid(), time.Now().UnixNano())
	t.Cleanup(func() {
		for _, pid := range marked(t, mark) {
			t.Errorf("process %d is left: %q", pid, commandLine(pid))
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return mark
}

// marked returns the live processes that carry a mark.
func marked(t testing.TB, mark string) []int {
	t.Helper()
	all, err := pids()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(pid int) bool {
		return !slices.ContainsFunc(bytes.Split(environOf(pid), []byte{0}), func(e []byte) bool {
			return string(e) == markVariable+"="+mark
		})
	})
}

// environOf returns the environment of a process, empty if it is dead. A process that executes another program has none for a
// moment.
func environOf(pid int) []byte {
	for range settleTries {
		environ, err := os.ReadFile(procPath(pid, "environ"))
		if err != nil || len(environ) > 0 {
			return environ
		}
		stat, err := os.ReadFile(procPath(pid, "stat"))
		if err != nil || hasNoEnviron(stat) {
			return nil
		}
		<-time.After(settlePause)
	}
	return nil
}

// lives reports whether a process is alive; a zombie is not.
func lives(pid int) bool {
	e, err := readEntry(pid)
	return err == nil && !e.dead
}

func commandLine(pid int) string {
	line, _ := os.ReadFile(procPath(pid, "cmdline"))
	return string(bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '}))
}
