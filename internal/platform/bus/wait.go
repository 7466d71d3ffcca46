package bus

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

// reach is dial, repeated with Config.Wait until a server is reached.
func (c Config) reach(ctx context.Context) (*Bus, error) {
	retried := rate.Sometimes{First: 1, Interval: retryLogged}
	for {
		b, err := c.dial(ctx)
		if err == nil || !c.Wait || !unreached(err) || ctx.Err() != nil {
			return b, err
		}
		if c.Waiting != nil {
			c.Waiting(err)
		}
		retried.Do(func() { c.Log.Warn("bus not reached, waiting", "err", err) })
		if !retry.Pause(ctx, c.wait()) {
			return nil, err
		}
	}
}

// unreached reports whether no server was reached, or none was ready. Time may fix that. It does not fix credentials or
// certificates that a server rejects.
func unreached(err error) bool {
	if text := err.Error(); strings.Contains(text, "tls:") || strings.Contains(text, "x509:") {
		return false
	}
	cause, network := errors.AsType[net.Error](err)
	if _, file := cause.(syscall.Errno); file { // a connection has a *net.OpError around it
		return false
	}
	return network || errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, io.EOF) || unanswered(err)
}
