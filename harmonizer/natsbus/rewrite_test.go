package natsbus

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

// TestDropDamagedContinues ends the drop of a damaged row after each of its calls to the
// server. The next call completes it, with all other rows.
func TestDropDamagedContinues(t *testing.T) {
	for after := 0; ; after++ {
		s := store{dir: t.TempDir()}
		ns := startServer(t, s.dir, -1)
		port := portOf(ns)
		nc := connect(t, ns.ClientURL())
		kv := bucket(t, nc)
		set(t, kv, "web", 3)
		set(t, kv, "api", 2)
		stopServer(t, ns, nc)
		edit(t, s.block(), flip(t, `"name":"web","pool":"default","instances":`))
		ns = startServer(t, s.dir, port)
		await.True(t, "the server is back", nc.IsConnected)
		js := stateBucket(t, nc)
		early := DropDamaged(t.Context(), &failingAfter{JetStream: js, left: after}, cluster, 1, "web")
		if err := DropDamaged(t.Context(), js, cluster, 1, "web"); err != nil {
			t.Fatalf("after %d calls: %v", after, err)
		}
		rows, err := liveRows(t.Context(), js, message.AppsBucket(cluster))
		if err != nil || len(rows) != 1 || rows[0].Name != "api" {
			t.Errorf("after %d calls: rows %v, %v, want api", after, rows, err)
		}
		if _, err := js.Stream(t.Context(), "KV_weir-copy-of-"+message.AppsBucket(cluster)); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("after %d calls: the copy is still there: %v", after, err)
		}
		set(t, bucket(t, nc), "web", 1)
		stopServer(t, ns, nc)
		if early == nil {
			return
		}
	}
}

// failingAfter fails each call that changes or opens a bucket, after that many calls.
type failingAfter struct {
	jetstream.JetStream
	left int
}

var errAway = errors.New("NATS is away")

func (f *failingAfter) fails() error {
	if f.left--; f.left < 0 {
		return errAway
	}
	return nil
}

func (f *failingAfter) CreateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.JetStream.CreateStream(ctx, c)
}

func (f *failingAfter) CreateOrUpdateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.JetStream.CreateOrUpdateStream(ctx, c)
}

func (f *failingAfter) DeleteStream(ctx context.Context, name string) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.JetStream.DeleteStream(ctx, name)
}

func (f *failingAfter) UpdateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.JetStream.UpdateStream(ctx, c)
}

func (f *failingAfter) PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.JetStream.PublishMsg(ctx, m, opts...)
}
