package notify

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

const (
	firstReopen   = time.Second // after the first failure to read a consumer
	longestReopen = 30 * time.Second
	heartbeat     = 3 * time.Second // of the server; without two of them the consumer is lost
	giveBackWait  = time.Second     // for the end of a subscription

	// AckWait is the time for one message of a consumer. Then it goes to another process.
	AckWait = 30 * time.Second
)

// Open opens a durable consumer with at most one unacknowledged message.
type Open func(context.Context) (jetstream.Consumer, error)

// Follow passes the messages of a consumer to handle, one at a time, until ctx ends. It opens the consumer again after a
// failure, and reports each failure, and nil when the consumer is open. handle acknowledges the message.
func Follow(ctx context.Context, open Open, report func(error), handle func(context.Context, jetstream.Msg)) {
	pauses := retry.Policy{First: firstReopen, Longest: longestReopen}.Pauses()
	for {
		c, err := open(ctx)
		if err == nil {
			report(nil)
			pauses.Reset()
			err = follow(ctx, c, handle)
		}
		if ctx.Err() != nil {
			return
		}
		report(err)
		again := time.NewTimer(pauses.NextBackOff())
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return
		}
	}
}

// follow returns the error that ends the messages.
func follow(ctx context.Context, c jetstream.Consumer, handle func(context.Context, jetstream.Msg)) error {
	messages, err := c.Messages(jetstream.PullMaxMessages(1), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return err
	}
	defer giveBack(messages)
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		handle(ctx, m)
	}
}

// giveBack ends the messages. One that has arrived goes to the next process at once, and not after AckWait.
func giveBack(messages jetstream.MessagesContext) {
	messages.Drain()
	for {
		m, err := messages.Next(jetstream.NextMaxWait(giveBackWait))
		if err != nil || m.Nak() != nil {
			return
		}
	}
}
