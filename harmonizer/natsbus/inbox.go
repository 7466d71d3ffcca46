package natsbus

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

const (
	// heardMessages and heardBytes bound what waits to be taken: all nodes of a
	// large cluster may speak at once. More is dropped, and counted.
	heardMessages = 1 << 16
	heardBytes    = 256 << 20
	// askedMessages and askedBytes are the same of requests.
	askedMessages = 1 << 12
	askedBytes    = 16 << 20
	// arrivals is how many messages the client library may be ahead of us.
	arrivals = 1 << 12
)

// inbox is one queue for several subscriptions, in the order of arrival, which
// is that of their senders.
type inbox struct {
	arrived  chan *nats.Msg // from the client library, which knows no bound of bytes
	messages chan *nats.Msg // to be taken with take
	limit    int64          // bytes in messages
	bytes    atomic.Int64
	over     atomic.Int64 // dropped here
	subs     []*nats.Subscription
}

// newInbox subscribes to the subjects. The caller lets the inbox pump, and closes it
// after an error too.
func newInbox(nc *nats.Conn, messages, limit int, subjects ...string) (*inbox, error) {
	in := &inbox{arrived: make(chan *nats.Msg, arrivals), messages: make(chan *nats.Msg, messages), limit: int64(limit)}
	for _, subject := range subjects {
		sub, err := nc.ChanSubscribe(subject, in.arrived)
		if err != nil {
			return in, fmt.Errorf("subscribe to %s: %w", subject, err)
		}
		in.subs = append(in.subs, sub)
	}
	return in, nil
}

// pump takes what arrives off the client library at once, until ctx ends.
func (in *inbox) pump(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-in.arrived:
			in.put(m)
		}
	}
}

func (in *inbox) put(m *nats.Msg) {
	size := int64(len(m.Data))
	if in.bytes.Add(size) > in.limit {
		in.bytes.Add(-size)
		in.over.Add(1)
		return
	}
	select {
	case in.messages <- m:
	default:
		in.bytes.Add(-size)
		in.over.Add(1)
	}
}

// took is told of each message that came out of messages.
func (in *inbox) took(m *nats.Msg) { in.bytes.Add(-int64(len(m.Data))) }

func (in *inbox) dropped() int64 {
	sum := in.over.Load()
	for _, s := range in.subs {
		if n, err := s.Dropped(); err == nil {
			sum += int64(n)
		}
	}
	return sum
}

func (in *inbox) close() {
	for _, s := range in.subs {
		_ = s.Unsubscribe() // fails only on a connection that is gone
	}
}
