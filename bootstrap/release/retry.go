package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
)

// defaultRetryTimeout bounds how long an unavailable bucket is retried.
const defaultRetryTimeout = 15 * time.Second

// retryTimeout bounds how long a bucket is retried after errors, and how long a transfer may be silent.
type retryTimeout time.Duration

// retry calls attempt until it succeeds, fails with another error than ErrUnavailable, or the timeout or ctx ends.
// attempt calls alive on progress. Without progress for the timeout, the context of the attempt ends.
func (p retryTimeout) retry(ctx context.Context, attempt func(ctx context.Context, alive func()) error) error {
	again := retry.Policy{First: 100 * time.Millisecond, Longest: 2 * time.Second, For: time.Duration(p)}
	return again.Do(ctx, func(err error) bool { return errors.Is(err, ErrUnavailable) },
		func() (time.Duration, error) { return 0, p.once(ctx, attempt) })
}

func (p retryTimeout) once(ctx context.Context, attempt func(ctx context.Context, alive func()) error) error {
	silent := fmt.Errorf("%w: silent for %v", ErrUnavailable, time.Duration(p))
	watched, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(time.Duration(p), func() { cancel(silent) })
	defer timer.Stop()
	err := attempt(watched, func() { timer.Reset(time.Duration(p)) })
	if err != nil && context.Cause(watched) == silent {
		return fmt.Errorf("%w: %w", silent, err)
	}
	return err
}

// aliveReader calls alive for each successful read.
type aliveReader struct {
	io.ReadSeeker
	alive func()
}

func (r aliveReader) Read(p []byte) (int, error) {
	n, err := r.ReadSeeker.Read(p)
	if n > 0 {
		r.alive()
	}
	return n, err
}

// progressReader reports the position after each read.
type progressReader struct {
	in        io.ReadSeeker
	at, total int64 // bytes
	report    func(done, total int64)
}

func (r *progressReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	if r.at += int64(n); n > 0 && r.report != nil {
		r.report(r.at, r.total)
	}
	return n, err
}

func (r *progressReader) Seek(offset int64, whence int) (int64, error) {
	at, err := r.in.Seek(offset, whence)
	if err == nil {
		r.at = at
	}
	return at, err
}
