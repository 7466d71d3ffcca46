package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/weirkeeper/weirkeeper/bootstrap/supervise"
	"github.com/weirkeeper/weirkeeper/internal/command"
)

// WithLauncher runs f with a launcher that ends after it.
func WithLauncher(ctx context.Context, log *slog.Logger, f func(context.Context, *supervise.Launcher) error) error {
	launcher, err := supervise.NewLauncher(supervise.Config{KeeperArgv: command.KeeperArgv(), Log: log})
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
