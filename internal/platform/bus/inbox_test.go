package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// patience bounds each wait on a busy machine.
const patience = await.Patience

// world is a server with a stream that has one stored message, and a connection.
func world(t *testing.T) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	s := bustest.Serve(t, server.Options{JetStream: true, StoreDir: t.TempDir()})
	nc := bustest.Connect(t, s.ClientURL())
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"stored.>"}, AllowDirect: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "stored.a", []byte(`{"on":true}`)); err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// next returns the data of the next message.
func next(t *testing.T, in *bus.Inbox) string {
	t.Helper()
	select {
	case m, ok := <-in.Messages():
		if !ok {
			t.Fatal("the inbox is closed")
		}
		return string(m.Data)
	case <-time.After(patience):
		t.Fatal("timed out waiting for a message")
	}
	return ""
}

// A client with access to JetStream makes the server publish on the subject of a command or an event. The inbox
// refuses each of these messages, and still delivers genuine ones.
func TestInboxRefusesServerMadeMessages(t *testing.T) {
	const command, event = "weir.c.agent.p.n.fence", "weir.c.heartbeat.p.n"
	for _, tt := range []struct {
		name string
		send func(ctx context.Context, nc *nats.Conn, js jetstream.JetStream) error
		at   []string // the subjects that are refused
		why  error
	}{
		{"direct get to a command", func(_ context.Context, nc *nats.Conn, _ jetstream.JetStream) error {
			return nc.PublishRequest("$JS.API.DIRECT.GET.S.stored.a", command, nil)
		}, []string{"weir.c.agent.p.n.*"}, bus.ErrNotGenuine},
		{"direct get to an event", func(_ context.Context, nc *nats.Conn, _ jetstream.JetStream) error {
			return nc.PublishRequest("$JS.API.DIRECT.GET.S.stored.a", event, nil)
		}, []string{"weir.c.heartbeat.p.*"}, bus.ErrNotGenuine},
		{"direct get of a missing message", func(_ context.Context, nc *nats.Conn, _ jetstream.JetStream) error {
			return nc.PublishRequest("$JS.API.DIRECT.GET.S.stored.missing", event, nil)
		}, []string{"weir.c.heartbeat.p.*"}, bus.ErrNotGenuine},
		{"push consumer", func(ctx context.Context, nc *nats.Conn, _ jetstream.JetStream) error {
			old, err := nc.JetStream()
			if err == nil {
				_, err = old.AddConsumer("S", &nats.ConsumerConfig{DeliverSubject: "dea.heartbeat", AckPolicy: nats.AckNonePolicy}, nats.Context(ctx))
			}
			return err
		}, []string{"dea.heartbeat"}, bus.ErrNotGenuine},
		{"pull consumer", func(ctx context.Context, nc *nats.Conn, js jetstream.JetStream) error {
			c, err := js.CreateConsumer(ctx, "S", jetstream.ConsumerConfig{Durable: "d", AckPolicy: jetstream.AckExplicitPolicy})
			if err != nil {
				return err
			}
			return nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.S."+c.CachedInfo().Name, "dea.heartbeat", nil)
		}, []string{"dea.heartbeat"}, bus.ErrNotGenuine},
		{"response of the API to a command", func(_ context.Context, nc *nats.Conn, _ jetstream.JetStream) error {
			return nc.PublishRequest("$JS.API.STREAM.INFO.S", command, nil)
		}, []string{"weir.c.agent.p.n.*"}, bus.ErrNoReply},
		{"trace of a message to a command", func(_ context.Context, nc *nats.Conn, _ jetstream.JetStream) error {
			return nc.PublishMsg(&nats.Msg{Subject: "any", Header: nats.Header{"Nats-Trace-Dest": {command}}})
		}, []string{"weir.c.agent.p.n.*"}, bus.ErrNoReply},
		{"republished message", func(ctx context.Context, _ *nats.Conn, js jetstream.JetStream) error {
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{
				Name: "R", Subjects: []string{"again.>"}, RePublish: &jetstream.RePublish{Source: "again.a", Destination: event},
			})
			if err == nil {
				_, err = js.Publish(ctx, "again.a", nil)
			}
			return err
		}, []string{"weir.c.heartbeat.p.*"}, bus.ErrNotGenuine},
		{"command without a reply subject", func(_ context.Context, nc *nats.Conn, _ jetstream.JetStream) error {
			return nc.Publish(command, []byte(`{"on":true}`))
		}, []string{"weir.c.agent.p.n.*"}, bus.ErrNoReply},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nc, js := world(t)
			type loss struct {
				pattern string
				err     error
			}
			lost := make(chan loss, 10)
			in, err := bus.Receive(nc, bus.InboxConfig{
				Events: []string{"dea.heartbeat", "weir.c.heartbeat.p.*"}, Requests: []string{"weir.c.agent.p.n.*"}, Messages: 10,
				Lost: func(m *nats.Msg, err error) { lost <- loss{m.Sub.Subject, err} },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			if err := tt.send(t.Context(), nc, js); err != nil {
				t.Fatal(err)
			}
			for _, pattern := range tt.at {
				select {
				case l := <-lost:
					if l.pattern != pattern || !errors.Is(l.err, tt.why) {
						t.Errorf("refused at %s: %v; want %s: %v", l.pattern, l.err, pattern, tt.why)
					}
				case m := <-in.Messages():
					t.Fatalf("delivered %q on %s, reply %q, header %v", m.Data, m.Subject, m.Reply, m.Header)
				case <-time.After(patience):
					t.Fatal("timed out waiting for the refusal")
				}
			}
			if n := in.Refused(); n != uint64(len(tt.at)) {
				t.Errorf("Refused() = %d, want %d", n, len(tt.at))
			}
			if err := nc.PublishRequest(command, "answer", []byte("genuine")); err != nil {
				t.Fatal(err)
			}
			if got := next(t, in); got != "genuine" {
				t.Errorf("received %q, want the genuine command", got)
			}
		})
	}
}

