package notifyd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/notify"
	"github.com/weirkeeper/weirkeeper/internal/platform/seconds"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

const (
	callTimeout = 10 * time.Second
	lookBack    = 24 * time.Hour // for missed events; older ones are not sent
)

// notices is the stream of the events of a cluster. Each target has a durable consumer of its own. Calls may run
// concurrently, also those of several processes: the stream stores each event once, by its id.
type notices struct {
	js       jetstream.JetStream
	cluster  string
	replicas int
	started  time.Time // of the process: a new target receives the events from then on
}

// open returns the stream, and creates it if it is missing.
func (n *notices) open(ctx context.Context) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := state.EnsureStream(ctx, n.js, state.NoticesStream(n.cluster, n.replicas))
	if err != nil {
		return nil, fmt.Errorf("open the stream of events: %w", err)
	}
	return s, nil
}

// begin returns from when on the ticks of a pool, or the findings with an empty pool, may be missing in the stream: since its
// last event, the creation of the stream, or a day ago.
func (n *notices) begin(ctx context.Context, pool string) (time.Time, error) {
	s, err := n.open(ctx)
	if err != nil {
		return time.Time{}, err
	}
	from := s.CachedInfo().Created
	if back := time.Now().Add(-lookBack); back.After(from) {
		from = back
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	last, err := s.GetLastMsgForSubject(ctx, state.NoticeSubject(n.cluster, pool))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return from, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read the last event: %w", err)
	}
	var e notify.Event
	if json.Unmarshal(last.Data, &e) == nil && e.At.After(from) {
		from = e.At
	}
	return from, nil
}

// publish stores events. It returns nil after the stream has all of them.
func (n *notices) publish(ctx context.Context, pool string, list []api.Event) error {
	for _, e := range list {
		one, err := n.event(e)
		if err != nil {
			return err
		}
		id, data, err := one.Encode()
		if err != nil {
			return err
		}
		m := &nats.Msg{Subject: state.NoticeSubject(n.cluster, pool), Data: data}
		if err := n.store(ctx, m, id); err != nil {
			return fmt.Errorf("store event %s: %w", one.Name, err)
		}
	}
	return nil
}

func (n *notices) store(ctx context.Context, m *nats.Msg, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := n.js.PublishMsg(ctx, m, jetstream.WithMsgID(id))
	if errors.Is(err, jetstream.ErrNoStreamResponse) { // the stream is lost
		if _, err = n.open(ctx); err == nil {
			_, err = n.js.PublishMsg(ctx, m, jetstream.WithMsgID(id))
		}
	}
	return err
}

func (n *notices) event(e api.Event) (notify.Event, error) {
	out := notify.Event{
		At: e.At, Cluster: n.cluster, Pool: e.Pool, Kind: string(e.Kind), Name: e.Name, Severity: e.Severity, Text: e.Text,
	}
	if e.Data == nil {
		return out, nil
	}
	data, err := seconds.Of(e.Data)
	out.Data = data
	return out, err
}

// consumer returns the consumer of a target, and creates it if it is missing.
func (n *notices) consumer(target string) notify.Open {
	return func(ctx context.Context) (jetstream.Consumer, error) {
		s, err := n.open(ctx)
		if err != nil {
			return nil, err
		}
		return durable(ctx, s, target, n.started)
	}
}

// durable returns the durable consumer of that name. A missing one is created, and begins at a time.
func durable(ctx context.Context, s jetstream.Stream, name string, from time.Time) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := s.Consumer(ctx, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		c, err = s.CreateConsumer(ctx, jetstream.ConsumerConfig{
			Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: notify.AckWait, MaxAckPending: 1,
			DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &from,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open consumer %s: %w", name, err)
	}
	return c, nil
}

// clean deletes the consumers of targets that are no longer configured.
func (n *notices) clean(ctx context.Context, keep func(target string) bool) error {
	s, err := n.open(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	all := s.ConsumerNames(ctx)
	for name := range all.Name() {
		if keep(name) {
			continue
		}
		if err := s.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("delete the consumer of removed target %s: %w", name, err)
		}
	}
	if err := all.Err(); err != nil {
		return fmt.Errorf("list the consumers of targets: %w", err)
	}
	return nil
}
