package migrate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

// maxKeys bounds the keys of one bucket.
const maxKeys = 200_000

// oldBuckets are the streams of a cluster's old buckets; nil: missing.
type oldBuckets struct{ state, apps jetstream.Stream }

func (b oldBuckets) exist() bool { return b.state != nil || b.apps != nil }

// openOld finds the old buckets of the cluster. A name ending in _apps is ambiguous: only a bucket of state has a schema.
func (m *migration) openOld(ctx context.Context) (b oldBuckets, err error) {
	state, apps := OldBucket(m.Cluster), OldAppsBucket(m.Cluster)
	if b.state, err = m.stream(ctx, state); err != nil {
		return b, err
	}
	if b.state != nil {
		has, err := m.isState(ctx, state)
		if err != nil {
			return b, err
		}
		if !has {
			b.state = nil
		}
	}
	if b.apps, err = m.stream(ctx, apps); err != nil || b.apps == nil {
		return b, err
	}
	if has, err := m.isState(ctx, apps); err != nil || has {
		b.apps = nil
		return b, err
	}
	return b, nil
}

// isState reports whether a bucket is one of state. An application may have the name "schema": its row has a name.
func (m *migration) isState(ctx context.Context, bucket string) (bool, error) {
	stream, err := m.stream(ctx, bucket)
	if err != nil || stream == nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	message, err := stream.GetLastMsgForSubject(ctx, "$KV."+bucket+"."+schemaKey)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the schema of bucket %s: %w", bucket, err)
	}
	var row struct {
		Name    string `json:"name"`
		Version any    `json:"version"`
	}
	number := false
	if json.Unmarshal(message.Data, &row) == nil {
		_, number = row.Version.(float64)
	}
	return number && row.Name == "", nil
}

// stream returns the stream of a bucket, or nil if it is missing.
func (m *migration) stream(ctx context.Context, bucket string) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	s, err := m.JS.Stream(ctx, "KV_"+bucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", bucket, err)
	}
	return s, nil
}

// contents are the live keys of the old buckets, in order of revision.
type contents struct{ state, apps []integrity.Key }

// readOld reads the old buckets. An unreadable value is an error that names its key.
func (m *migration) readOld(ctx context.Context, b oldBuckets) (c contents, err error) {
	if b.state != nil {
		if c.state, err = m.read(ctx, OldBucket(m.Cluster)); err != nil {
			return c, err
		}
	}
	if b.apps != nil {
		c.apps, err = m.read(ctx, OldAppsBucket(m.Cluster))
	}
	return c, err
}

func (m *migration) read(ctx context.Context, bucket string) (live []integrity.Key, err error) {
	all, err := integrity.Read(ctx, m.JS, bucket)
	if err != nil {
		return nil, fmt.Errorf("read bucket %s: %w", bucket, err)
	}
	if len(all.Keys) > maxKeys {
		return nil, fmt.Errorf("read bucket %s: it has %d keys, at most %d", bucket, len(all.Keys), maxKeys)
	}
	var damaged []error
	for _, k := range all.Keys {
		switch {
		case k.Damaged:
			damaged = append(damaged, fmt.Errorf("bucket %s, key %s: the store cannot read its value: delete the key, and run the command again", bucket, k.Name))
		case !k.Deleted:
			live = append(live, k)
		}
	}
	return live, errors.Join(damaged...)
}

// checkAlarms refuses data that a reader reports as damaged or lost: the new bucket has no trace of a loss.
func (m *migration) checkAlarms(old contents) error {
	var readers []string
	for _, k := range old.state {
		if reader, ok := strings.CutPrefix(k.Name, "alarm."); ok {
			readers = append(readers, reader)
		}
	}
	if len(readers) == 0 || m.IgnoreAlarms {
		return nil
	}
	return fmt.Errorf("readers report damaged or lost data (%s): see \"weir state check\" and \"weir state accept\" of the old version, "+
		"or migrate the data as it is with --ignore-alarms", strings.Join(readers, ", "))
}

// pair is one key with its value.
type pair struct {
	key   string
	value []byte
}

// plan has the keys of each new bucket, in the order in which they are written.
type plan map[string][]pair

// plan returns what the new buckets must have. Schema, alarms and acceptances belong to the old bucket.
func (m *migration) plan(old contents) plan {
	p := plan{}
	for _, k := range old.state {
		bucket, value := names.StateBucket(m.Cluster), k.Value
		kind, _, _ := strings.Cut(k.Name, ".")
		switch {
		case k.Name == schemaKey || kind == "alarm" || kind == "accept" || k.Name == ownLease:
			continue
		case kind == "order":
			bucket = names.OrdersBucket(m.Cluster)
		case kind == "lease":
			value = releasedClaim(k, m.TTL)
		}
		p[bucket] = append(p[bucket], pair{k.Name, value})
	}
	for _, k := range old.apps {
		p[names.AppsBucket(m.Cluster)] = append(p[names.AppsBucket(m.Cluster)], pair{k.Name, k.Value})
	}
	return p
}

// releasedClaim returns the value of a lease in the new bucket: the same epoch, released.
func releasedClaim(k integrity.Key, ttl time.Duration) []byte {
	c := readClaim(k.Value, k.Revision, ttl)
	c.Released = true
	data, _ := json.Marshal(c) // a struct of strings and numbers: no error is possible
	return data
}

