package bus

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// bucket is a jetstream.KeyValue whose calls end at a violation.
type bucket struct {
	jetstream.KeyValue
	denied *denials
	name   string
}

// subject returns the subject of a key.
func (b *bucket) subject(key string) string { return "$KV." + b.name + "." + key }

// reads returns whether a rejected subject is that of a read of the key.
func (b *bucket) reads(key string) func(string) bool { return ofStream("KV_"+b.name, b.subject(key)) }

// writes returns whether a rejected subject is that of a write of the key, or of the read that a write may need.
func (b *bucket) writes(key string) func(string) bool {
	write, read := exactly(b.subject(key)), b.reads(key)
	return func(subject string) bool { return write(subject) || read(subject) }
}

func (b *bucket) Get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	return call(ctx, b.denied, b.reads(key), func(ctx context.Context) (jetstream.KeyValueEntry, error) { return b.KeyValue.Get(ctx, key) })
}

func (b *bucket) GetRevision(ctx context.Context, key string, revision uint64) (jetstream.KeyValueEntry, error) {
	return call(ctx, b.denied, b.reads(key), func(ctx context.Context) (jetstream.KeyValueEntry, error) {
		return b.KeyValue.GetRevision(ctx, key, revision)
	})
}

func (b *bucket) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return call(ctx, b.denied, b.writes(key), func(ctx context.Context) (uint64, error) { return b.KeyValue.Put(ctx, key, value) })
}

func (b *bucket) PutString(ctx context.Context, key, value string) (uint64, error) {
	return b.Put(ctx, key, []byte(value))
}

func (b *bucket) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	return call(ctx, b.denied, b.writes(key), func(ctx context.Context) (uint64, error) { return b.KeyValue.Create(ctx, key, value, opts...) })
}

func (b *bucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return call(ctx, b.denied, b.writes(key), func(ctx context.Context) (uint64, error) { return b.KeyValue.Update(ctx, key, value, revision) })
}

func (b *bucket) Delete(ctx context.Context, key string, opts ...jetstream.KVDeleteOpt) error {
	return run(ctx, b.denied, b.writes(key), func(ctx context.Context) error { return b.KeyValue.Delete(ctx, key, opts...) })
}

func (b *bucket) Purge(ctx context.Context, key string, opts ...jetstream.KVDeleteOpt) error {
	return run(ctx, b.denied, b.writes(key), func(ctx context.Context) error { return b.KeyValue.Purge(ctx, key, opts...) })
}

func (b *bucket) Status(ctx context.Context) (jetstream.KeyValueStatus, error) {
	return call(ctx, b.denied, b.reads(""), b.KeyValue.Status)
}

func (b *bucket) Keys(ctx context.Context, opts ...jetstream.WatchOpt) ([]string, error) {
	return call(ctx, b.denied, b.reads(""), func(ctx context.Context) ([]string, error) { return b.KeyValue.Keys(ctx, opts...) })
}

func (b *bucket) Watch(ctx context.Context, keys string, opts ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	return b.watcher(ctx, func(ctx context.Context) (jetstream.KeyWatcher, error) { return b.KeyValue.Watch(ctx, keys, opts...) })
}

func (b *bucket) WatchAll(ctx context.Context, opts ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	return b.watcher(ctx, func(ctx context.Context) (jetstream.KeyWatcher, error) { return b.KeyValue.WatchAll(ctx, opts...) })
}

func (b *bucket) WatchFiltered(ctx context.Context, keys []string, opts ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	return b.watcher(ctx, func(ctx context.Context) (jetstream.KeyWatcher, error) {
		return b.KeyValue.WatchFiltered(ctx, keys, opts...)
	})
}

// watcher starts a watch. A violation ends the start only: the context of a running watch lasts until its Stop.
func (b *bucket) watcher(ctx context.Context, start func(context.Context) (jetstream.KeyWatcher, error)) (jetstream.KeyWatcher, error) {
	watching, done, cancel := b.denied.watch(ctx, b.reads(""))
	defer done()
	w, err := start(watching)
	if err != nil {
		cancel()
		return nil, absent(offline(causeOf(watching, err)))
	}
	return &keyWatcher{w, cancel}, nil
}

// keyWatcher is a watch with a context of its own.
type keyWatcher struct {
	jetstream.KeyWatcher
	cancel func()
}

func (w *keyWatcher) Stop() error {
	defer w.cancel()
	return w.KeyWatcher.Stop()
}
