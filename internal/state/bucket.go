package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

// maxListed bounds the keys of one listing.
const maxListed = 100_000

var (
	// ErrSchema: the bucket has another schema version, or an unreadable one. Nothing was changed.
	ErrSchema = errors.New("the bucket has another schema")

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

// bucket is a bucket of a cluster. If it is missing, each call returns kvbucket.ErrMissing.
type bucket struct{ kv *kvbucket.Bucket }

// entry is the newest message of a key. Its revision is the one that update expects, also after a deletion.
type entry struct {
	revision uint64 // 0: the key has no message
	value    []byte
	found    bool // there is a value and it is not deleted
}

// openBucket opens an existing bucket, and refuses one of another schema.
func openBucket(ctx context.Context, js jetstream.JetStream, name string) (*bucket, error) {
	b := &bucket{kvbucket.New(js, name)}
	e, err := b.kv.Get(ctx, streams.SchemaKey)
	switch {
	case err == nil && e.Found:
		err = acceptSchema(e.Value)
	case err == nil: // its creation has not ended
		err = fmt.Errorf("%w: it has no schema", kvbucket.ErrMissing)
	}
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	return b, nil
}

// schemaRemedy ends each ErrSchema.
const schemaRemedy = "; install the version of weir that wrote it, or restore a backup"

func acceptSchema(value []byte) error {
	var s streams.Schema
	if err := json.Unmarshal(value, &s); err != nil {
		return fmt.Errorf("%w: its version cannot be read (%w), this weir supports %d"+schemaRemedy, ErrSchema, err, streams.SchemaVersion)
	}
	if s.Version != streams.SchemaVersion {
		return fmt.Errorf("%w: version %d, this weir supports %d"+schemaRemedy, ErrSchema, s.Version, streams.SchemaVersion)
	}
	return nil
}

// get returns the newest entry of a key that a replica has. A key that the store cannot read is an error.
func (b *bucket) get(ctx context.Context, key string) (entry, error) {
	e, err := b.kv.Get(ctx, key)
	if err != nil {
		return entry{}, b.named(err)
	}
	return entry{e.Revision, e.Value, e.Found}, nil
}

// update writes over exactly the given revision and returns the new one. If another revision is the newest, the error
// is jetstream.ErrKeyRevisionMismatch. If the server does not answer, it is kvbucket.ErrUnknown: the write may be
// applied later.
func (b *bucket) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	next, err := b.kv.Update(ctx, key, value, revision)
	return next, b.named(err)
}

// put writes over any revision.
func (b *bucket) put(ctx context.Context, key string, value []byte) error {
	_, err := b.kv.Put(ctx, key, value)
	return b.named(err)
}

// erase implements store. The marker ends after kvbucket.MarkerTTL.
func (b *bucket) erase(ctx context.Context, key string, revision uint64) error {
	_, err := b.kv.Erase(ctx, key, revision)
	return b.named(err)
}

// delete is erase with a marker that stays.
func (b *bucket) delete(ctx context.Context, key string, revision uint64) error {
	_, err := b.kv.Delete(ctx, key, revision)
	return b.named(err)
}

// named adds the name of the bucket to an error.
func (b *bucket) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("bucket %s: %w", b.kv.Name(), err)
}

// sequence returns the number of the newest write to the bucket.
func (b *bucket) sequence(ctx context.Context) (uint64, error) {
	stream, err := kvbucket.Check(ctx, b.kv.JetStream(), b.kv.Name())
	if err != nil {
		return 0, b.named(err)
	}
	return stream.CachedInfo().State.LastSeq, nil
}

// list implements store.
func (b *bucket) list(ctx context.Context, sequence uint64, filters []string, visit func(integrity.Key) error) error {
	contents, err := integrity.ReadSince(ctx, b.kv.JetStream(), b.kv.Name(), sequence, filters...)
	if err != nil {
		return fmt.Errorf("list %v: %w", filters, err)
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
		case k.Forged:
			err = kvbucket.ErrForged
		case !k.Deleted:
			err = visit(k)
		}
		if err != nil {
			unreadable = append(unreadable, &UnreadableError{k.Name, err})
		}
	}
	return errors.Join(unreadable...)
}
