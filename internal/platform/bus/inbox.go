package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"
)

// ErrInboxFull is the error of a message that exceeds the bounds of an Inbox.
var ErrInboxFull = errors.New("too many messages wait")

// arrivals bounds the messages between the client library and an Inbox: 0.8 s of 80,000 messages a second.
const arrivals = 1 << 16

// InboxConfig has the subjects and the bounds of an Inbox.
type InboxConfig struct {
	Events   []string // subjects that need no reply
	Requests []string // subjects of requests: messages without a reply subject are refused
	Messages int      // at most so many wait; at least 1
	Bytes    int      // at most so many bytes wait; 0: unlimited
	Senders  *Senders // bounds of each sender; nil: none
	// Lost, if set, is called for each message that is not delivered. The error wraps ErrNotGenuine, ErrNoReply,
	// ErrTooLarge or ErrInboxFull. Calls come one at a time from another goroutine. Without Lost the inbox logs to Log, at most once a
	// minute.
	Lost func(m *nats.Msg, err error)
	Log  *slog.Logger
}

// Inbox receives the messages of several subjects in their order of arrival. It is the only way to subscribe, because
// it refuses what the server was made to send: see checkGenuine. Open one with Receive.
type Inbox struct {
	c        InboxConfig
	nc       *nats.Conn
	arrived  chan *nats.Msg // from the client library
	messages chan *nats.Msg // to the caller
	subs     []*nats.Subscription
	drained  chan struct{} // closed by Drain: only what has arrived is left
	closed   chan struct{} // closed by Close
	closing  sync.Once
	pumping  sync.WaitGroup

	load              waitingLoad // used only by pump
	losers            losers
	reported          map[string]LostOfSender // as of the latest call of Losses
	refused, overflow atomic.Uint64
	limited           atomic.Uint64
	logs              rate.Sometimes // used only by pump
}

// Receive subscribes to the subjects of c. The caller calls Close.
func Receive(nc *nats.Conn, c InboxConfig) (*Inbox, error) {
	in := &Inbox{
		c: c, nc: nc, arrived: make(chan *nats.Msg, arrivals), messages: make(chan *nats.Msg),
		drained: make(chan struct{}), closed: make(chan struct{}), logs: rate.Sometimes{Interval: time.Minute},
		load: waitingLoad{most: load{c.Messages, c.Bytes}, of: c.Senders, each: map[string]load{}},
	}
	for _, subjects := range [][]string{c.Events, c.Requests} {
		for _, subject := range subjects {
			sub, err := nc.ChanSubscribe(subject, in.arrived)
			if err != nil {
				in.Close()
				return nil, fmt.Errorf("subscribe to %s: %w", subject, err)
			}
			in.subs = append(in.subs, sub)
		}
	}
	in.pumping.Go(in.pump)
	return in, nil
}

// Messages returns the channel of the received messages. It is closed after Close, and after the last message if Drain
// was called.
func (in *Inbox) Messages() <-chan *nats.Msg { return in.messages }

// Refused returns the number of refused messages.
func (in *Inbox) Refused() uint64 { return in.refused.Load() }

// Losers returns the senders that lost messages in the last 30 s, those with the most losses first.
func (in *Inbox) Losers() []LostOfSender { return in.losers.now(time.Now()) }

// Losses returns the senders that lost messages since the last call, with the number that they lost since then. One goroutine calls it.
func (in *Inbox) Losses() (all []LostOfSender) {
	was := in.reported
	in.reported = map[string]LostOfSender{}
	for _, one := range in.Losers() {
		in.reported[one.Sender] = one
		if before := was[one.Sender]; before.Since.Equal(one.Since) {
			one.Lost -= before.Lost
		}
		if one.Lost > 0 {
			all = append(all, one)
		}
	}
	return all
}

// ReportLosses publishes the Losses on a subject until ctx ends, as JSON of what encode returns: one message for each sender, and at
// most 20 a second. A message that is not sent is not repeated.
func (in *Inbox) ReportLosses(ctx context.Context, subject string, encode func(LostOfSender) any) {
	const every, most = time.Second, 20
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-in.closed:
			return
		case <-ticker.C:
		}
		all := in.Losses()
		for _, one := range all[:min(len(all), most)] {
			data, err := json.Marshal(encode(one))
			if err == nil {
				err = Publish(in.nc, subject, data)
			}
			if err != nil && in.c.Log != nil {
				in.c.Log.Warn("loud sender not reported", "sender", one.Sender, "err", err)
			}
		}
	}
}

