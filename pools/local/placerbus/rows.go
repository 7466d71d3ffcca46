package placerbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/call"
	"github.com/weirkeeper/weirkeeper/placer"
)

const (
	maxRow      = 64 << 10    // bytes of one row, including its command
	bucketPause = time.Second // between two attempts to open a bucket that does not exist yet
)

func (b *Bus) watchApps(ctx context.Context) (jetstream.KeyWatcher, error) {
	name := message.AppsBucket(b.cfg.Cluster)
	js, err := bus.JetStream(b.nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	kv, err := b.awaitApps(ctx, js, name)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	rows, err := kv.WatchAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch bucket %s: %w", name, err)
	}
	return rows, nil
}

// awaitApps opens the bucket of apps. The harmonizer creates it, and a placer may not: it waits until the bucket exists or
// ctx ends.
func (b *Bus) awaitApps(ctx context.Context, js jetstream.JetStream, name string) (jetstream.KeyValue, error) {
	again := time.NewTicker(bucketPause)
	defer again.Stop()
	for waiting := false; ; waiting = true {
		opening, cancel := context.WithTimeout(ctx, 2*call.Timeout)
		kv, err := js.KeyValue(opening, name)
		cancel()
		if !errors.Is(err, jetstream.ErrBucketNotFound) {
			return kv, err
		}
		if !waiting {
			b.log.Info("no bucket of apps yet, waiting for the harmonizer", "bucket", name)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// row returns the event of a change in the bucket; nil for an invalid row: the last valid row remains.
func (b *Bus) row(e jetstream.KeyValueEntry) placer.Event {
	switch {
	case e == nil: // all rows that existed at the start have arrived
		return placer.RowsLoaded{}
	case e.Operation() != jetstream.KeyValuePut:
		return placer.RowGone{App: e.Key()}
	}
	a, err := decodeApp(e.Key(), e.Value())
	if err != nil {
		b.log.Warn("row dropped", "err", err)
		return nil
	}
	return placer.Row{App: a}
}

func decodeApp(key string, data []byte) (api.App, error) {
	if len(data) > maxRow {
		return api.App{}, fmt.Errorf("row of app %q has %d bytes: at most %d are allowed", key, len(data), maxRow)
	}
	a, err := message.DecodeApp(data)
	if err != nil {
		return api.App{}, fmt.Errorf("row of app %q: %w", key, err)
	}
	if a.Name != key {
		return api.App{}, fmt.Errorf("row of app %q names itself %q", key, a.Name)
	}
	return a, nil
}
