package authd

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// maxKey bounds a stored key, in bytes.
const maxKey = 128

// bindings keeps the key of each node in a bucket of its own, under identity.NODE. A key is written once.
type bindings struct {
	js      jetstream.JetStream
	cluster string
}

func (b bindings) bucket() *kvbucket.Bucket { return kvbucket.New(b.js, names.AuthBucket(b.cluster)) }

// Bound implements identity.Bindings.
func (b bindings) Bound(ctx context.Context, node string) (string, error) {
	key, _, err := b.get(ctx, node)
	return key, err
}

// get returns the key of a node, empty if it is not stored, and the revision over which Bind writes.
func (b bindings) get(ctx context.Context, node string) (key string, revision uint64, err error) {
	e, err := b.bucket().Get(ctx, "identity."+node)
	if err != nil || !e.Found {
		return "", e.Revision, err
	}
	if n := len(e.Value); n == 0 || n > maxKey {
		return "", 0, fmt.Errorf("read key identity.%s: it has %d bytes and is not an nkey: delete it", node, n)
	}
	return string(e.Value), e.Revision, nil
}

// Bind implements identity.Bindings. A write that timed out is unknown: the caller tries again and reads it then.
func (b bindings) Bind(ctx context.Context, node, key string) (string, error) {
	bound, revision, err := b.get(ctx, node)
	if err != nil || bound != "" {
		return bound, err
	}
	_, err = b.bucket().Update(ctx, "identity."+node, []byte(key), revision)
	if err == nil {
		return key, nil
	}
	if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return "", err
	}
	bound, err = b.Bound(ctx, node)
	if err == nil && bound == "" {
		err = fmt.Errorf("read key identity.%s: it exists, and the server returns an older state", node)
	}
	return bound, err
}
