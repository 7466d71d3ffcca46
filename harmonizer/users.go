package harmonizer

import (
	"context"
	"time"
)

const (
	usersEvery   = time.Minute
	usersTimeout = 20 * time.Second
)

// userCounter is a Source that also knows how many users there are, as a cloud
// controller does: total_users of the classic health manager.
type userCounter interface {
	Users(ctx context.Context) (int, error)
}

// countUsers asks now and then, until ctx ends, if the source knows. While it does
// not answer the last number stands.
func (h *Harmonizer) countUsers(ctx context.Context) error {
	source, ok := h.ports.Source.(userCounter)
	if !ok {
		return nil
	}
	tick := time.NewTicker(usersEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		ask, cancel := context.WithTimeout(ctx, usersTimeout)
		n, err := source.Users(ask)
		cancel()
		if err == nil {
			h.users.Store(int64(n))
		} else if ctx.Err() == nil {
			h.counters.add("users_failed", 1)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}