// Headers of a publisher to a stream are no mark of the server.
func TestInboxDeliversPublishedMessages(t *testing.T) {
	nc, js := world(t)
	in, err := bus.Receive(nc, bus.InboxConfig{Events: []string{"stored.>"}, Messages: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if _, err := js.Publish(t.Context(), "stored.b", []byte("b"), jetstream.WithMsgID("1"), jetstream.WithExpectLastSequence(1)); err != nil {
		t.Fatal(err)
	}
	if got := next(t, in); got != "b" || in.Refused() != 0 {
		t.Errorf("received %q, refused %d; want the published message", got, in.Refused())
	}
}

// The inbox drops what exceeds its bounds, counts it, and delivers the rest in order.
func TestInboxIsBounded(t *testing.T) {
	nc, _ := world(t)
	full := make(chan error, 10)
	in, err := bus.Receive(nc, bus.InboxConfig{
		Events: []string{"a", "b.*"}, Messages: 4, Bytes: 10, Lost: func(_ *nats.Msg, err error) { full <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	for i, data := range []string{"1", "22", "333", "55555", "4", "6"} { // 55555 exceeds the bytes, 6 the number
		if err := nc.Publish([]string{"a", "b.c"}[i%2], []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		select {
		case err := <-full:
			if !errors.Is(err, bus.ErrInboxFull) {
				t.Errorf("lost: %v, want ErrInboxFull", err)
			}
		case <-time.After(patience):
			t.Fatal("timed out waiting for a drop")
		}
	}
	var got []string
	for range 4 {
		got = append(got, next(t, in))
	}
	if want := []string{"1", "22", "333", "4"}; !slices.Equal(got, want) || in.Dropped() != 2 || in.Refused() != 0 {
		t.Errorf("received %q, dropped %d, refused %d; want %q, 2, 0", got, in.Dropped(), in.Refused(), want)
	}
}

// Drain delivers what has arrived, and ends the channel. Close ends it at once.
func TestInboxDrains(t *testing.T) {
	nc, _ := world(t)
	drained, err := bus.Receive(nc, bus.InboxConfig{Events: []string{"a"}, Messages: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer drained.Close()
	closed, err := bus.Receive(nc, bus.InboxConfig{Events: []string{"a"}, Messages: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := nc.Publish("a", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := drained.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if got := next(t, drained); got != fmt.Sprint(i) {
			t.Errorf("message %d is %q", i, got)
		}
	}
	if m, ok := <-drained.Messages(); ok {
		t.Errorf("received %q after the last message", m.Data)
	}
	closed.Close()
	if _, ok := <-closed.Messages(); ok {
		t.Error("a closed inbox delivers")
	}
}

// Replies returns each reply of one request, and reports a missing responder.
func TestReplies(t *testing.T) {
	nc, _ := world(t)
	in, err := bus.Receive(nc, bus.InboxConfig{Requests: []string{"count"}, Messages: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	go func() {
		for m := range in.Messages() {
			for i := range 3 {
				_ = m.Respond(fmt.Append(nil, i)) // the test times out
			}
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []string
	take := func(m *nats.Msg) (bool, error) {
		got = append(got, string(m.Data))
		return len(got) < 3, nil
	}
	if err := bus.Replies(ctx, nc, "count", nil, take); err != nil || !slices.Equal(got, []string{"0", "1", "2"}) {
		t.Errorf("Replies = %v with %q, want three replies", err, got)
	}
	if err := bus.Replies(ctx, nc, "unserved", nil, take); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("Replies without a responder = %v, want ErrNoResponders", err)
	}
}