// Dropped returns the number of messages that came faster than the caller processed them, without those of Limited.
func (in *Inbox) Dropped() uint64 {
	sum := in.overflow.Load()
	for _, s := range in.subs {
		if n, err := s.Dropped(); err == nil {
			sum += uint64(n)
		}
	}
	return sum
}

// Close unsubscribes and drops the waiting messages. Repeated calls do nothing.
func (in *Inbox) Close() {
	in.closing.Do(func() {
		for _, s := range in.subs {
			_ = s.Unsubscribe() // fails only if the connection is closed
		}
		close(in.closed)
	})
	in.pumping.Wait()
}

// Drain unsubscribes, and waits for the messages that are on their way until ctx ends. The inbox still delivers them
// and all waiting messages, and then closes the channel. Call Drain once.
func (in *Inbox) Drain(ctx context.Context) error {
	defer close(in.drained)
	for _, s := range in.subs {
		if err := s.Drain(); err != nil {
			return fmt.Errorf("unsubscribe from %s: %w", s.Subject, err)
		}
	}
	if err := in.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush subscriptions: %w", err)
	}
	return nil
}

// pump checks and queues arriving messages.
func (in *Inbox) pump() {
	defer close(in.messages)
	var waiting []*nats.Msg
	take := func(m *nats.Msg) {
		if in.accepts(m) {
			waiting = append(waiting, m)
		}
	}
	drained := in.drained
	for {
		var out chan<- *nats.Msg
		var next *nats.Msg
		if len(waiting) > 0 {
			out, next = in.messages, waiting[0]
		} else if drained == nil && len(in.arrived) == 0 {
			return
		}
		select {
		case <-in.closed:
			return
		case <-drained:
			drained = nil
		case m := <-in.arrived:
			take(m)
			for range len(in.arrived) { // faster than one select for each: only a full channel loses messages of all senders
				take(<-in.arrived)
			}
		case out <- next:
			waiting[0] = nil
			waiting = waiting[1:]
			in.load.remove(in.load.sender(next.Subject), len(next.Data))
		}
	}
}

// accepts counts the message as waiting, and reports whether it is delivered.
func (in *Inbox) accepts(m *nats.Msg) bool {
	err := checkGenuine(m)
	if err == nil && m.Reply == "" && slices.Contains(in.c.Requests, m.Sub.Subject) {
		err = ErrNoReply
	}
	counter := &in.refused
	if err == nil {
		sender := in.load.sender(m.Subject)
		if err = in.load.add(sender, len(m.Data)); err == nil {
			return true
		}
		if counter = &in.overflow; sender != "" && (errors.Is(err, ErrTooLarge) || in.load.each[sender].messages > 0) {
			counter = &in.limited
			if in.losers.add(time.Now(), sender) && in.c.Log != nil {
				in.c.Log.Warn("sender loses its own messages: it sends too many, or too large ones", "sender", sender, "subject", m.Subject, "err", err)
			}
		}
	}
	n := counter.Add(1)
	if in.c.Lost != nil {
		in.c.Lost(m, err)
	} else if in.c.Log != nil {
		in.logs.Do(func() { in.c.Log.Warn("message refused", "subject", m.Subject, "so_far", n, "err", err) })
	}
	return false
}

// Replies sends a request that may have several replies, and passes each to take until take returns false or an error,
// or ctx ends. If the subject has no subscriber, the error is nats.ErrNoResponders.
func Replies(ctx context.Context, nc *nats.Conn, subject string, data []byte, take func(*nats.Msg) (more bool, err error)) error {
	inbox := nc.NewRespInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", inbox, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	ctx, done := watchViolations(ctx, nc, subject)
	defer done()
	if err := nc.PublishRequest(subject, inbox, data); err != nil {
		return fmt.Errorf("request %s: %w", subject, err)
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("request %s: %w", subject, causeOf(ctx, err))
		}
		if more, err := take(m); err != nil || !more {
			return err
		}
	}
}
