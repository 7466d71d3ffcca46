package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
)

// clockEvery is the time between two comparisons of the clocks.
const clockEvery = time.Minute

// Clock returns the check of this host's clock beside that of the connected NATS server, compared once a minute. A
// difference is degraded and logged once: leases do not use the wall clock, and AWS, certificates and users do.
func Clock(nc *nats.Conn, log *slog.Logger) Check {
	c := &clock{read: func(ctx context.Context) (time.Duration, error) {
		ahead, _, err := bus.Clock(ctx, nc)
		return ahead, err
	}, log: log}
	return Check{Name: "clock", Read: func(ctx context.Context) Result { return c.check(ctx, time.Now()) }}
}

// clock compares clocks. It has one caller at a time.
type clock struct {
	read func(ctx context.Context) (ahead time.Duration, err error)
	log  *slog.Logger
	next time.Time // of the next comparison, with a monotonic reading
	last Result
	// differs: the last comparison found a difference, which is logged.
	differs bool
}

// check returns the result of the last comparison, after a new one if it is due.
func (c *clock) check(ctx context.Context, now time.Time) Result {
	if now.Before(c.next) {
		return c.last
	}
	ahead, err := c.read(ctx)
	switch c.last = ofClock(ahead, err); {
	case err != nil && !errors.Is(err, nats.ErrPermissionViolation):
		return c.last // again at the next reading
	case c.last.State == Degraded && !c.differs:
		c.log.Warn("clock differs from that of the NATS server", "ahead", (-ahead).Seconds(), "remedy", bus.SkewRemedy)
	}
	c.differs, c.next = c.last.State == Degraded, now.Add(clockEvery)
	return c.last
}

// ofClock returns the result of a comparison. An unknown clock does not end the readiness.
func ofClock(ahead time.Duration, err error) Result {
	side, by := "ahead of", ahead.Abs().Round(time.Millisecond)
	if ahead < 0 {
		side = "behind"
	}
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		return Result{State: OK, Detail: "not compared: the NATS servers do not permit this user to read their clock"}
	case err != nil:
		return Result{State: Degraded, Detail: fmt.Sprintf("not compared: %v", err), Remedy: "check the NATS servers; run \"weir doctor\""}
	case by >= bus.SkewWarned:
		return Result{State: Degraded, Detail: fmt.Sprintf("the clock of the NATS server is %v %s that of this host", by, side), Remedy: bus.SkewRemedy}
	}
	return Result{State: OK, Detail: fmt.Sprintf("that of the NATS server, within %v", bus.SkewWarned)}
}
