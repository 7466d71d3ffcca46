package state

import (
	"context"
	"fmt"
)

// Holder is what the holder of a pool's lease keeps of the pool. It counts for one
// term of the lease, and answers pools.ErrNotHolder when that has ended or may
// have: while Lease.Left is 0, or once a key shows that somebody else has taken
// over.
//
// It is the only writer, so it reads nothing again: what it returns is what was
// acknowledged last.
type Holder struct {
	term
	pool string
	turn turn
	kept map[string]kept // by key; owned by who has the turn
}

// kept is a value that has our epoch.
type kept struct {
	revision uint64
	body     []byte
}

// Memory returns what one tick hands on to the next, under "pool.<pool>".
func (h *Holder) Memory() *Memory { return &Memory{h, stateKey(h.pool), "state"} }

// Health returns what the node-health loop hands on, under "health.<pool>".
func (h *Holder) Health() *Memory { return &Memory{h, healthKey(h.pool), "health"} }

// Records returns the drain records, each under "drain.<pool>.<node>".
func (h *Holder) Records() *Records { return &Records{h} }

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

// put writes a value over the one that we know.
func (h *Holder) put(ctx context.Context, key string, body []byte) error {
	revision, err := h.write(ctx, key, body, h.kept[key].revision)
	if err != nil {
		return err
	}
	h.kept[key] = kept{revision: revision, body: body}
	return nil
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

func stateKey(pool string) string    { return "pool." + pool }
func healthKey(pool string) string   { return "health." + pool }
func drainPrefix(pool string) string { return "drain." + pool + "." }
