package release

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
)

// Bucket is what releases need of an object store. Keys are relative to a
// prefix that the bucket knows. Its errors name the object's URL and the cause,
// and wrap the sentinels of this package; every method may be used concurrently.
type Bucket interface {
	// Get opens an object from a byte on. ErrNotFound; ErrCorrupt if the object
	// ends before that byte. Errors of the reader are classed in the same way.
	Get(ctx context.Context, key string, from int64) (io.ReadCloser, error)
	// Stat tells of an object without its bytes: ErrNotFound.
	Stat(ctx context.Context, key string) (Stat, error)
	// Put writes an object of that size if there is none: ErrExists.
	Put(ctx context.Context, key string, body io.ReadSeeker, size int64) error
	// List yields the keys that begin with a prefix, in byte order, and ends at
	// the first error.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	// URL names an object for people, and the bucket itself for "".
	URL(key string) string
}

// Stat is what a store says of an object.
type Stat struct {
	Size int64  // bytes
	Tag  string // another one after every change of the object; never empty
}

// read returns a small object whole: ErrCorrupt if it is larger than limit.
func read(ctx context.Context, b Bucket, key string, limit int64, wait patience) (data []byte, err error) {
	err = wait.retry(ctx, func(ctx context.Context, _ func()) error {
		body, err := b.Get(ctx, key, 0)
		if err != nil {
			return err
		}
		defer body.Close()
		data, err = io.ReadAll(io.LimitReader(body, limit+1))
		return err
	})
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("read %s: %w: it is larger than %d bytes", b.URL(key), ErrCorrupt, limit)
	}
	return data, nil
}

// write puts an object, and makes attempts until it is there or was before:
// ErrExists.
func write(ctx context.Context, b Bucket, key string, body io.ReadSeeker, size int64) error {
	return patience(DefaultPatience).retry(ctx, func(ctx context.Context, alive func()) error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return b.Put(ctx, key, aliveReader{body, alive}, size)
	})
}

func writeBytes(ctx context.Context, b Bucket, key string, data []byte) error {
	return write(ctx, b, key, bytes.NewReader(data), int64(len(data)))
}