func (m *migration) count(p plan) {
	m.result.State = len(p[names.StateBucket(m.Cluster)])
	m.result.Orders = len(p[names.OrdersBucket(m.Cluster)])
	m.result.Apps = len(p[names.AppsBucket(m.Cluster)])
}

// newBuckets returns the names of a cluster's new buckets, the state first.
func newBuckets(cluster string) []string {
	return []string{names.StateBucket(cluster), names.OrdersBucket(cluster), names.AppsBucket(cluster)}
}

// copyKeys makes the new buckets equal to the old ones.
func (m *migration) copyKeys(ctx context.Context, b oldBuckets) error {
	old, err := m.readOld(ctx, b)
	if err != nil {
		return err
	}
	p := m.plan(old)
	m.count(p)
	m.result.Kept = nil
	for _, bucket := range newBuckets(m.Cluster) {
		if m.held != nil {
			m.progress("bucket %s: %d keys", bucket, len(p[bucket]))
		} else {
			m.progress("bucket %s: compare %d keys", bucket, len(p[bucket]))
		}
		if err := m.equalize(ctx, bucket, p[bucket]); err != nil {
			return err
		}
	}
	return nil
}

// equalize writes what differs from the wanted keys, and deletes other keys of an earlier run. Keys that another process
// wrote stay: in the bucket of state they are an error.
func (m *migration) equalize(ctx context.Context, bucket string, want []pair) error {
	all, err := integrity.Read(ctx, m.JS, bucket)
	if err != nil {
		return fmt.Errorf("read bucket %s: %w", bucket, err)
	}
	existing := make(map[string]integrity.Key, len(all.Keys))
	for _, k := range all.Keys {
		existing[k.Name] = k
	}
	for _, w := range want {
		k := existing[w.key]
		delete(existing, w.key)
		if k.Revision != 0 && !k.Deleted && string(k.Value) == string(w.value) {
			continue
		}
		if err := m.replace(ctx, bucket, k, &nats.Msg{Data: w.value}, w.key); err != nil {
			return err
		}
	}
	for key, k := range existing {
		if k.Deleted || key == schemaKey && hasSchema(m.Cluster, bucket) {
			continue
		}
		if err := m.replace(ctx, bucket, k, &nats.Msg{Header: nats.Header{"KV-Operation": {"DEL"}, "Nats-TTL": {"1h"}}}, key); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a message over an entry, unless another process wrote the entry.
func (m *migration) replace(ctx context.Context, bucket string, old integrity.Key, message *nats.Msg, key string) error {
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	message.Subject = "$KV." + bucket + "." + key
	if old.Revision != 0 {
		ours, err := m.ours(ctx, bucket, message.Subject, old.Revision)
		if err != nil {
			return fmt.Errorf("read %s of bucket %s: %w", key, bucket, err)
		}
		if !ours && bucket == names.StateBucket(m.Cluster) {
			return fmt.Errorf("bucket %s, key %s: another process wrote it: stop all daemons, and run the command again", bucket, key)
		}
		if !ours {
			m.result.Kept = append(m.result.Kept, bucket+" "+key)
			m.progress("bucket %s, key %s: another process wrote it, it stays as it is", bucket, key)
			return nil
		}
	}
	if message.Header == nil {
		message.Header = nats.Header{}
	}
	message.Header.Set(state.MigratedHeader, OldBucket(m.Cluster))
	_, err := m.JS.PublishMsg(ctx, message, jetstream.WithExpectLastSequencePerSubject(old.Revision), jetstream.WithExpectStream("KV_"+bucket))
	if err != nil {
		return fmt.Errorf("write %s of bucket %s: %w", key, bucket, err)
	}
	return nil
}

// ours reports whether a migration wrote that revision.
func (m *migration) ours(ctx context.Context, bucket, subject string, revision uint64) (bool, error) {
	stream, err := m.JS.Stream(ctx, "KV_"+bucket)
	if err != nil {
		return false, err
	}
	message, err := stream.GetLastMsgForSubject(ctx, subject)
	if err != nil {
		return false, err
	}
	return message.Sequence == revision && message.Header.Get(state.MigratedHeader) != "", nil
}

// verify compares the new buckets with the sealed ones, and returns the digest of all keys and values.
func (m *migration) verify(ctx context.Context, b oldBuckets) (string, error) {
	old, err := m.readOld(ctx, b)
	if err != nil {
		return "", err
	}
	p := m.plan(old)
	h := sha256.New()
	for _, bucket := range newBuckets(m.Cluster) {
		live, err := m.read(ctx, bucket)
		if err != nil {
			return "", err
		}
		copied := make(map[string][]byte, len(live))
		for _, k := range live {
			copied[k.Name] = k.Value
		}
		slices.SortFunc(p[bucket], func(a, b pair) int { return cmp.Compare(a.key, b.key) })
		for _, w := range p[bucket] {
			value, ok := copied[w.key]
			if (!ok || string(value) != string(w.value)) && !slices.Contains(m.result.Kept, bucket+" "+w.key) {
				return "", fmt.Errorf("compare bucket %s: key %s differs from its source: stop all daemons, and run the command again", bucket, w.key)
			}
			fmt.Fprintf(h, "%q %q %x\n", bucket, w.key, sha256.Sum256(w.value))
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
