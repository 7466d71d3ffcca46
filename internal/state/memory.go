package state

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
)

// Memory is one value that a pool's loop hands on to whoever holds the pool next. It
// implements apply.Memory, and the same for the pool's health.
type Memory struct {
	holder *Holder
	key    string
	what   string // "state" or "health", for errors
}

var _ apply.Memory = (*Memory)(nil)

// Load returns what was saved last, in this term or one before. ok is false if
// nothing ever was.
func (m *Memory) Load(ctx context.Context) (data []byte, ok bool, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	h := m.holder
	end, err := h.begin(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("load %s of pool %s: %w", m.what, h.pool, err)
	}
	defer end()
	body := h.kept[m.key].body
	return slices.Clone(body), len(body) > 0, nil
}

// Save keeps data, 1 byte to 8 MiB, in place of what was saved before.
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
	if err := h.put(ctx, m.key, slices.Clone(data)); err != nil {
		return fmt.Errorf("save %s of pool %s: %w", m.what, h.pool, err)
	}
	return nil
}

var errNothing = errors.New("there is nothing to be kept")
