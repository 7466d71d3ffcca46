// Package localtest has the shared test support of the local pool: a bus, a launcher, and a test
// binary that is also an agent, an owner and a keeper.
//
// TestMain calls [Main], so that the child processes of a test run the right part. [NewBus]
// starts a server, and [StartOwner] a pool of machines on it. The cleanup of the test stops all
// processes. Tests may run several pools concurrently.
package localtest

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/smalldisk"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/pools/local"
)

// WaitLimit is the time limit of every wait in a test.
const WaitLimit = await.Patience

// busFolder is the variable with the folder of a child's bus.
const busFolder = "WEIR_TEST_BUS"

// AgentArgv is the command that runs the test binary as an agent. Flags follow it.
func AgentArgv() []string { return []string{"/proc/self/exe", "agent"} }

// MachineArgv is AgentArgv without the race detector, for tests of the owner of many agents.
func MachineArgv() []string {
	return []string{testprograms.Plain("pools/local", "/proc/self/exe"), "agent"}
}

// Main runs the tests, or the program that the arguments select.
func Main(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "keep" {
		exit(supervise.Keep(os.Stdin, os.Stdout))
	}
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		exit(runAgent(os.Args[2:]))
	}
	if len(os.Args) > 2 && os.Args[1] == "owner" {
		exit(runOwner(os.Args[2]))
	}
	if _, err := smalldisk.Mount(); err != nil {
		exit(err)
	}
	// With the race detector each process would sleep for a second at its exit.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		exit(err)
	}
	goleak.VerifyTestMain(m)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runAgent(args []string) error {
	var cfg agent.Config
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	cfg.Bind(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	return onBus(cfg.ID, func(ctx context.Context, nc *nats.Conn, l *supervise.Launcher, log *slog.Logger) error {
		a, err := agent.New(cfg, nc, l, log)
		if err != nil {
			return err
		}
		return a.Run(ctx)
	})
}

func runOwner(config string) error {
	var cfg local.Config
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		return err
	}
	cfg.Env = os.Environ()
	return onBus("owner", func(ctx context.Context, nc *nats.Conn, l *supervise.Launcher, log *slog.Logger) error {
		p, err := local.NewProvider(cfg, nc, l, log)
		if err != nil {
			return err
		}
		return p.Run(ctx)
	})
}

// onBus connects to the bus, runs a launcher, and calls run until SIGTERM.
func onBus(name string, run func(context.Context, *nats.Conn, *supervise.Launcher, *slog.Logger) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	b, err := bus.Find(ctx, bus.Config{Data: os.Getenv(busFolder), Name: name, Log: log})
	if err != nil {
		return err
	}
	defer b.Close()
	launcher, err := newLauncher(log)
	if err != nil {
		return err
	}
	launching, end := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer end()
	wg.Go(func() { _ = launcher.Run(launching) }) // its error is also returned by every start
	return run(ctx, b.Conn(), launcher, log)
}

// StartOwner runs an owner as a separate process. kill kills it and waits, as does the end of the
// test.
func StartOwner(t testing.TB, b Bus, cfg local.Config) (kill func()) {
	t.Helper()
	cfg.Env = nil // the owner uses its own environment
	config, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "owner", string(config))
	cmd.Env, cmd.Stderr = b.Env(), t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // returns that it was killed
	})
	t.Cleanup(kill)
	return kill
}

func newLauncher(log *slog.Logger) (*supervise.Launcher, error) {
	return supervise.NewLauncher(supervise.Config{KeeperArgv: []string{"/proc/self/exe", "keep"}, Log: log})
}

// Bus is a bus for one test.
type Bus struct {
	*nats.Conn
	folder string
}

// Env returns the environment with which an agent finds the bus.
func (b Bus) Env() []string { return append(os.Environ(), busFolder+"="+b.folder) }

// NewBus starts a bus. It ends with the test.
func NewBus(t testing.TB) Bus {
	t.Helper()
	folder := t.TempDir()
	b, err := bus.Open(t.Context(), bus.Config{Data: folder, Name: "test", Log: Log(t), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return Bus{b.Conn(), folder}
}

// NewLauncher runs a launcher until the test ends.
func NewLauncher(t testing.TB) *supervise.Launcher {
	t.Helper()
	l, err := newLauncher(Log(t))
	if err != nil {
		t.Fatal(err)
	}
	Run(t, l.Run)
	return l
}

// Run calls run until the returned function ends it and waits. The end of the test does the same.
// An error fails the test.
func Run(t testing.TB, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(WaitLimit):
			t.Error("Run does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// Until repeats ok until it returns true.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	await.True(t, what, ok)
}

// Log returns a logger that writes to the test.
func Log(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}
