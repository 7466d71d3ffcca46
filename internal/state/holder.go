package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/autoscaler"
)

// Holder is what the holder of a pool's lease keeps of the pool. It counts for one
// term of the lease, and answers autoscaler.ErrNotHolder when that has ended or may
// have: while Lease.Left is 0, or once a key shows that somebody else has taken
// over.
//
// It is the only writer, so it reads nothing again: what it returns is what was
// acknowledged last.
type Holder struct {
	bucket *bucket
	lease  *Lease
	epoch  uint64
	pool   string
	turn   turn
	kept   map[string]kept // by key; owned by who has the turn
}

// kept is a value that has our epoch.
type kept struct {
	revision uint64
	body     []byte
}

// Memory returns what one tick hands on to the next, under "pool.<pool>".
func (h *Holder) Memory() *Memory { return &Memory{h} }

// Records returns the drain records, each under "drain.<pool>.<node>".
func (h *Holder) Records() *Records { return &Records{h} }

// check reports whether the term still lasts.
func (h *Holder) check() error {
	if epoch := h.lease.Epoch(); epoch != h.epoch {
		return fmt.Errorf("%w: it was taken again, with epoch %d after %d", autoscaler.ErrNotHolder, epoch, h.epoch)
	}
	if h.lease.Left() <= 0 {
		return fmt.Errorf("%w: it has run out", autoscaler.ErrNotHolder)
	}
	return nil
}

// begin lets the caller act on what is kept, until it calls the function.
func (h *Holder) begin(ctx context.Context) (end func(), err error) {
	if err := h.turn.take(ctx); err != nil {
		return nil, err
	}
	if err := h.check(); err != nil {
		h.turn.give()
		return nil, err
	}
	return h.turn.give, nil
}

// put writes a value with our epoch over the revision that we know. If that is not
// there any more, it is an earlier write of ours whose answer was lost, or one of
// somebody whose term has ended: both are written over.
func (h *Holder) put(ctx context.Context, key string, body []byte) error {
	value, err := sealed{epoch: h.epoch, body: body}.encode()
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	revision := h.kept[key].revision
	for range attempts {
		next, err := h.bucket.update(ctx, key, value, revision)
		if err == nil {
			h.kept[key] = kept{revision: next, body: body}
			return nil
		}
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return err
		}
		if revision, err = h.overwritable(ctx, key); err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
	}
	return fmt.Errorf("write %s: %w", key, errChanged)
}

// remove erases what we know under a key.
func (h *Holder) remove(ctx context.Context, key string) error {
	revision := h.kept[key].revision
	if revision == 0 {
		return nil
	}
	for range attempts {
		if err := h.bucket.erase(ctx, key, revision); err != nil {
			return err
		}
		var err error
		if revision, err = h.overwritable(ctx, key); err != nil {
			return fmt.Errorf("delete %s: %w", key, err)
		}
		if revision == 0 {
			delete(h.kept, key)
			return nil
		}
	}
	return fmt.Errorf("delete %s: %w", key, errChanged)
}

// overwritable returns the revision that a key has now, 0 if nothing is there. It
// is autoscaler.ErrNotHolder if the value is of a higher epoch, or the lease is not
// ours any more: a key that was removed has no epoch to tell it.
func (h *Holder) overwritable(ctx context.Context, key string) (uint64, error) {
	e, err := h.bucket.get(ctx, key)
	if err != nil {
		return 0, err
	}
	if e.found {
		// Nobody reads what cannot be read, so that it may be written over.
		if s, err := decodeSealed(e.value); err == nil && s.epoch > h.epoch {
			return 0, h.outdated(key, s.epoch)
		}
	}
	_, err = confirm(ctx, h.bucket, h.lease.key, h.lease.config.Holder, h.epoch)
	return e.revision, err
}

func (h *Holder) outdated(key string, epoch uint64) error {
	return fmt.Errorf("%w: %s has epoch %d, ours is %d", autoscaler.ErrNotHolder, key, epoch, h.epoch)
}

func stateKey(pool string) string    { return "pool." + pool }
func drainPrefix(pool string) string { return "drain." + pool + "." }
