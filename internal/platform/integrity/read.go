package integrity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

const (
	readers     = 32 // concurrent requests
	callTimeout = 5 * time.Second
	batchKeys   = 500
	// replicaLag is how long a replica or a former leader may be behind. After it, what they return counts.
	replicaLag = 2 * time.Second
	relist     = 50 * time.Millisecond // before the same is read again
)

// Key is the newest entry of one key.
type Key struct {
	Name     string
	Revision uint64 // 0 if Damaged
	Deleted  bool   // by a delete marker
	Damaged  bool   // the store lists the key but cannot return its value
	Forged   bool   // another client made the server store the value
	Value    []byte
	At       time.Time // when the value was stored; zero: unknown
}

// Contents is one reading of a bucket.
type Contents struct {
	Created time.Time // of the bucket
	Last    uint64    // its last sequence before the keys were read
	// Next is the sequence from which a reader of changes receives every change that is not in the contents. It may repeat some.
	Next uint64
	Keys []Key // in order of revision, damaged keys first
}

// Unreadable returns a problem for each key with an unreadable value.
func (c Contents) Unreadable(bucket string) (all []Problem) {
	for _, k := range c.Keys {
		if p, wrong := k.problem(bucket, "a value"); wrong {
			all = append(all, p)
		}
	}
	return all
}

// problem returns the problem of a value that its reader must not use.
func (k Key) problem(bucket, expected string) (p Problem, wrong bool) {
	p = damaged(bucket, k.Name, expected)
	if k.Forged {
		p.Found = forgedValue
	}
	return p, k.Damaged || k.Forged
}

// Read returns the entries of a bucket that match a filter, including delete markers; without a filter all entries. An
// unreadable message has its key only.
//
// The leader of the stream lists the keys, and any replica returns their values, in one request for 500 of them. So no key is
// missing, and a value may be older than the newest one. Without a quorum the error is kvbucket.ErrNoQuorum, because such a
// reading proves nothing.
func Read(ctx context.Context, js jetstream.JetStream, bucket string, filters ...string) (Contents, error) {
	return read(ctx, js, bucket, filters, expected{})
}

// ReadSince is Read from a leader that has applied the write of that sequence. It waits for one until ctx ends. A
// leader that was replaced does not have the write. So the listing has every key that was written before it.
func ReadSince(ctx context.Context, js jetstream.JetStream, bucket string, sequence uint64, filters ...string) (Contents, error) {
	return read(ctx, js, bucket, filters, expected{last: sequence, required: true})
}

// expected is what a reader has read before.
type expected struct {
	created  time.Time               // of the bucket; zero: none was read. A newer bucket never gets the revisions of this one.
	last     uint64                  // sequence of the bucket
	required bool                    // nothing older than last may be returned
	revision func(key string) uint64 // nil: no key was read
}

// read implements Read. What lags behind the expected revisions is read again, for replicaLag at most.
func read(ctx context.Context, js jetstream.JetStream, bucket string, filters []string, e expected) (Contents, error) {
	r, err := newReader(ctx, js, bucket, e)
	if err != nil {
		return Contents{}, fmt.Errorf("read bucket %s: %w", bucket, err)
	}
	c := Contents{Created: r.info.Created, Last: r.info.State.LastSeq, Next: 1}
	filter := ">"
	if len(filters) == 1 {
		filter = filters[0]
	}
	names, err := r.list(ctx, filter)
	if err != nil {
		return Contents{}, fmt.Errorf("list keys %s of bucket %s: %w", filter, bucket, err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !matches(filters, name) })
	slices.Sort(names)
	if len(names) > 0 {
		var keys []Key
		keys, c.Next, err = r.many(ctx, filter)
		if err != nil {
			return Contents{}, fmt.Errorf("read bucket %s: %w", bucket, err)
		}
		for _, k := range keys {
			if matches(filters, k.Name) {
				c.Keys = append(c.Keys, k)
			}
		}
		names = without(names, c.Keys)
	}
	single, err := r.all(ctx, names)
	if err != nil {
		return Contents{}, fmt.Errorf("read bucket %s: %w", bucket, err)
	}
	c.Keys = append(c.Keys, single...)
	for _, k := range single { // of behind an unreadable message, where a batch ends
		c.Next = max(c.Next, k.Revision+1)
	}
	slices.SortStableFunc(c.Keys, func(a, b Key) int { return cmp.Compare(a.Revision, b.Revision) })
	return c, nil
}

