package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Holder gives the holder of a pool's lease access to the pool's state. It is valid for one term of the lease. Its
// methods return pools.ErrNotHolder while Lease.Left is 0, or once a key shows a higher epoch.
//
// Holder is the only writer, so it does not read again: it returns the last acknowledged values.
type Holder struct {
	term
	pool        string
	turn        turn
	savedValues map[string]savedValues // by key; owned by the caller that has the turn
	// unsure are keys with a failed first write, which may still have taken effect.
	unsure map[string]bool
}

// savedValues is a value that was written with our epoch.
type savedValues struct {
	revision uint64
	body     []byte
}

// Memory returns the pool's state between ticks, at the key "pool.<pool>".
func (h *Holder) Memory() *Memory { return &Memory{h, stateKey(h.pool), "state"} }

// Health returns the node-health loop's state, at the key "health.<pool>".
func (h *Holder) Health() *Memory { return &Memory{h, healthKey(h.pool), "health"} }

// Records returns the drain records, at the keys "drain.<pool>.<node>".
func (h *Holder) Records() *Records { return &Records{h} }

// begin gives the caller exclusive access to kept, until the caller calls end.
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

// put writes over the last known revision.
func (h *Holder) put(ctx context.Context, key string, body []byte) error {
	before := h.savedValues[key].revision
	revision, err := h.write(ctx, key, body, before)
	if err != nil {
		if before == 0 {
			h.unsure[key] = true
		}
		return err
	}
	h.savedValues[key] = savedValues{revision: revision, body: body}
	delete(h.unsure, key)
	return nil
}

// remove erases a key over the last known revision. It writes the marker also if the only write of the key has no
// answer, so that write cannot take effect later.
func (h *Holder) remove(ctx context.Context, key string) error {
	revision := h.savedValues[key].revision
	if revision == 0 && !h.unsure[key] {
		return nil
	}
	for range attempts {
		err := h.bucket.erase(ctx, key, revision)
		if err != nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return err
		}
		e := entry{}
		if err != nil {
			if e, err = h.overwritable(ctx, key, revision); err != nil {
				return fmt.Errorf("delete %s: %w", key, err)
			}
		}
		if !e.found {
			delete(h.savedValues, key)
			delete(h.unsure, key)
			return nil
		}
		revision = e.revision
	}
	return fmt.Errorf("delete %s: %w", key, errChanged)
}

func stateKey(pool string) string    { return "pool." + pool }
func healthKey(pool string) string   { return "health." + pool }
func drainPrefix(pool string) string { return "drain." + pool + "." }
