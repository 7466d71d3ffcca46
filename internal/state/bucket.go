package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
)

// schemaVersion is the version of the keys and values in the package comment.
const schemaVersion = 1

// maxListed bounds the keys of one listing.
const maxListed = 100_000

// CreateNothing as a number of replicas: a missing bucket is not created, and counts as empty.
const CreateNothing = 0

var (
	// ErrSchema: the bucket has another schema version, or an unreadable one. Nothing was changed.
	ErrSchema = errors.New("the bucket has another schema")
	// ErrLost: the bucket was missing, so its state is lost. It is created again, and it is empty.
	ErrLost = errors.New("the bucket was missing: its state is lost, and it is created again")

	errChanged = errors.New("the key keeps changing")
)

// attempts bounds the retries of a write after concurrent writes.
const attempts = 5

// store is what the holder of a lease needs of a bucket.
type store interface {
	register
	// erase writes a delete marker over exactly the given revision. Errors are those of update.
	erase(ctx context.Context, key string, revision uint64) error
	// list calls visit with every value whose key matches a filter: a key, or a prefix that ends in ".>". No key is
	// missing that was written before the write of that sequence. A value may be older than the newest one. It
	// continues after an error of visit and after an unreadable value, and returns all errors.
	list(ctx context.Context, sequence uint64, filters []string, visit func(integrity.Key) error) error
}

var _ store = (*bucket)(nil)

// bucket is a bucket of a cluster. The call that finds it missing creates it again and returns ErrLost.
type bucket struct {
	kv     *kvbucket.Bucket
	config kvbucket.Config
}

// entry is the newest message of a key. Its revision is the one that update expects, also after a deletion.
type entry struct {
	revision uint64 // 0: the key has no message
	value    []byte
	found    bool // there is a value and it is not deleted
}

// openBucket opens a bucket, and creates it if it is missing and has replicas.
func openBucket(ctx context.Context, js jetstream.JetStream, c kvbucket.Config) (*bucket, error) {
	b := &bucket{kvbucket.New(js, c.Name), c}
	if err := b.ensure(ctx); err != nil && !b.isEmpty(err) {
		return nil, err
	}
	return b, nil
}

// ensure creates a missing bucket, and checks its schema.
func (b *bucket) ensure(ctx context.Context) error {
	if _, err := kvbucket.Ensure(ctx, b.kv.JetStream(), b.config); err != nil {
		return err
	}
	if err := b.checkSchema(ctx); err != nil {
		return fmt.Errorf("open bucket %s: %w", b.config.Name, err)
	}
	return nil
}

// isEmpty reports whether an error means that the bucket is missing and must not be created.
func (b *bucket) isEmpty(err error) bool {
	return errors.Is(err, kvbucket.ErrMissing) && b.config.Replicas == CreateNothing
}

// reopen creates the bucket again if err means that it is missing, and returns an error for the failed call.
func (b *bucket) reopen(ctx context.Context, err error) error {
	if !errors.Is(err, kvbucket.ErrMissing) {
		return err
	}
	if b.config.Replicas == CreateNothing {
		return fmt.Errorf("%w; start the daemons of cluster %s, which create it", err, b.config.Cluster)
	}
	if failed := b.ensure(ctx); failed != nil {
		return errors.Join(err, failed)
	}
	return fmt.Errorf("bucket %s: %w", b.config.Name, ErrLost)
}

// schema is the value of the key "schema".
type schema struct {
	Version int `json:"version"`
}

// checkSchema refuses a bucket of another schema. It writes our schema into a bucket without one, unless a missing
// bucket would not be created.
func (b *bucket) checkSchema(ctx context.Context) error {
	for range attempts {
		e, err := b.kv.Get(ctx, "schema")
		if err != nil {
			return err
		}
		if e.Found {
			return acceptSchema(e.Value)
		}
		if b.config.Replicas == CreateNothing {
			return nil
		}
		data, err := json.Marshal(schema{Version: schemaVersion})
		if err != nil {
			return err
		}
		_, err = b.kv.Update(ctx, "schema", data, e.Revision)
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return err
		}
	}
	return fmt.Errorf("read schema: %w", errChanged)
}

// schemaRemedy ends each ErrSchema.
const schemaRemedy = "; install the version of weir that wrote it, or restore a backup"

func acceptSchema(value []byte) error {
	var s schema
	if err := json.Unmarshal(value, &s); err != nil {
		return fmt.Errorf("%w: its version cannot be read (%w), this weir supports %d"+schemaRemedy, ErrSchema, err, schemaVersion)
	}
	if s.Version != schemaVersion {
		return fmt.Errorf("%w: version %d, this weir supports %d"+schemaRemedy, ErrSchema, s.Version, schemaVersion)
	}
	return nil
}

// get returns the newest entry of a key that a replica has. A key that the store cannot read is an error.
func (b *bucket) get(ctx context.Context, key string) (entry, error) {
	e, err := b.kv.Get(ctx, key)
	if b.isEmpty(err) {
		return entry{}, nil
	}
	return entry{e.Revision, e.Value, e.Found}, b.reopen(ctx, err)
}

// update writes over exactly the given revision and returns the new one. If another revision is the newest, the error
// is jetstream.ErrKeyRevisionMismatch. If the server does not answer, it is kvbucket.ErrUnknown: the write may be
// applied later.
func (b *bucket) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	next, err := b.kv.Update(ctx, key, value, revision)
	return next, b.reopen(ctx, err)
}

// put writes over any revision.
func (b *bucket) put(ctx context.Context, key string, value []byte) error {
	_, err := b.kv.Put(ctx, key, value)
	return b.reopen(ctx, err)
}

// erase implements store. The marker ends after kvbucket.MarkerTTL.
func (b *bucket) erase(ctx context.Context, key string, revision uint64) error {
	_, err := b.kv.Erase(ctx, key, revision)
	return b.reopen(ctx, err)
}

// delete is erase with a marker that stays.
func (b *bucket) delete(ctx context.Context, key string, revision uint64) error {
	_, err := b.kv.Delete(ctx, key, revision)
	return b.reopen(ctx, err)
}

// sequence returns the number of the newest write to the bucket.
func (b *bucket) sequence(ctx context.Context) (uint64, error) {
	stream, err := kvbucket.Check(ctx, b.kv.JetStream(), b.config.Name)
	if err != nil {
		return 0, fmt.Errorf("read bucket %s: %w", b.config.Name, b.reopen(ctx, err))
	}
	return stream.CachedInfo().State.LastSeq, nil
}

// list implements store.
func (b *bucket) list(ctx context.Context, sequence uint64, filters []string, visit func(integrity.Key) error) error {
	contents, err := integrity.ReadSince(ctx, b.kv.JetStream(), b.config.Name, sequence, filters...)
	if b.isEmpty(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %v: %w", filters, b.reopen(ctx, err))
	}
	if len(contents.Keys) > maxListed {
		return fmt.Errorf("list %v: more than %d keys", filters, maxListed)
	}
	return visitAll(contents.Keys, visit)
}

func visitAll(keys []integrity.Key, visit func(integrity.Key) error) error {
	var unreadable []error
	for _, k := range keys {
		err := error(nil)
		switch {
		case k.Damaged:
			err = kvbucket.ErrDamaged
		case !k.Deleted:
			err = visit(k)
		}
		if err != nil {
			unreadable = append(unreadable, &UnreadableError{k.Name, err})
		}
	}
	return errors.Join(unreadable...)
}
