package bus

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
)

// Chunks receives the snapshot of one stream, which a server sends at the request of an admin. These messages are the
// server's own, so Inbox would refuse them. It is for one goroutine.
type Chunks struct {
	nc     *nats.Conn
	sub    *nats.Subscription
	stream string
}

// ReceiveChunks subscribes to a new subject for the chunks of a stream.
func ReceiveChunks(nc *nats.Conn, stream string) (*Chunks, error) {
	sub, err := nc.SubscribeSync(nc.NewInbox())
	return &Chunks{nc, sub, stream}, err
}

// Subject is the subject that the request for the snapshot names.
func (c *Chunks) Subject() string { return c.sub.Subject }

// Next returns the next chunk, and acknowledges it: then the server sends more. At the end it returns nil. A message that
// another client made the server send is an error.
func (c *Chunks) Next(ctx context.Context) ([]byte, error) {
	m, err := c.sub.NextMsgWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for a part of the snapshot: %w", err)
	}
	if len(m.Data) == 0 {
		if status := m.Header.Get("Status"); status != "" && status != "204" {
			return nil, fmt.Errorf("the server ended the snapshot: %s %s", status, m.Header.Get("Description"))
		}
		return nil, nil
	}
	if len(m.Header) > 0 || m.Reply != "" && !strings.HasPrefix(m.Reply, "$JS.SNAPSHOT.ACK."+c.stream+".") {
		return nil, fmt.Errorf("%w: it is no part of the snapshot of %s", ErrNotGenuine, c.stream)
	}
	if m.Reply != "" {
		err = c.nc.Publish(m.Reply, nil)
	}
	return m.Data, err
}

// Close ends the subscription.
func (c *Chunks) Close() { _ = c.sub.Unsubscribe() } // fails if the connection has ended
