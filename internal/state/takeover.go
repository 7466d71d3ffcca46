package state

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/integrity"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// OpenHolder takes over a pool's state for the lease's current term. It rewrites each key with the lease's epoch, the
// pool's own key last. It returns pools.ErrNotHolder if the lease is not held or a key has a higher epoch. The
// lease's Run must run meanwhile. OpenHolder may be repeated, in the same term or another.
//
// If one record is unreadable, nothing is taken over: without that record the pool would count a leaving node as one
// that stays. The error has an UnreadableError for every unreadable key; an operator can set the value aside, see SetAside.
//
// The guard of the pool's stored data, which has read the data before, stores the revision of each write of the holder;
// nil: no guard.
func OpenHolder(ctx context.Context, js jetstream.JetStream, lease *Lease, g *integrity.Guard, cluster, pool string) (*Holder, error) {
	ctx, cancel := context.WithTimeout(ctx, takeoverTimeout)
	defer cancel()
	if err := checkNames(cluster, pool); err != nil {
		return nil, fmt.Errorf("take over: %w", err)
	}
	b, err := openBucket(ctx, js, names.PoolBucket(cluster, pool))
	if err != nil {
		return nil, fmt.Errorf("take over pool %s: %w", pool, err)
	}
	return openHolder(ctx, b, lease, g, pool)
}

// openHolder is OpenHolder of an open bucket.
func openHolder(ctx context.Context, b store, lease *Lease, g *integrity.Guard, pool string) (*Holder, error) {
	h := &Holder{
		term: term{b, lease, lease.Epoch()}, pool: pool, turn: newTurn(),
		savedValues: map[string]savedValues{}, unsure: map[string]bool{}, guard: g,
	}
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
	last := stateKey
	if f, ok := all[last]; ok {
		// Its epoch decides which records are discarded, so it must be the newest one.
		if all[last], err = h.touch(ctx, last, f, func(e entry) (found, error) { return h.decode(last, e) }); err != nil {
			return err
		}
	}
	completed := all[last].epoch
	for _, key := range slices.Sorted(maps.Keys(all)) {
		switch f := all[key]; {
		case key == last:
		case f.epoch < completed && key != healthKey:
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

// survey returns all values of the pool by key, or an error that names every unreadable key.
func (h *Holder) survey(ctx context.Context) (map[string]found, error) {
	entries, err := h.term.survey(ctx, drainPrefix+">", healthKey, stateKey)
	if err != nil {
		return nil, err
	}
	// Every takeover writes the health key, even if it is empty. So an old epoch there comes from a program without
	// node health, not from a process that lost the pool.
	all := map[string]found{healthKey: {}}
	var unreadable []error
	for key, e := range entries {
		if all[key], err = h.decode(key, e); err != nil {
			unreadable = append(unreadable, &UnreadableError{key, err})
		}
	}
	return all, errors.Join(unreadable...)
}

func (h *Holder) decode(key string, e entry) (found, error) {
	node, drains := strings.CutPrefix(key, drainPrefix)
	switch {
	case !e.found && drains:
		return found{}, errRemoved
	case !e.found:
		return found{revision: e.revision}, nil
	}
	if !drains {
		node = ""
	}
	s, err := decodeValue(node, e.value)
	return found{sealed: s, revision: e.revision}, err
}

// decodeValue decodes a value of the pool: the drain record of a node, or without a node the state or the health.
func decodeValue(node string, value []byte) (sealed, error) {
	s, err := decodeSealed(value)
	if err == nil && node != "" {
		_, err = decodeDrain(node, s.body)
	}
	if err != nil {
		return sealed{}, err
	}
	return s, nil
}

// adopt rewrites a value with our epoch, unless it was removed meanwhile.
func (h *Holder) adopt(ctx context.Context, key string, f found) error {
	f, err := h.term.adopt(ctx, key, f, func(e entry) (found, error) { return h.decode(key, e) })
	if errors.Is(err, errRemoved) {
		return nil
	}
	if err != nil {
		return err
	}
	h.savedValues[key] = savedValues{revision: f.revision, body: f.body}
	h.wrote(key, f.revision, false)
	return nil
}

// discard removes a record of a process that had lost the pool. If the record has changed since it was read, its new
// epoch decides.
func (h *Holder) discard(ctx context.Context, key string, f found, completed uint64) error {
	for range attempts {
		if err := h.check(); err != nil {
			return err
		}
		err := h.bucket.erase(ctx, key, f.revision)
		if err == nil {
			h.discarded(key, f, completed)
			h.wrote(key, f.revision+1, true)
			return nil
		}
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return err
		}
		e, err := h.other(ctx, key, f.revision)
		if err == nil {
			f, err = h.decode(key, e)
		}
		switch {
		case errors.Is(err, errRemoved):
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", key, err)
		case f.epoch >= completed:
			return h.adopt(ctx, key, f)
		}
	}
	return fmt.Errorf("delete %s: %w", key, errChanged)
}

func (h *Holder) discarded(key string, f found, completed uint64) {
	h.lease.config.Log.Warn("drain record of a former lease holder discarded",
		"pool", h.pool, "key", key, "epoch", f.epoch, "taken_over_since", completed, "record", string(f.body))
}