// without returns the names that are not among the keys.
func without(names []string, keys []Key) []string {
	existing := make(map[string]bool, len(keys))
	for _, k := range keys {
		existing[k.Name] = true
	}
	return slices.DeleteFunc(names, func(name string) bool { return existing[name] })
}

type reader struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	info   *jetstream.StreamInfo // before the keys are listed
	kv     *kvbucket.Bucket
	prefix string // of the subjects
	least  func(key string) uint64
	other  bool // the bucket is newer than the expected one
}

// newReader returns a reader of a bucket whose leader has the expected sequence.
func newReader(ctx context.Context, js jetstream.JetStream, bucket string, e expected) (reader, error) {
	stream, err := kvbucket.Check(ctx, js, bucket)
	if err != nil {
		return reader{}, err
	}
	r := reader{js, stream, stream.CachedInfo(), kvbucket.New(js, bucket), "$KV." + bucket + ".", e.revision, false}
	r.other = !e.created.IsZero() && r.info.Created.After(e.created)
	if r.least == nil {
		r.least = func(string) uint64 { return 0 }
	}
	for began := time.Now(); r.info.State.LastSeq < e.last && (e.required || r.lagging(began)); {
		if !retry.Pause(ctx, relist) {
			return reader{}, context.Cause(ctx)
		}
		if r.info, err = stream.Info(ctx); err != nil {
			return reader{}, err
		}
	}
	return r, nil
}

// lagging reports whether a replica may still be behind.
func (r reader) lagging(began time.Time) bool {
	return !r.other && kvbucket.Replicated(r.info) && time.Since(began) < replicaLag
}

// list returns the matching keys from the store's index.
func (r reader) list(ctx context.Context, filter string) ([]string, error) {
	info, err := r.stream.Info(ctx, jetstream.WithSubjectFilter(r.prefix+filter))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		names = append(names, strings.TrimPrefix(subject, r.prefix))
	}
	return names, nil
}

// many reads keys by batches, until the last one or an unreadable message, and returns the sequence after them. It omits keys
// below their least revision.
func (r reader) many(ctx context.Context, filter string) (keys []Key, next uint64, err error) {
	newest := map[string]Key{}
	next = 1
	for more := true; more; {
		messages, pending, err := streams.Batch(ctx, r.js, kvbucket.Stream(r.kv.Name()), streams.Request{Sequence: next, Subject: r.prefix + filter, Count: batchKeys})
		if err != nil {
			return nil, 0, err
		}
		for _, m := range messages {
			k := KeyOf(r.kv.Name(), m)
			newest[k.Name] = k
			next = m.Sequence + 1
		}
		more = pending > 0 && len(messages) > 0
	}
	for name, k := range newest {
		if k.Revision >= r.least(name) {
			keys = append(keys, k)
		}
	}
	return keys, next, nil
}

// KeyOf returns the entry of a stored message of a bucket.
func KeyOf(bucket string, m bus.Stored) Key {
	return Key{
		Name: strings.TrimPrefix(m.Subject, "$KV."+bucket+"."), Revision: m.Sequence, Deleted: !m.Forged && kvbucket.IsDeleted(m.Header),
		Forged: m.Forged, Value: m.Data, At: m.At,
	}
}

// all reads the keys concurrently. It omits keys that have disappeared.
func (r reader) all(ctx context.Context, names []string) ([]Key, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	keys := make([]*Key, len(names))
	var wg sync.WaitGroup
	for worker := range min(readers, len(names)) {
		wg.Go(func() {
			for i := worker; i < len(names) && ctx.Err() == nil; i += readers {
				var err error
				if keys[i], err = r.key(ctx, names[i]); err != nil {
					cancel(fmt.Errorf("read key %s: %w", names[i], err))
				}
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	var out []Key
	for _, k := range keys {
		if k != nil {
			out = append(out, *k)
		}
	}
	return out, nil
}

// key reads one key; nil if it no longer exists.
func (r reader) key(ctx context.Context, name string) (*Key, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for began := time.Now(); ; {
		e, err := r.kv.Get(ctx, name)
		switch {
		case errors.Is(err, kvbucket.ErrDamaged):
			return &Key{Name: name, Damaged: true}, nil
		case errors.Is(err, kvbucket.ErrForged):
			return &Key{Name: name, Revision: e.Revision, Forged: true, Value: e.Value}, nil
		case err != nil || e.Revision == 0:
			return nil, err
		case e.Revision >= r.least(name) || !r.lagging(began):
			return &Key{Name: name, Revision: e.Revision, Deleted: !e.Found, Value: e.Value}, nil
		}
		if !retry.Pause(ctx, relist) {
			return nil, context.Cause(ctx)
		}
	}
}
