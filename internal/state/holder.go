package state

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
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
	guard  *integrity.Guard // nil: no process compares revisions
}

// savedValues is a value that was written with our epoch.
type savedValues struct {
	revision uint64
	body     []byte
}

// Memory returns the pool's state between ticks, at the key "state".
func (h *Holder) Memory() *Memory { return &Memory{h, stateKey, "state"} }

// Health returns the node-health loop's state, at the key "health".
func (h *Holder) Health() *Memory { return &Memory{h, healthKey, "health"} }

// Records returns the drain records, at the keys "drain.NODE".
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

// putKey writes over the last known revision.
func (h *Holder) putKey(ctx context.Context, key string, body []byte) error {
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
	h.wrote(key, revision, false)
	return nil
}

// wrote lets the guard store a write.
func (h *Holder) wrote(key string, revision uint64, deleted bool) {
	if h.guard != nil {
		h.guard.Wrote(key, revision, deleted)
	}
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
			h.wrote(key, revision+1, true) // the marker's revision is at least that
			return nil
		}
		revision = e.revision
	}
	return fmt.Errorf("delete %s: %w", key, errChanged)
}

// Memory is one value that a pool's loop leaves for the pool's next holder. apply.Encoded stores the state of a
// loop in it, and node health its own.
type Memory struct {
	holder *Holder
	key    string
	what   string // "state" or "health", for errors
}

// Load returns the last saved value, of this term or an earlier one. ok is false if nothing was saved yet.
func (m *Memory) Load(ctx context.Context) (data []byte, ok bool, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	h := m.holder
	end, err := h.begin(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("load %s of pool %s: %w", m.what, h.pool, err)
	}
	defer end()
	body := h.savedValues[m.key].body
	return slices.Clone(body), len(body) > 0, nil
}

// Save stores data, 1 byte to 8 MiB, in place of the earlier value.
func (m *Memory) Save(ctx context.Context, data []byte) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	h := m.holder
	end, err := h.begin(ctx)
	if err != nil {
		return fmt.Errorf("save %s of pool %s: %w", m.what, h.pool, err)
	}
	defer end()
	if len(data) == 0 {
		return fmt.Errorf("save %s of pool %s: %w", m.what, h.pool, errNothing)
	}
	if err := h.putKey(ctx, m.key, slices.Clone(data)); err != nil {
		return fmt.Errorf("save %s of pool %s: %w", m.what, h.pool, err)
	}
	return nil
}

var errNothing = errors.New("the value is empty")

// Keys in the bucket of a pool.
const (
	stateKey    = "state"
	healthKey   = "health"
	drainPrefix = "drain."
	orderPrefix = "order."
	trialPrefix = "trial."
	seenPrefix  = "seen."
	// acceptSeenPrefix begins the keys of operators who accept the present content of a release.
	acceptSeenPrefix = "accept.seen."
)
