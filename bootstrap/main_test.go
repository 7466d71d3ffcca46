package bootstrap_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/plugin"
)

// The test binary is also every process that a bootstrap starts, by its first argument, and a bootstrap that a test can
// kill.
const (
	asKeeper     = "keeper"
	asSignal     = "signal" // NAMESPACE NAME APP
	asAutoscaler = "autoscaler"
	asBootstrap  = "bootstrap"
)

// Names of signals with special behaviour. All others answer.
const (
	gated        = "gated" // listens after the gate is opened
	neverListens = "mute"  // never listens

	plugged          = "plugged"  // a plugin
	invalidHandshake = "babbler"  // prints an invalid handshake and never listens
	foreign          = "stranger" // a plugin with another protocol
	changeable       = "moody"    // misbehaves on request, see changeable_test.go
)

// Environment of these processes.
const (
	markVariable     = "WEIR_TEST_MARK"     // in all processes of a test
	gateVariable     = "WEIR_TEST_GATE"     // socket of a gate
	arrivalsVariable = "WEIR_TEST_ARRIVALS" // socket for the streams of autoscalers

	behaviourVariable = "WEIR_TEST_BEHAVIOUR" // of a release, see behaviour_test.go
)

const self = "/proc/self/exe"

func TestMain(m *testing.M) {
	s3test.RunIfChild()
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case asKeeper:
			exitWith(supervise.Keep(os.Stdin, os.Stdout))
		case asSignal:
			exitWith(runSignal(os.Args[2], os.Args[3], os.Args[4]))
		case asAutoscaler:
			exitWith(runAutoscaler())
		case asBootstrap:
			exitWith(runBootstrap())
		}
	}
	// With the race detector, every process waits a second before it ends.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	goleak.VerifyTestMain(m)
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// untilSIGTERM returns a context that ends with SIGTERM.
func untilSIGTERM() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM)
}

func runSignal(namespace, name, app string) error {
	ctx, stop := untilSIGTERM()
	defer stop()
	switch name {
	case invalidHandshake:
		fmt.Println("hello, world")
		<-ctx.Done()
		return nil
	case foreign:
		fmt.Println("1|99|unix|/tmp/plugin|grpc|")
		<-ctx.Done()
		return nil
	case neverListens:
		<-ctx.Done()
		return nil
	case plugged:
		os.Args = append(os.Args[:1], os.Args[2:]...)
		plugin.Main(constant(os.Getenv(behaviourVariable))) // does not return
	case changeable:
		return serveChangeable(ctx, signals.ServeConfig{Namespace: namespace, Name: name, App: app, Log: slog.New(slog.DiscardHandler)})
	case gated:
		if err := passGate(); err != nil {
			return err
		}
	}
	return runBehaviour(ctx, os.Getenv(behaviourVariable), signals.ServeConfig{Namespace: namespace, Name: name, App: app, Log: slog.New(slog.DiscardHandler)})
}

// passGate waits for the byte that a gate sends.
func passGate() error {
	conn, err := net.Dial("unix", os.Getenv(gateVariable))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}

// runAutoscaler sends its end of the directory to the test, and waits.
func runAutoscaler() error {
	ctx, stop := untilSIGTERM()
	defer stop()
	conn, err := net.Dial("unix", os.Getenv(arrivalsVariable))
	if err != nil {
		return err
	}
	defer conn.Close()
	directory := unix.UnixRights(supervise.FirstExtraFD)
	if _, _, err := conn.(*net.UnixConn).WriteMsgUnix(fmt.Append(nil, os.Getpid()), directory, nil); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// runBootstrap runs a pool's bootstrap, with working signals, in a process.
func runBootstrap() error {
	ctx, stop := untilSIGTERM()
	defer stop()
	launcher, err := supervise.NewLauncher(supervise.Config{KeeperArgv: []string{self, asKeeper}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- launcher.Run(ctx) }()
	b, err := newBootstrap(launcher, planOf("killed"), noReleases{}, func(*bootstrap.Config) {})
	if err != nil {
		return err
	}
	return errors.Join(b.Run(ctx), <-ended)
}
