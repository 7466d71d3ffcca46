package state

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
)

// Memory is one value that a pool's loop leaves for the pool's next holder. It implements apply.Memory, and the same
// for the pool's health.
type Memory struct {
	holder *Holder
	key    string
	what   string // "state" or "health", for errors
}

var _ apply.Memory = (*Memory)(nil)

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
	if err := h.put(ctx, m.key, slices.Clone(data)); err != nil {
		return fmt.Errorf("save %s of pool %s: %w", m.what, h.pool, err)
	}
	return nil
}

var errNothing = errors.New("the value is empty")
