package cloudfoundry

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	usersEvery   = time.Minute
	usersTimeout = 20 * time.Second
)

// Users is the number of users that a cloud controller last returned. The classic health manager calls it total_users.
type Users struct {
	request func(ctx context.Context) (int, error)
	n       atomic.Int64 // negative: unknown
}

// NewUsers returns an unknown number of users. request returns the number, as bulkapi.Source.Users.
func NewUsers(request func(ctx context.Context) (int, error)) *Users {
	u := &Users{request: request}
	u.n.Store(-1)
	return u
}

// Number returns the number of users, negative if it is unknown.
func (u *Users) Number() int64 {
	if u == nil {
		return -1
	}
	return u.n.Load()
}

// Run requests the number each minute until ctx ends. While requests fail, the last number stays, and failed is called.
func (u *Users) Run(ctx context.Context, failed func()) error {
	tick := time.NewTicker(usersEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(ctx, usersTimeout)
		n, err := u.request(call)
		cancel()
		if err == nil {
			u.n.Store(int64(n))
		} else if ctx.Err() == nil {
			failed()
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}
