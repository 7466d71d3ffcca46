package natsbus

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
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
		if _, err := js.KeyValue(t.Context(), copyOf(kvbucket.Apps(cluster, 1)).Name); !errors.Is(err, jetstream.ErrBucketNotFound) {
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

func (f *failingAfter) KeyValue(ctx context.Context, name string) (jetstream.KeyValue, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	kv, err := f.JetStream.KeyValue(ctx, name)
	return failingKV{kv, f}, err
}

func (f *failingAfter) CreateKeyValue(ctx context.Context, c jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	kv, err := f.JetStream.CreateKeyValue(ctx, c)
	return failingKV{kv, f}, err
}

func (f *failingAfter) DeleteKeyValue(ctx context.Context, name string) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.JetStream.DeleteKeyValue(ctx, name)
}

func (f *failingAfter) UpdateStream(ctx context.Context, c jetstream.StreamConfig) (jetstream.Stream, error) {
	if err := f.fails(); err != nil {
		return nil, err
	}
	return f.JetStream.UpdateStream(ctx, c)
}

type failingKV struct {
	jetstream.KeyValue
	f *failingAfter
}

func (kv failingKV) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	if err := kv.f.fails(); err != nil {
		return 0, err
	}
	return kv.KeyValue.Put(ctx, key, value)
}

func (kv failingKV) PutString(ctx context.Context, key, value string) (uint64, error) {
	return kv.Put(ctx, key, []byte(value))
}

func (kv failingKV) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if err := kv.f.fails(); err != nil {
		return 0, err
	}
	return kv.KeyValue.Update(ctx, key, value, revision)
}

func (kv failingKV) Delete(ctx context.Context, key string, opts ...jetstream.KVDeleteOpt) error {
	if err := kv.f.fails(); err != nil {
		return err
	}
	return kv.KeyValue.Delete(ctx, key, opts...)
}
