package state_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/state"
)

// hung is a JetStream whose leader takes the second message and does not answer.
type hung struct {
	jetstream.JetStream
	stores bool // the message is stored all the same
	n      atomic.Int64
}

func (h *hung) Publish(ctx context.Context, subject string, data []byte, options ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	return h.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data}, options...)
}

func (h *hung) PublishMsg(ctx context.Context, m *nats.Msg, options ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if h.n.Add(1) != 2 {
		return h.JetStream.PublishMsg(ctx, m, options...)
	}
	if h.stores {
		if ack, err := h.JetStream.PublishMsg(ctx, m, options...); err != nil {
			return ack, err
		}
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A record of two parts is appended while the leader hangs. It is stored once, whether the leader stored it or not.
func TestUnansweredAppendIsRepeated(t *testing.T) {
	for name, stores := range map[string]bool{"stored": true, "lost": false} {
		t.Run(name, func(t *testing.T) {
			js := js(t)
			openLedger(t, js, "web")
			l, err := state.OpenLedger(t.Context(), &hung{JetStream: js, stores: stores}, "here", "web")
			if err != nil {
				t.Fatal(err)
			}
			record := []byte(incompressible(700 << 10))
			if err := l.Append(t.Context(), record); err != nil {
				t.Fatalf("Append = %v, want a repeated attempt", err)
			}
			got, err := openLedger(t, js, "web").Last(t.Context())
			if err != nil || !bytes.Equal(got, record) {
				t.Errorf("Last has %d bytes, %v, want the record of %d bytes", len(got), err, len(record))
			}
			stream, err := js.Stream(t.Context(), webLedger)
			if err != nil {
				t.Fatal(err)
			}
			info, err := stream.Info(t.Context())
			if err != nil || info.State.Msgs != 2 {
				t.Errorf("the stream has %d messages, %v, want one part and the record", info.State.Msgs, err)
			}
		})
	}
}
