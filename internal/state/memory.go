package state

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirkeeper/weirkeeper/autoscaler"
)

// Memory implements autoscaler.Memory.
type Memory struct{ holder *Holder }

var _ autoscaler.Memory = (*Memory)(nil)

// Load returns what was saved last, in this term or one before. ok is false if
// nothing ever was.
func (m *Memory) Load(ctx context.Context) (data []byte, ok bool, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	h := m.holder
	end, err := h.begin(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("load state of pool %s: %w", h.pool, err)
	}
	defer end()
	body := h.kept[stateKey(h.pool)].body
	return slices.Clone(body), len(body) > 0, nil
}

// Save keeps data, 1 byte to 8 MiB, in place of what was saved before.
func (m *Memory) Save(ctx context.Context, data []byte) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	h := m.holder
	end, err := h.begin(ctx)
	if err != nil {
		return fmt.Errorf("save state of pool %s: %w", h.pool, err)
	}
	defer end()
	if len(data) == 0 {
		return fmt.Errorf("save state of pool %s: %w", h.pool, errNothing)
	}
	if err := h.put(ctx, stateKey(h.pool), slices.Clone(data)); err != nil {
		return fmt.Errorf("save state of pool %s: %w", h.pool, err)
	}
	return nil
}

var errNothing = errors.New("there is nothing to be kept")
