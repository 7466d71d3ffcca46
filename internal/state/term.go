package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/integrity"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	// relist is the wait before a listing is repeated because the server lags behind.
	relist = 50 * time.Millisecond
	// takeoverTimeout bounds a takeover, which writes each key.
	takeoverTimeout = time.Minute
)

// errRemoved: the value to take over was removed.
var errRemoved = errors.New("the last holder removed it")

// term is one term of a lease. It writes values with its epoch. It is safe for concurrent use.
type term struct {
	bucket store
	lease  *Lease
	epoch  uint64
}

// check returns pools.ErrNotHolder if the term has ended.
func (t term) check() error {
	if epoch := t.lease.Epoch(); epoch != t.epoch {
		return fmt.Errorf("%w: the lease was acquired again, with epoch %d after %d", pools.ErrNotHolder, epoch, t.epoch)
	}
	if t.lease.Left() <= 0 {
		return fmt.Errorf("%w: the lease expired", pools.ErrNotHolder)
	}
	return nil
}

func (t term) outdated(key string, epoch uint64) error {
	return fmt.Errorf("%w: %s has epoch %d, ours is %d", pools.ErrNotHolder, key, epoch, t.epoch)
}

// write writes a value with our epoch over a revision, and returns the new one. Another revision in the bucket is an
// earlier write of ours whose answer was lost, or one of a former holder. write replaces both.
func (t term) write(ctx context.Context, key string, body []byte, revision uint64) (uint64, error) {
	value, err := sealed{epoch: t.epoch, body: body}.encode()
	if err != nil {
		return 0, fmt.Errorf("write %s: %w", key, err)
	}
	for range attempts {
		next, err := t.bucket.update(ctx, key, value, revision)
		if err == nil || !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return next, err
		}
		if revision, err = t.overwritable(ctx, key); err != nil {
			return 0, fmt.Errorf("write %s: %w", key, err)
		}
	}
	return 0, fmt.Errorf("write %s: %w", key, errChanged)
}

// overwritable returns the current revision of a key, 0 if it is missing. It returns pools.ErrNotHolder if the value
// has a higher epoch or the lease is lost. A removed key has no epoch, so the lease decides.
func (t term) overwritable(ctx context.Context, key string) (uint64, error) {
	e, err := t.bucket.get(ctx, key)
	if err != nil {
		return 0, err
	}
	if e.found {
		// No process reads an unreadable value, so it may be overwritten.
		if s, err := decodeSealed(e.value); err == nil && s.epoch > t.epoch {
			return 0, t.outdated(key, s.epoch)
		}
	}
	_, err = confirm(ctx, t.bucket, t.lease.key, t.lease.config.Holder, t.epoch)
	return e.revision, err
}

// survey returns all entries that the filters match, by key, read after our takeover of the lease.
func (t term) survey(ctx context.Context, filters ...string) (map[string]entry, error) {
	for {
		all, err := t.list(ctx, append(filters, t.lease.key))
		if err != nil {
			return nil, err
		}
		// A replica may lag behind. Values from before our takeover count.
		asOf := all[t.lease.key].revision
		delete(all, t.lease.key)
		if asOf >= t.lease.takenAt() {
			return all, nil
		}
		again := time.NewTimer(relist)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

func (t term) list(ctx context.Context, filters []string) (map[string]entry, error) {
	all := make(map[string]entry)
	err := t.bucket.list(ctx, filters, func(e integrity.Key) error {
		all[e.Name] = entry{revision: e.Revision, value: e.Value, found: true}
		return nil
	})
	return all, err
}

// found is an existing value during a takeover.
type found struct {
	sealed
	revision uint64
}

// adopt rewrites a value with our epoch and returns the new entry. If the last holder wrote meanwhile, decode reads
// that value and it counts: the holder may have acted on it.
func (t term) adopt(ctx context.Context, key string, f found, decode func(entry) (found, error)) (found, error) {
	for range attempts {
		if f.epoch > t.epoch {
			return found{}, t.outdated(key, f.epoch)
		}
		if err := t.check(); err != nil {
			return found{}, err
		}
		f.epoch = t.epoch
		value, err := f.encode()
		if err != nil {
			return found{}, fmt.Errorf("write %s: %w", key, err)
		}
		revision, err := t.bucket.update(ctx, key, value, f.revision)
		if err == nil {
			f.revision = revision
			return f, nil
		}
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return found{}, err
		}
		e, err := t.bucket.get(ctx, key)
		if err != nil {
			return found{}, err
		}
		if f, err = decode(e); err != nil {
			return found{}, fmt.Errorf("read %s: %w", key, err)
		}
	}
	return found{}, fmt.Errorf("write %s: %w", key, errChanged)
}
