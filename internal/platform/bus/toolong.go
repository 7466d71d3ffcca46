package bus

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// TooLongError is the error of a message that is longer than the connected server accepts. It wraps nats.ErrMaxPayload. The check
// of the bus names it for a minute.
type TooLongError struct {
	Subject string // of the message, or of the request that it answers
	Bytes   int    // without headers
	Most    int64  // bytes that the server accepts
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("message of %d bytes for %s: NATS accepts %d with headers: raise max_payload of its servers and accounts", e.Bytes, e.Subject, e.Most)
}

// Unwrap returns nats.ErrMaxPayload.
func (e *TooLongError) Unwrap() error { return nats.ErrMaxPayload }

// unsent returns the error of a message in words for an operator. It reports one that is too long.
func unsent(nc *nats.Conn, subject string, m *nats.Msg, err error) error {
	if !errors.Is(err, nats.ErrMaxPayload) {
		return offline(err)
	}
	long := &TooLongError{subject, len(m.Data), nc.MaxPayload()}
	if c, ok := nc.Opts.CustomDialer.(*client); ok {
		c.denied.mu.Lock()
		defer c.denied.mu.Unlock()
		if n := c.denied.keepLocked(&c.denied.publishes, subject, long, time.Now()); n > 0 {
			c.config.Log.Warn("bus message too long", "times", n, "err", long)
		}
	}
	return long
}

// short reports whether messages of the last minute were too long, which a new connection may accept.
func (d *denials) short(now time.Time) bool {
	_, publishes := d.refused(now)
	for _, err := range publishes {
		if _, long := errors.AsType[*TooLongError](err); long {
			return true
		}
	}
	return false
}
