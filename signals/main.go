package signals

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Main is the body of a signal's main function. The command line arguments are NAMESPACE NAME APP. It serves s until
// SIGTERM or SIGINT, logs to standard error and exits: 0 after one of these signals, 1 after an error, 2 for wrong
// arguments.
func Main(s Signal) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, s, os.Args, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, s Signal, args []string, stderr io.Writer) (exitCode int) {
	if len(args) != 4 {
		fmt.Fprintf(stderr, "usage: %s NAMESPACE NAME APP\n", filepath.Base(args[0]))
		return 2
	}
	config := ServeConfig{Namespace: args[1], Name: args[2], App: args[3], Log: slog.New(slog.NewTextHandler(stderr, nil))}
	if err := config.Validate(); err != nil {
		fmt.Fprintln(stderr, err)
		return 2
	}
	if err := Serve(ctx, s, config); err != nil {
		config.Log.Error("signal ended", "err", err)
		return 1
	}
	return 0
}
