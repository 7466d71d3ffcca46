package plugin

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"

	signalv1 "github.com/weirkeeper/weirkeeper/proto/signal/v1"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// Main is the body of a signal's main function. The command line arguments are NAMESPACE NAME APP. It serves s until
// SIGTERM, SIGINT or a shutdown request of its host. It exits as [signals.Main] does: 0 after one of these, 1 after an
// error, 2 for wrong arguments.
//
// Under bootstrap it sets the default logger of log/slog to one that the host reads.
func Main(s signals.Signal) {
	if !hosted() {
		signals.Main(s) // does not return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, s, os.Args, os.Stderr)
	stop()
	os.Exit(code)
}

// Serve is Main for a program with its own command line. It serves s according to config, under bootstrap as a
// go-plugin, until ctx ends or the host requests shutdown; neither is an error. Under bootstrap a logger to the host
// replaces config's logger and the default of log/slog. Call it once.
func Serve(ctx context.Context, s signals.Signal, config signals.ServeConfig) error {
	if !hosted() {
		return signals.Serve(ctx, s, config)
	}
	config.Log = newLog(os.Stderr)
	slog.SetDefault(config.Log)
	return serve(ctx, s, config)
}

// hosted reports whether this process was started as a go-plugin.
func hosted() bool { return os.Getenv(signalv1.CookieKey) == signalv1.CookieValue }

func run(ctx context.Context, s signals.Signal, args []string, stderr io.Writer) (exitCode int) {
	log := newLog(stderr)
	slog.SetDefault(log)
	if len(args) != 4 {
		log.Error("wrong number of arguments", "usage", filepath.Base(args[0])+" NAMESPACE NAME APP")
		return 2
	}
	config := signals.ServeConfig{Namespace: args[1], Name: args[2], App: args[3], Log: log}
	if err := config.Validate(); err != nil {
		log.Error("arguments", "err", err)
		return 2
	}
	if err := serve(ctx, s, config); err != nil {
		log.Error("signal ended", "err", err)
		return 1
	}
	return 0
}

// serve serves the signal's socket and the control connection until ctx ends or one of them does. The socket listens
// before the handshake is written, so a reader of the handshake can use it.
func serve(ctx context.Context, s signals.Signal, config signals.ServeConfig) error {
	if err := config.Validate(); err != nil {
		return err
	}
	build, _ := debug.ReadBuildInfo() // nil: built without modules
	answer, err := describe(s, build)
	if err != nil {
		return err
	}
	listener, err := sigproto.Listen(sigproto.Address(config.Namespace, config.Name, config.App))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	var errSocket error
	serving.Go(func() {
		defer cancel()
		errSocket = signals.ServeListener(ctx, s, listener, config)
	})
	errControl := serveControl(ctx, answer, os.Stdout)
	cancel()
	serving.Wait()
	if errSocket != nil {
		return errSocket
	}
	return errControl
}
