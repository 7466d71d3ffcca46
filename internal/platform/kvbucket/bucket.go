package kvbucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

// MarkerTTL is how long a marker of Erase stays.
const MarkerTTL = time.Hour

const (
	headerOperation = "KV-Operation" // of a delete marker
	deleted         = "DEL"
	notFound        = "404" // status of a direct get
	// replicaLag is how long a replica may lag behind the leader before a value that only the leader lists counts as
	// damaged.
	replicaLag = 2 * time.Second
	relist     = 50 * time.Millisecond
)

// Entry is the newest message of a key.
type Entry struct {
	Revision uint64 // that Update expects, also after a deletion; 0: the key has no message
	Value    []byte
	Found    bool // there is a value, and it is not deleted
}

// Bucket is one bucket. It needs no request to open, so it stays valid if the bucket is created again.
type Bucket struct {
	js   jetstream.JetStream
	name string
}

// New returns a bucket, which may be missing.
func New(js jetstream.JetStream, name string) *Bucket { return &Bucket{js, name} }

// Name returns the name of the bucket.
func (b *Bucket) Name() string { return b.name }

// JetStream returns the streams of the server of the bucket.
func (b *Bucket) JetStream() jetstream.JetStream { return b.js }

func subject(bucket, key string) string { return "$KV." + bucket + "." + key }

// IsDeleted reports whether the header is one of a delete marker.
func IsDeleted(h nats.Header) bool {
	return h.Get(headerOperation) != "" || h.Get(jetstream.MarkerReasonHeader) != ""
}

// Get returns the newest entry of a key that a replica has. If the leader lists the key and no replica can read it, the
// error is ErrDamaged. If the value was stored with headers that only the server sets, the error is ErrForged, beside the entry.
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	e, err := b.Direct(ctx, key)
	if err != nil || e.Revision != 0 {
		return e, err
	}
	for began := time.Now(); ; {
		listed, replicated, err := b.lists(ctx, key)
		if err != nil || !listed {
			return Entry{}, wrap("read", key, err)
		}
		// The key may have been written after the first read.
		if e, err = b.Direct(ctx, key); err != nil || e.Revision != 0 {
			return e, err
		}
		if !replicated || time.Since(began) > replicaLag {
			return Entry{}, wrap("read", key, ErrDamaged)
		}
		if !retry.Pause(ctx, relist) {
			return Entry{}, wrap("read", key, context.Cause(ctx))
		}
	}
}

// directTimeout bounds one direct get: a request that a broken connection has lost gets no answer.
const directTimeout = 10 * time.Second

// Direct returns the entry of a key that one replica has. A key that the replica cannot read has no entry.
func (b *Bucket) Direct(ctx context.Context, key string) (Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	api := "$JS.API.DIRECT.GET." + Stream(b.name) + "." + subject(b.name, key)
	m, err := bus.Request(ctx, b.js.Conn(), api, nil)
	if errors.Is(err, nats.ErrNoResponders) {
		return Entry{}, wrap("read", key, b.cause(ctx, err))
	}
	if err != nil {
		return Entry{}, wrap("read", key, Explain(b.js.Conn(), api, err))
	}
	stored, status, err := bus.ReadStored(m)
	switch {
	case err != nil:
		return Entry{}, wrap("read", key, err)
	case status == notFound:
		return Entry{}, nil
	case status != "":
		return Entry{}, fmt.Errorf("read %s: NATS answers with status %.80q %.80q", key, status, m.Header.Get("Description"))
	case stored.Forged:
		return Entry{Revision: stored.Sequence, Value: stored.Data, Found: true}, wrap("read", key, ErrForged)
	}
	return Entry{Revision: stored.Sequence, Value: stored.Data, Found: !IsDeleted(stored.Header)}, nil
}

// lists reports whether the leader lists a key, and whether the bucket has replicas.
func (b *Bucket) lists(ctx context.Context, key string) (listed, replicated bool, err error) {
	stream, err := Check(ctx, b.js, b.name)
	if err != nil {
		return false, false, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject(b.name, key)))
	if err != nil {
		return false, false, Explain(b.js.Conn(), "$JS.API.STREAM.INFO."+Stream(b.name), err)
	}
	return len(info.State.Subjects) > 0, Replicated(info), nil
}

// Replicated reports whether a stream has replicas, which may lag behind its leader.
func Replicated(info *jetstream.StreamInfo) bool {
	return info.Cluster != nil && len(info.Cluster.Replicas) > 0
}

// Update writes over exactly the given revision and returns the new one. If another revision is the newest, the error
// is jetstream.ErrKeyRevisionMismatch. If the server does not answer, it is ErrUnknown.
func (b *Bucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	next, err := b.publish(ctx, key, &nats.Msg{Data: value}, jetstream.WithExpectLastSequencePerSubject(revision))
	return next, wrap("write", key, err)
}

// Put writes over any revision and returns the new one.
func (b *Bucket) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	next, err := b.publish(ctx, key, &nats.Msg{Data: value})
	return next, wrap("write", key, err)
}

// Erase writes a delete marker over exactly the given revision. The server drops the marker after MarkerTTL. Errors are
// those of Update.
func (b *Bucket) Erase(ctx context.Context, key string, revision uint64) (uint64, error) {
	next, err := b.publish(ctx, key, marker(), jetstream.WithExpectLastSequencePerSubject(revision), jetstream.WithMsgTTL(MarkerTTL))
	return next, wrap("delete", key, err)
}

// Delete writes a delete marker that stays, over exactly the given revision. Errors are those of Update.
func (b *Bucket) Delete(ctx context.Context, key string, revision uint64) (uint64, error) {
	next, err := b.publish(ctx, key, marker(), jetstream.WithExpectLastSequencePerSubject(revision))
	return next, wrap("delete", key, err)
}

func marker() *nats.Msg { return &nats.Msg{Header: nats.Header{headerOperation: []string{deleted}}} }

func (b *Bucket) publish(ctx context.Context, key string, m *nats.Msg, options ...jetstream.PublishOpt) (uint64, error) {
	m.Subject = subject(b.name, key)
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	ack, err := b.js.PublishMsg(ctx, m, options...)
	if err == nil {
		return ack.Sequence, nil
	}
	api, isAPI := errors.AsType[*jetstream.APIError](err)
	switch {
	case isAPI && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return 0, fmt.Errorf("%w: %w", err, jetstream.ErrKeyRevisionMismatch)
	case errors.Is(err, jetstream.ErrNoStreamResponse): // the server delivered it to no stream
		return 0, b.cause(ctx, err)
	}
	err = Explain(b.js.Conn(), m.Subject, err)
	if errors.Is(err, ErrNoAnswer) {
		err = fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return 0, err
}

// cause returns why no server has the bucket.
func (b *Bucket) cause(ctx context.Context, err error) error {
	if _, why := Check(ctx, b.js, b.name); why != nil {
		return fmt.Errorf("%w: %w", why, err)
	}
	return fmt.Errorf("%w: %w", ErrNoAnswer, err)
}

// wrap adds the attempted action to an error.
func wrap(verb, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", verb, key, err)
}
