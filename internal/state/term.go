package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	// reread is the wait before a key is read again because the replica lags behind. A replica has up to rereads waits.
	reread  = 50 * time.Millisecond
	rereads = 40
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
		e, err := t.overwritable(ctx, key, revision)
		if err != nil {
			return 0, fmt.Errorf("write %s: %w", key, err)
		}
		revision = e.revision
	}
	return 0, fmt.Errorf("write %s: %w", key, errChanged)
}

// overwritable returns the entry of a key that replaced a revision. It returns pools.ErrNotHolder if the value has a
// higher epoch or the lease is lost. A removed key has no epoch, so the lease decides.
func (t term) overwritable(ctx context.Context, key string, replaced uint64) (entry, error) {
	e, err := t.other(ctx, key, replaced)
	if err != nil {
		return entry{}, err
	}
	if e.found {
		// No process reads an unreadable value, so it may be overwritten.
		if s, err := decodeSealed(e.value); err == nil && s.epoch > t.epoch {
			return entry{}, t.outdated(key, s.epoch)
		}
	}
	_, err = confirm(ctx, t.bucket, t.lease.config.Holder, t.epoch)
	return e, err
}

// other returns the entry of a key that replaced a revision, by the server's refusal of a write. A replica that lags
// behind still returns the replaced one. If it does so for long, that one is returned.
func (t term) other(ctx context.Context, key string, replaced uint64) (entry, error) {
	for n := 0; ; n++ {
		e, err := t.bucket.get(ctx, key)
		if err != nil || e.revision != replaced || n == rereads {
			return e, err
		}
		if !retry.Pause(ctx, reread) {
			return entry{}, context.Cause(ctx)
		}
	}
}

// survey returns all entries that the filters match, by key, listed after our takeover of the lease.
//
// The leader of the stream lists the keys. The server acknowledged our takeover, so a quorum has it, and every leader that is elected later has it before it answers. Only a leader
// that was replaced before may lack it, and its last sequence is lower than that of our takeover. So a leader with that
// sequence lists every key that a former holder wrote before our takeover. A write that it sends later to a missing key
// has a lower epoch, and the next takeover discards it.
//
// Any replica returns the values, so a value may be older than the newest one. The caller rewrites each key over the
// revision that it has read. If the value was older, the server refuses that write, and the caller reads again.
func (t term) survey(ctx context.Context, filters ...string) (map[string]entry, error) {
	all := make(map[string]entry)
	err := t.bucket.list(ctx, t.lease.takenAt(), filters, func(e integrity.Key) error {
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
	return t.rewrite(ctx, key, f, decode, func(found) uint64 { return t.epoch })
}

// touch rewrites a value with its own epoch and returns the new entry. The server writes over the newest revision only,
// so the returned value is the newest one. A value that was only read may come from a replica that lags behind.
func (t term) touch(ctx context.Context, key string, f found, decode func(entry) (found, error)) (found, error) {
	return t.rewrite(ctx, key, f, decode, func(f found) uint64 { return f.epoch })
}

func (t term) rewrite(ctx context.Context, key string, f found, decode func(entry) (found, error), epoch func(found) uint64) (found, error) {
	for range attempts {
		if f.epoch > t.epoch {
			return found{}, t.outdated(key, f.epoch)
		}
		if err := t.check(); err != nil {
			return found{}, err
		}
		f.epoch = epoch(f)
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
		e, err := t.other(ctx, key, f.revision)
		if err != nil {
			return found{}, err
		}
		if f, err = decode(e); err != nil {
			return found{}, fmt.Errorf("read %s: %w", key, err)
		}
	}
	return found{}, fmt.Errorf("write %s: %w", key, errChanged)
}

// callTimeout bounds every call, whatever deadline its context has.
const callTimeout = 10 * time.Second

// bounded returns a context that ends after callTimeout at the latest.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, callTimeout)
}

// turn admits one caller at a time. A waiting caller returns an error when its context ends, or after callTimeout.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) take(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turn) give() { <-t }
