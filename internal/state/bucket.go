package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/integrity"
)

// schemaVersion is the version of the keys and values in the package comment.
const schemaVersion = 1

// maxListed bounds the keys of one listing.
const maxListed = 100_000

// ErrSchema: the bucket has another schema version, or an unreadable one. Nothing was changed.
var ErrSchema = errors.New("the bucket has another schema")

var (
	errChanged = errors.New("the key keeps changing")
	errDamaged = errors.New("the store cannot read its value: its file is damaged")
)

// attempts bounds the retries of a write after concurrent writes.
const attempts = 5

// store is what the holder of a lease needs of a bucket.
type store interface {
	register
	erase(ctx context.Context, key string, revision uint64) error
	list(ctx context.Context, filters []string, visit func(integrity.Key) error) error
}

var _ store = (*bucket)(nil)

// bucket is a cluster's bucket.
type bucket struct {
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	stream jetstream.Stream // the stream of the bucket
	name   string
}

// entry is the newest message of a key.
type entry struct {
	revision uint64 // 0: the key was never written
	value    []byte
	found    bool // there is a value and it is not deleted
}

// BucketName returns the name of a cluster's bucket.
func BucketName(cluster string) string { return "weir_" + cluster }

// openBucket opens a cluster's bucket, and creates it if it is missing.
func openBucket(ctx context.Context, js jetstream.JetStream, cluster string) (*bucket, error) {
	name := BucketName(cluster)
	kv, err := js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket:      name,
			Description: "state of weir in cluster " + cluster,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	stream, err := js.Stream(ctx, "KV_"+name)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	b := &bucket{js: js, kv: kv, stream: stream, name: name}
	if err := b.checkSchema(ctx); err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	return b, nil
}

// schema is the value of the key "schema".
type schema struct {
	Version int `json:"version"`
}

// checkSchema refuses a bucket of another schema. It writes our schema into a bucket without one.
func (b *bucket) checkSchema(ctx context.Context) error {
	for range attempts {
		e, err := b.get(ctx, "schema")
		if err != nil {
			return err
		}
		if e.found {
			return acceptSchema(e.value)
		}
		data, err := json.Marshal(schema{Version: schemaVersion})
		if err != nil {
			return err
		}
		_, err = b.update(ctx, "schema", data, e.revision)
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return err
		}
	}
	return fmt.Errorf("read schema: %w", errChanged)
}

func acceptSchema(value []byte) error {
	var s schema
	if err := json.Unmarshal(value, &s); err != nil {
		return fmt.Errorf("%w: its version cannot be read (%w), this weir supports %d", ErrSchema, err, schemaVersion)
	}
	if s.Version != schemaVersion {
		return fmt.Errorf("%w: version %d, this weir supports %d", ErrSchema, s.Version, schemaVersion)
	}
	return nil
}

// subject returns the key's subject in the stream.
func (b *bucket) subject(key string) string { return "$KV." + b.name + "." + key }

// get returns the newest entry of a key. Its revision is the one that update expects, also after a deletion.
func (b *bucket) get(ctx context.Context, key string) (entry, error) {
	m, err := b.stream.GetLastMsgForSubject(ctx, b.subject(key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return entry{}, b.absent(ctx, key)
	}
	if err != nil {
		return entry{}, fmt.Errorf("read %s: %w", key, err)
	}
	deleted := m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != ""
	return entry{revision: m.Sequence, value: m.Data, found: !deleted}, nil
}

// absent returns an error if the key exists but its value is unreadable. The store's lookup finds readable values
// only.
func (b *bucket) absent(ctx context.Context, key string) error {
	return b.list(ctx, []string{key}, func(integrity.Key) error { return nil })
}

// update writes over exactly the given revision and returns the new one. If another revision is the newest, the error
// is jetstream.ErrKeyRevisionMismatch.
func (b *bucket) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	next, err := b.kv.Update(ctx, key, value, revision)
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", key, err)
	}
	return next, nil
}

// erase removes a key's messages up to that revision and, in contrast to a deletion, leaves no marker. Newer messages
// stay.
func (b *bucket) erase(ctx context.Context, key string, revision uint64) error {
	err := b.stream.Purge(ctx, jetstream.WithPurgeSubject(b.subject(key)), jetstream.WithPurgeSequence(revision+1))
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// sequence returns the number of the newest write to the bucket.
func (b *bucket) sequence(ctx context.Context) (uint64, error) {
	info, err := b.stream.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("read bucket %s: %w", b.name, err)
	}
	return info.State.LastSeq, nil
}

// list calls visit with every value whose key matches a filter: a key, or a prefix that ends in ".>". It continues
// after an error of visit and after an unreadable value, and returns all errors.
func (b *bucket) list(ctx context.Context, filters []string, visit func(integrity.Key) error) error {
	contents, err := integrity.Read(ctx, b.js, b.name, filters...)
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
			err = errDamaged
		case !k.Deleted:
			err = visit(k)
		}
		if err != nil {
			unreadable = append(unreadable, fmt.Errorf("read %s: %w", k.Name, err))
		}
	}
	return errors.Join(unreadable...)
}
