package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
)

// Bounds of the difference between two clocks. AWS rejects requests beyond five minutes, and certificates, users and
// orders end by the clock.
const (
	SkewWarned = time.Second
	SkewFailed = 10 * time.Second
)

// SkewRemedy is what to do about clocks that differ.
const SkewRemedy = "synchronize the clocks of both hosts (chrony, or systemd-timesyncd)"

// Clock returns how far the clock of the connected server is ahead of this host's, and how long the answer took. The role
// of the connection needs the permission of Report, and its inbox.
func Clock(ctx context.Context, nc *nats.Conn) (ahead, within time.Duration, err error) {
	before := time.Now()
	r, err := (&Bus{conn: nc}).Report(ctx)
	after := time.Now()
	if err != nil {
		return 0, 0, err
	}
	return Skew(before, after, r.Time), after.Sub(before), nil
}

// Skew returns how far a server's clock is ahead of this host's, for an answer between two times. It is 0 if the
// server's time is between them.
func Skew(before, after, server time.Time) time.Duration {
	// The wall clock is compared, and not the monotonic one.
	before, after = before.Round(0), after.Round(0)
	switch {
	case server.Before(before):
		return server.Sub(before)
	case server.After(after):
		return server.Sub(after)
	}
	return 0
}
