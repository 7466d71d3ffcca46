package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

var errCutShort = errors.New("the connection was closed before the last one")

// openBucket opens a cluster's bucket, and creates it if it is not there. One
// that is there keeps its settings: they are the operator's.
func openBucket(ctx context.Context, js jetstream.JetStream, cluster string) (jetstream.KeyValue, error) {
	bucket := "weir_" + cluster
	kv, err := js.KeyValue(ctx, bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket:      bucket,
			Description: "state of weir in cluster " + cluster,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	return kv, nil
}

// each calls visit with every entry whose key begins with prefix, which ends in a
// dot. It goes on after an error of visit, and returns all of them.
func each(ctx context.Context, kv jetstream.KeyValue, prefix string, visit func(jetstream.KeyValueEntry) error) error {
	ctx, cancel := context.WithCancel(ctx) // ends the watch
	defer cancel()
	watch, err := kv.Watch(ctx, prefix+">", jetstream.IgnoreDeletes())
	if err != nil {
		return fmt.Errorf("list %s>: %w", prefix, err)
	}
	var unreadable []error
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("list %s>: %w", prefix, context.Cause(ctx))
		case entry, open := <-watch.Updates():
			switch {
			case !open:
				return fmt.Errorf("list %s>: %w", prefix, errCutShort)
			case entry == nil: // that was the last one
				return errors.Join(unreadable...)
			}
			if err := visit(entry); err != nil {
				unreadable = append(unreadable, fmt.Errorf("read %s: %w", entry.Key(), err))
			}
		}
	}
}
