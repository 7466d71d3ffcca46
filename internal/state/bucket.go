package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// schemaVersion is that of the keys and values in the comment of the package.
const schemaVersion = 1

// maxListed bounds how many keys one listing may have.
const maxListed = 100_000

// ErrSchema: the bucket is of another version of weir, or nobody can tell of
// which. Nothing was changed.
var ErrSchema = errors.New("the bucket has another schema")

var (
	errCutShort = errors.New("the connection was closed before the last one")
	errChanged  = errors.New("it keeps changing")
)

// attempts bounds how often a write is tried over what came in between.
const attempts = 5

// bucket is a cluster's bucket.
type bucket struct {
	kv     jetstream.KeyValue
	stream jetstream.Stream // that of the bucket
	name   string
}

// entry is what the bucket has under a key.
type entry struct {
	revision uint64 // 0: nothing was ever there
	value    []byte
	found    bool // it has a value, which was not deleted
}

// openBucket opens a cluster's bucket, and creates it if it is not there.
func openBucket(ctx context.Context, js jetstream.JetStream, cluster string) (*bucket, error) {
	name := "weir_" + cluster
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
	b := &bucket{kv: kv, stream: stream, name: name}
	if err := b.checkSchema(ctx); err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", name, err)
	}
	return b, nil
}

// schema is the value of the key "schema".
type schema struct {
	Version int `json:"version"`
}

// checkSchema refuses a bucket of another schema, and gives one without a schema
// ours.
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
		return fmt.Errorf("%w: its version cannot be read (%w), this weir knows %d", ErrSchema, err, schemaVersion)
	}
	if s.Version != schemaVersion {
		return fmt.Errorf("%w: version %d, this weir knows %d", ErrSchema, s.Version, schemaVersion)
	}
	return nil
}

// subject is where the stream has a key.
func (b *bucket) subject(key string) string { return "$KV." + b.name + "." + key }

// get returns what is under a key, with the revision that an update expects also
// if that is the mark of a deletion.
func (b *bucket) get(ctx context.Context, key string) (entry, error) {
	m, err := b.stream.GetLastMsgForSubject(ctx, b.subject(key))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return entry{}, nil
	}
	if err != nil {
		return entry{}, fmt.Errorf("read %s: %w", key, err)
	}
	deleted := m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != ""
	return entry{revision: m.Sequence, value: m.Data, found: !deleted}, nil
}

// update writes over the given revision, and no other: then the error is
// jetstream.ErrKeyRevisionMismatch. It returns the new revision.
func (b *bucket) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	next, err := b.kv.Update(ctx, key, value, revision)
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", key, err)
	}
	return next, nil
}

// erase removes what a key had up to that revision and, in contrast to a deletion,
// leaves nothing behind. What is newer stays.
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

// list calls visit with every value whose key a filter matches; a filter is a key,
// or a prefix that ends in ".>". It goes on after an error of visit, and returns
// all of them.
func (b *bucket) list(ctx context.Context, filters []string, visit func(jetstream.KeyValueEntry) error) error {
	asked := fmt.Sprintf("list %v", filters)
	ctx, cancel := context.WithCancel(ctx) // ends the watch
	defer cancel()
	watch, err := b.kv.WatchFiltered(ctx, filters, jetstream.IgnoreDeletes())
	if err != nil {
		return fmt.Errorf("%s: %w", asked, err)
	}
	var unreadable []error
	for seen := 0; ; seen++ {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", asked, context.Cause(ctx))
		case e, open := <-watch.Updates():
			switch {
			case !open:
				return fmt.Errorf("%s: %w", asked, errCutShort)
			case e == nil: // that was the last one
				return errors.Join(unreadable...)
			case seen == maxListed:
				return fmt.Errorf("%s: more than %d keys", asked, maxListed)
			}
			if err := visit(e); err != nil {
				unreadable = append(unreadable, fmt.Errorf("read %s: %w", e.Key(), err))
			}
		}
	}
}
