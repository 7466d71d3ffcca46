package natsbus

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
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
	rows := kvbucket.Apps(cluster, replicas)
	bucket, copied := rows.Name, copyOf(rows)
	kept, err := copyRows(ctx, js, bucket, copied)
	if err != nil {
		return fmt.Errorf("copy the rows of bucket %s: %w", bucket, err)
	}
	if err := js.DeleteKeyValue(ctx, bucket); err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("delete bucket %s: %w", bucket, err)
	}
	kv, err := open(ctx, js, rows)
	if err != nil {
		return err
	}
	for _, k := range kept {
		// A row that was set or deleted since is newer.
		if _, err := kv.Update(ctx, k.Name, k.Value, 0); err != nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return fmt.Errorf("write row %s: %w", k.Name, err)
		}
	}
	if err := kv.Delete(ctx, app); err != nil {
		return fmt.Errorf("delete row %s: %w", app, err)
	}
	if err := js.DeleteKeyValue(ctx, copied.Name); err != nil {
		return fmt.Errorf("delete the copy of bucket %s: %w", bucket, err)
	}
	return nil
}

// copyOf returns the copy of a bucket. Its name begins differently, so it is the bucket of no other cluster.
func copyOf(bucket kvbucket.Config) kvbucket.Config {
	bucket.Name, bucket.Description = "weir-copy-of-"+bucket.Name, "copy of bucket "+bucket.Name
	return bucket
}

// copyRows copies a bucket's rows to its copy bucket, and returns them.
func copyRows(ctx context.Context, js jetstream.JetStream, bucket string, copied kvbucket.Config) ([]integrity.Key, error) {
	kv, err := open(ctx, js, copied)
	if err != nil {
		return nil, err
	}
	rows, err := liveRows(ctx, js, copied.Name)
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
	_, err = kv.PutString(ctx, completeKey, "")
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
	return slices.DeleteFunc(contents.Keys, func(k integrity.Key) bool { return k.Deleted || k.Damaged }), err
}
