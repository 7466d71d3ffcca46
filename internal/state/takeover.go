package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// relist is how long a listing waits for a server that lags behind.
	relist = 50 * time.Millisecond
	// takeoverTimeout bounds a takeover, which writes each key.
	takeoverTimeout = time.Minute
)

// found is a value that the takeover comes upon.
type found struct {
	sealed
	revision uint64
}

// OpenHolder takes over what earlier holders of the pool have kept, for the term
// that the lease is in: it rewrites each key with the lease's epoch, that of the
// pool last. It is autoscaler.ErrNotHolder if the lease is not held, or a key has a
// higher epoch. The lease must be kept by its Run meanwhile. OpenHolder may be
// repeated, in the same term or another: what one that failed has done is no harm.
//
// With one record unreadable nothing is taken over: with some of its records
// forgotten, a pool would count nodes that leave as ones that stay. The error names
// every such key.
func OpenHolder(ctx context.Context, js jetstream.JetStream, lease *Lease, cluster, pool string) (*Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, takeoverTimeout)
	defer cancel()
	if err := checkNames(cluster, pool); err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	b, err := openBucket(ctx, js, cluster)
	if err != nil {
		return nil, fmt.Errorf("take over pool %s: %w", pool, err)
	}
	h := &Holder{bucket: b, lease: lease, epoch: lease.Epoch(), pool: pool, turn: newTurn(), kept: map[string]kept{}}
	if err := h.takeOver(ctx); err != nil {
		return nil, fmt.Errorf("take over pool %s: %w", pool, err)
	}
	return h, nil
}

func (h *Holder) takeOver(ctx context.Context) error {
	if err := h.check(); err != nil {
		return err
	}
	all, err := h.survey(ctx)
	if err != nil {
		return err
	}
	last := stateKey(h.pool)
	completed := all[last].epoch
	if completed > h.epoch {
		return h.outdated(last, completed)
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		switch f := all[key]; {
		case key == last:
		case f.epoch < completed:
			if err := h.discard(ctx, key, f, completed); err != nil {
				return err
			}
		default:
			if err := h.adopt(ctx, key, f); err != nil {
				return err
			}
		}
	}
	return h.adopt(ctx, last, all[last])
}

// survey returns everything that there is of the pool, by key.
func (h *Holder) survey(ctx context.Context) (map[string]found, error) {
	for {
		all, asOf, err := h.read(ctx)
		if err != nil {
			return nil, err
		}
		// A replica may lag behind. What came before our takeover counts.
		if asOf >= h.lease.takenAt() {
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

// read lists what there is, and tells which revision of the lease is in the list.
func (h *Holder) read(ctx context.Context) (all map[string]found, asOf uint64, err error) {
	prefix := drainPrefix(h.pool)
	all = make(map[string]found)
	err = h.bucket.list(ctx, []string{prefix + ">", stateKey(h.pool), h.lease.key}, func(e jetstream.KeyValueEntry) error {
		if e.Key() == h.lease.key {
			asOf = e.Revision()
			return nil
		}
		f, err := decodeFound(e.Key(), prefix, entry{revision: e.Revision(), value: e.Value(), found: true})
		all[e.Key()] = f
		return err
	})
	return all, asOf, err
}

func decodeFound(key, prefix string, e entry) (found, error) {
	s, err := decodeSealed(e.value)
	if err != nil {
		return found{}, err
	}
	if node, ok := strings.CutPrefix(key, prefix); ok {
		if _, err := decodeDrain(node, s.body); err != nil {
			return found{}, err
		}
	}
	return found{sealed: s, revision: e.revision}, nil
}

// adopt rewrites a value with our epoch. If its last holder was faster, what it
// wrote counts: it may have acted on it.
func (h *Holder) adopt(ctx context.Context, key string, f found) error {
	for range attempts {
		if f.epoch > h.epoch {
			return h.outdated(key, f.epoch)
		}
		if err := h.check(); err != nil {
			return err
		}
		value, err := sealed{epoch: h.epoch, body: f.body}.encode()
		if err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
		revision, err := h.bucket.update(ctx, key, value, f.revision)
		if err == nil {
			h.kept[key] = kept{revision: revision, body: f.body}
			return nil
		}
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return err
		}
		e, err := h.bucket.get(ctx, key)
		if err != nil {
			return err
		}
		if !e.found && key != stateKey(h.pool) {
			return nil // its last holder has removed it
		}
		if f = (found{revision: e.revision}); e.found {
			if f, err = decodeFound(key, drainPrefix(h.pool), e); err != nil {
				return fmt.Errorf("read %s: %w", key, err)
			}
		}
	}
	return fmt.Errorf("write %s: %w", key, errChanged)
}

// discard removes a record that was made by a process that had lost the pool.
func (h *Holder) discard(ctx context.Context, key string, f found, completed uint64) error {
	if err := h.check(); err != nil {
		return err
	}
	if err := h.bucket.erase(ctx, key, f.revision); err != nil {
		return err
	}
	h.lease.config.Log.Warn("drain record of who had lost the pool is discarded",
		"pool", h.pool, "key", key, "epoch", f.epoch, "taken_over_since", completed, "record", string(f.body))
	return nil
}
