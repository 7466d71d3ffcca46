package authd

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// maxKey bounds a stored key, in bytes.
const maxKey = 128

// bindings keeps the key of each node in the cluster's state bucket, under identity.NODE. A key is written once.
type bindings struct {
	js      jetstream.JetStream
	cluster string
}

func (b bindings) open(ctx context.Context) (jetstream.KeyValue, error) {
	kv, err := b.js.KeyValue(ctx, names.StateBucket(b.cluster))
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w; the cluster's first daemon creates it", names.StateBucket(b.cluster), err)
	}
	return kv, nil
}

// Bound implements identity.Bindings.
func (b bindings) Bound(ctx context.Context, node string) (string, error) {
	kv, err := b.open(ctx)
	if err != nil {
		return "", err
	}
	entry, err := kv.Get(ctx, "identity."+node)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read key identity.%s: %w", node, err)
	}
	if n := len(entry.Value()); n == 0 || n > maxKey {
		return "", fmt.Errorf("read key identity.%s: it has %d bytes and is not an nkey: delete it", node, n)
	}
	return string(entry.Value()), nil
}

// Bind implements identity.Bindings. A write that timed out is unknown: the caller tries again and reads it then.
func (b bindings) Bind(ctx context.Context, node, key string) (string, error) {
	kv, err := b.open(ctx)
	if err != nil {
		return "", err
	}
	_, err = kv.Create(ctx, "identity."+node, []byte(key))
	if err == nil {
		return key, nil
	}
	if !errors.Is(err, jetstream.ErrKeyExists) {
		return "", fmt.Errorf("write key identity.%s: %w", node, err)
	}
	bound, err := b.Bound(ctx, node)
	if err == nil && bound == "" {
		err = fmt.Errorf("read key identity.%s: it exists, and the server returns an older state", node)
	}
	return bound, err
}
