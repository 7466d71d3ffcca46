package daemon

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

const (
	openRetry  = time.Second      // between two attempts to open stored state
	openLogged = 30 * time.Second // between two log lines about failed attempts
)

// WaitForState calls open until it succeeds or ctx ends, while its error is that of an unavailable NATS: no quorum, no
// answer, too few servers. Servers that start together elect leaders for seconds. Any other error is returned at once.
// waits receives the error of each failed attempt; it may be nil.
func WaitForState(ctx context.Context, log *slog.Logger, waits func(error), open func(context.Context) error) error {
	retried := rate.Sometimes{First: 1, Interval: openLogged}
	for {
		err := open(ctx)
		if err == nil || !kvbucket.Unavailable(err) || ctx.Err() != nil {
			return err
		}
		if waits != nil {
			waits(err)
		}
		retried.Do(func() { log.Warn("stored state not available, waiting", "err", err) })
		if !retry.Pause(ctx, openRetry) {
			return err
		}
	}
}
