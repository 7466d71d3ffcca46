package natsbus

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

const (
	// eventMessages and eventBytes bound the waiting messages of nodes: all nodes of a large
	// cluster may send at once. More messages are counted and dropped.
	eventMessages = 1 << 16
	eventBytes    = 256 << 20
	// requestMessages and requestBytes bound the waiting requests.
	requestMessages = 1 << 12
	requestBytes    = 16 << 20
	// arrivals bounds the messages between the client library and pump.
	arrivals = 1 << 12
)

// inbox is one queue for several subscriptions. It keeps the order of arrival, which is the
// order of each sender.
type inbox struct {
	arrived  chan *nats.Msg // from the client library, which has no bound in bytes
	messages chan *nats.Msg // the caller calls took for each message
	limit    int64          // bytes in messages
	bytes    atomic.Int64
	over     atomic.Int64 // number of messages dropped here
	subs     []*nats.Subscription
}

// newInbox subscribes to the subjects. The caller runs pump, and calls close, even after an
// error.
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

// pump moves arriving messages into the queue until ctx ends.
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

// took must be called for each message received from messages.
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
		_ = s.Unsubscribe() // fails only if the connection is closed
	}
}
