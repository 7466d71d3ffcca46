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
	"github.com/weirkeeper/weirkeeper/internal/platform/changes"
	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/placer"
)

const (
	bucketPause = time.Second      // between two attempts to read a bucket that does not exist yet
	readTimeout = 30 * time.Second // of all rows
)

// openRows returns all rows, and the reader of their changes.
func (b *Bus) openRows(ctx context.Context) ([]integrity.Key, *changes.Reader, error) {
	js, err := bus.JetStream(b.nc)
	if err != nil {
		return nil, nil, fmt.Errorf("open jetstream: %w", err)
	}
	name := names.AppsBucket(b.cfg.Cluster)
	all, err := b.readRows(ctx, js, name)
	if err != nil {
		return nil, nil, err
	}
	r, err := changes.Open(ctx, changes.Config{JS: js, Bucket: name, Hints: names.ChangedSubject(b.cfg.Cluster, name)}, all.Next)
	return all.Keys, r, err
}

// readRows reads all rows. While their bucket does not exist, it waits.
func (b *Bus) readRows(ctx context.Context, js jetstream.JetStream, name string) (integrity.Contents, error) {
	again := time.NewTicker(bucketPause)
	defer again.Stop()
	for waiting := false; ; waiting = true {
		reading, cancel := context.WithTimeout(ctx, readTimeout)
		all, err := integrity.Read(reading, js, name)
		cancel()
		if !errors.Is(err, kvbucket.ErrMissing) {
			return all, err
		}
		if !waiting {
			b.log.Warn("bucket of applications missing, waiting", "err", err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return all, ctx.Err()
		}
	}
}

// row returns the event of a change in the bucket.
func row(k integrity.Key) placer.Event {
	if k.Deleted && !k.Damaged && !k.Forged {
		return placer.RowGone{App: k.Name}
	}
	a, err := decodeApp(k)
	if err != nil {
		return placer.RowUnread{App: k.Name, Why: err.Error()}
	}
	return placer.Row{App: a}
}

func decodeApp(k integrity.Key) (api.App, error) {
	switch {
	case k.Damaged:
		return api.App{}, fmt.Errorf("row of app %q: %w", k.Name, kvbucket.ErrDamaged)
	case k.Forged:
		return api.App{}, fmt.Errorf("row of app %q: %w", k.Name, kvbucket.ErrForged)
	}
	a, err := message.DecodeApp(k.Value)
	if err != nil {
		return api.App{}, fmt.Errorf("row of app %q: %w", k.Name, err)
	}
	if a.Name != k.Name {
		return api.App{}, fmt.Errorf("row of app %q names itself %q", k.Name, a.Name)
	}
	return a, nil
}
