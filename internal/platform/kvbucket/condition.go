package kvbucket

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrUnreachable: this process has no connection to a NATS server.
var ErrUnreachable = errors.New("no NATS server is reached: check the servers and the network")

// Condition is what the bus permits the owner of a bucket now.
type Condition struct {
	Err     error     // nil: they can read and write their state
	Since   time.Time // of Err: the last write, by the server's clock; zero: unknown
	Created time.Time // of the bucket of state, by its server; zero: unknown
	// Replicas is the configured number of the bucket's replicas; 0: unknown.
	Replicas int
}

// Observe requests the info of a daemon's bucket, within a few seconds.
func Observe(ctx context.Context, js jetstream.JetStream, bucket string) Condition {
	stream, err := Check(ctx, js, bucket)
	c := Condition{Err: err}
	if err != nil && !js.Conn().IsConnected() {
		c.Err = fmt.Errorf("%w (%w)", ErrUnreachable, cmp.Or(js.Conn().LastError(), nats.ErrConnectionReconnecting))
	}
	if stream == nil {
		return c
	}
	c.Created, c.Replicas = stream.CachedInfo().Created, stream.CachedInfo().Config.Replicas
	if errors.Is(err, ErrNoQuorum) {
		c.Since = stream.CachedInfo().State.LastTime // a daemon renews its lease each few seconds
	}
	return c
}

// String returns the problem, since when, what follows and what an operator does, in one line. Without a problem it is
// empty.
func (c Condition) String() string {
	if c.Err == nil {
		return ""
	}
	text := c.Err.Error()
	if !c.Since.IsZero() {
		text += "; the last write was at " + c.Since.Format(time.RFC3339)
	}
	return text + "; " + c.Effect()
}

// Effect returns what follows from the problem; empty without one.
func (c Condition) Effect() string {
	const nothing = "until then nothing is scaled, repaired or placed, and machines and instances run on"
	switch {
	case c.Err == nil:
		return ""
	case errors.Is(c.Err, ErrNoPermission):
		return "so it is unknown whether the daemons can write their state"
	case errors.Is(c.Err, ErrMissing):
		return "if it was there before, its state is lost, and no pool shrinks at first; " + nothing
	case errors.Is(c.Err, ErrNoQuorum):
		return nothing + "; values below may be old"
	case errors.Is(c.Err, ErrUnreachable):
		return nothing
	case errors.Is(c.Err, ErrNoAnswer):
		return "a leader may be in election, which takes up to 10 s; if this lasts, run \"weir doctor\"; " + nothing
	}
	return "run \"weir doctor\"; " + nothing
}
