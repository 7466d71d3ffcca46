package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
)

// KeeperArgv returns the command line of a process keeper. program is weir, as in Settings.
func KeeperArgv(program string) []string { return []string{program, "keep"} }

// WithLauncher calls f with a launcher that it ends afterwards. program is weir, as in Settings.
func WithLauncher(ctx context.Context, program string, log *slog.Logger, f func(context.Context, *supervise.Launcher) error) error {
	launcher, err := supervise.NewLauncher(supervise.Config{KeeperArgv: KeeperArgv(program), Log: log})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	var errLauncher error
	wg.Go(func() { errLauncher = launcher.Run(running) })
	err = f(ctx, launcher)
	stop()
	wg.Wait()
	return errors.Join(err, errLauncher)
}
