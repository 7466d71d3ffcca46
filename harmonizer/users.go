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

// userCounter is a Source that also counts users, as a cloud controller does. The classic
// health manager calls the number total_users.
type userCounter interface {
	Users(ctx context.Context) (int, error)
}

// users is the number of users that the source last returned.
type users struct {
	n atomic.Int64 // negative: unknown
}

// count requests the number each minute until ctx ends, if the source provides it. While
// requests fail, the last number stays.
func (u *users) count(ctx context.Context, s Source, failures *counters) error {
	source, ok := s.(userCounter)
	if !ok {
		return nil
	}
	tick := time.NewTicker(usersEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, usersTimeout)
		n, err := source.Users(call)
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
