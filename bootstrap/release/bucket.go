package release

import (
	"context"
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
	// Put writes an object of that size if there is none: ErrExists.
	Put(ctx context.Context, key string, body io.ReadSeeker, size int64) error
	// List yields the keys that begin with a prefix, in byte order, and ends at
	// the first error.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	// URL names an object for people, and the bucket itself for "".
	URL(key string) string
}
