package natsbus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

// completeKey is in the copy of a bucket once the copy has all rows. It is not a valid app
// name.
const completeKey = "=complete"

// DropDamaged deletes the unreadable row of an app, in the bucket of a cluster's expected
// state. The server rejects all writes to a bucket after a write over such a row. So
// DropDamaged creates the bucket again, with all other rows. The bucket accepts no writes
// meanwhile. If DropDamaged fails in between, the rows are in a copy of the bucket, and the
// next call continues from there. Both buckets have that many replicas.
func DropDamaged(ctx context.Context, js jetstream.JetStream, cluster string, replicas int, app string) error {
	bucket := names.AppsBucket(cluster)
	copied := "weir-copy-of-" + bucket // begins differently, so it is the bucket of no other cluster
	copySpec := kvbucket.Settings(copied, "copy of bucket "+bucket, replicas, -1)
	kept, err := copyRows(ctx, js, bucket, copySpec)
	if err != nil {
		return fmt.Errorf("copy the rows of bucket %s: %w", bucket, err)
	}
	if err := js.DeleteStream(ctx, kvbucket.Stream(bucket)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("delete bucket %s: %w", bucket, err)
	}
	if _, err := streams.Create(ctx, js, []jetstream.StreamConfig{streams.Cluster{Name: cluster, Replicas: replicas}.Apps()}); err != nil {
		return err
	}
	kv := kvbucket.New(js, bucket)
	for _, k := range kept {
		// A row that was set or deleted since is newer.
		if _, err := kv.Update(ctx, k.Name, k.Value, 0); err != nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return fmt.Errorf("write row %s: %w", k.Name, err)
		}
	}
	e, err := kv.Get(ctx, app)
	if err == nil {
		_, err = kv.Delete(ctx, app, e.Revision)
	}
	if err != nil {
		return fmt.Errorf("delete row %s: %w", app, err)
	}
	if err := js.DeleteStream(ctx, copySpec.Name); err != nil {
		return fmt.Errorf("delete the copy of bucket %s: %w", bucket, err)
	}
	return nil
}

// copyRows copies a bucket's rows to its copy bucket, and returns them.
func copyRows(ctx context.Context, js jetstream.JetStream, bucket string, copied jetstream.StreamConfig) ([]integrity.Key, error) {
	if _, err := js.CreateOrUpdateStream(ctx, copied); err != nil {
		return nil, err
	}
	kv := kvbucket.New(js, strings.TrimPrefix(copied.Name, kvbucket.Stream("")))
	rows, err := liveRows(ctx, js, kv.Name())
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(rows, func(k integrity.Key) bool { return k.Name == completeKey }); i >= 0 {
		return slices.Delete(rows, i, i+1), nil
	}
	if err := seal(ctx, js, bucket); err != nil {
		return nil, err
	}
	if rows, err = liveRows(ctx, js, bucket); err != nil {
		return nil, err
	}
	for _, k := range rows {
		if _, err := kv.Put(ctx, k.Name, k.Value); err != nil {
			return nil, err
		}
	}
	_, err = kv.Put(ctx, completeKey, nil)
	return rows, err
}

// seal makes the server reject all writes to a bucket, permanently.
func seal(ctx context.Context, js jetstream.JetStream, bucket string) error {
	stream, err := js.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return err
	}
	config := stream.CachedInfo().Config
	if config.Sealed {
		return nil
	}
	config.Sealed = true
	_, err = js.UpdateStream(ctx, config)
	return err
}

// liveRows returns the rows that are readable and not deleted.
func liveRows(ctx context.Context, js jetstream.JetStream, bucket string) ([]integrity.Key, error) {
	contents, err := integrity.Read(ctx, js, bucket)
	return slices.DeleteFunc(contents.Keys, func(k integrity.Key) bool { return k.Deleted || k.Damaged || k.Forged }), err
}
