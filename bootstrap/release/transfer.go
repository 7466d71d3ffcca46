package release

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
)

// progressSteps is the number of progress reports per download.
const progressSteps = 100

// transfer downloads an object of known size into a file that may already contain its beginning.
type transfer struct {
	bucket   Bucket
	key      string
	size     int64
	want     *Digest // nil: any digest
	file     *os.File
	hash     hash.Hash
	done     int64 // bytes written and hashed
	reported int64 // bytes reported to progress
	progress func(done, total int64)
}

func newTransfer(b Bucket, m Manifest, file *os.File, progress func(done, total int64)) *transfer {
	return &transfer{
		bucket: b, key: m.objectKey(), size: m.Object.Size, want: &m.Object.SHA256,
		file: file, hash: sha256.New(), progress: progress,
	}
}

// adopt accepts the file's content as the beginning of the object. The digest is checked at the end.
func (t *transfer) adopt(ctx context.Context) error {
	n, err := io.Copy(t.hash, io.LimitReader(endingReader{ctx, t.file}, t.size+1))
	if err != nil {
		return err
	}
	if n > t.size {
		return t.restart()
	}
	t.done = n
	return nil
}

func (t *transfer) restart() error {
	t.hash.Reset()
	t.done, t.reported = 0, 0
	if err := t.file.Truncate(0); err != nil {
		return err
	}
	_, err := t.file.Seek(0, io.SeekStart)
	return err
}

// finish runs the transfer. If adopted content was wrong, it starts over once.
func (t *transfer) finish(ctx context.Context, wait retryTimeout) error {
	adopted := t.done > 0
	err := t.run(ctx, wait)
	if !adopted || !errors.Is(err, ErrCorrupt) {
		return err
	}
	if err := t.restart(); err != nil {
		return err
	}
	return t.run(ctx, wait)
}

// run writes the rest of the object and compares size and digest. It resumes an interrupted transfer. Each received
// byte restarts the timeout.
func (t *transfer) run(ctx context.Context, wait retryTimeout) error {
	t.progress(t.done, t.size)
	for t.done < t.size {
		before := t.done
		err := wait.retry(ctx, t.resume)
		if errors.Is(err, ErrUnavailable) && t.done > before && ctx.Err() == nil {
			continue
		}
		if err != nil {
			return err
		}
	}
	if got := t.digest(); t.want != nil && got != *t.want {
		return t.corrupt("has sha256 %v, the manifest lists %v", got, *t.want)
	}
	return nil
}

func (t *transfer) digest() Digest { return Digest(t.hash.Sum(nil)) }

// resume reads the object from the current offset to its end.
func (t *transfer) resume(ctx context.Context, alive func()) error {
	body, err := t.bucket.Get(ctx, t.key, t.done)
	if err != nil {
		return err
	}
	defer body.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		if int64(n) > t.size-t.done {
			return t.corrupt("is larger than the %d bytes that it should have", t.size)
		}
		if n > 0 {
			alive()
			if _, err := t.file.Write(buf[:n]); err != nil {
				return err
			}
			t.hash.Write(buf[:n])
			t.done += int64(n)
			t.report()
		}
		switch {
		case err == io.EOF && t.done < t.size:
			return t.corrupt("is truncated: %d of %d bytes", t.done, t.size)
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func (t *transfer) report() {
	if t.done-t.reported >= t.size/progressSteps || t.done == t.size {
		t.reported = t.done
		t.progress(t.done, t.size)
	}
}

func (t *transfer) corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: the archive %s (%s)", ErrCorrupt, fmt.Sprintf(format, args...), t.bucket.URL(t.key))
}
