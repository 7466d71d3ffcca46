package harmonizer

import (
	"context"
	"sync/atomic"
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

// users is how many users the source last returned.
type users struct {
	n atomic.Int64 // negative: unknown
}

// count requests the number each minute, until ctx ends, if the source has one.
// While the source returns errors the last number stands.
func (u *users) count(ctx context.Context, s Source, failures *counters) error {
	source, ok := s.(userCounter)
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
			u.n.Store(int64(n))
		} else if ctx.Err() == nil {
			failures.add("users_failed", 1)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}
