package release

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
)

// Bucket is the part of an object store that releases need. Keys are relative to the bucket's prefix. Errors name the
// object's URL and the cause, and wrap the sentinels of this package. All methods may be called concurrently.
type Bucket interface {
	// Get opens an object at the byte offset from. It returns ErrNotFound, or ErrCorrupt if the object is shorter. The
	// reader returns errors of the same classes.
	Get(ctx context.Context, key string, from int64) (io.ReadCloser, error)
	// Stat returns size and tag of an object, or ErrNotFound.
	Stat(ctx context.Context, key string) (Stat, error)
	// Put writes an object of that size, or returns ErrExists if the key exists.
	Put(ctx context.Context, key string, body io.ReadSeeker, size int64) error
	// List yields the keys with a prefix in byte order. It ends at the first error.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	// URL returns the name of an object for messages; for "" that of the bucket.
	URL(key string) string
}

// Stat describes a stored object.
type Stat struct {
	Size int64  // bytes
	Tag  string // differs after every change of the object; never empty
}

// read returns the whole content of a small object. It returns ErrCorrupt if the object is larger than limit.
func read(ctx context.Context, b Bucket, key string, limit int64, wait retryTimeout) (data []byte, err error) {
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
		return nil, fmt.Errorf("read: %w: it is larger than %d bytes (%s)", ErrCorrupt, limit, b.URL(key))
	}
	return data, nil
}

// write puts an object and retries until it exists. It returns ErrExists if the object existed before.
func write(ctx context.Context, b Bucket, key string, body io.ReadSeeker, size int64) error {
	return retryTimeout(defaultRetryTimeout).retry(ctx, func(ctx context.Context, alive func()) error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return b.Put(ctx, key, aliveReader{body, alive}, size)
	})
}

func writeBytes(ctx context.Context, b Bucket, key string, data []byte) error {
	return write(ctx, b, key, bytes.NewReader(data), int64(len(data)))
}
