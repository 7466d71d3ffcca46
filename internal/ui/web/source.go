package web

import (
	"context"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
)

// Name names a pool.
type Name struct{ Cluster, Pool string }

// String returns "CLUSTER/POOL".
func (n Name) String() string { return n.Cluster + "/" + n.Pool }

// Pool is a pool with its known facts beside its ticks.
type Pool struct {
	Name
	condition.Facts
}

// Source is where the pages read. It is safe for concurrent use. An error means that it is away, except history.ErrNoTick.
type Source interface {
	// Pools returns all pools, in any order.
	Pools(ctx context.Context) ([]Pool, error)
	// Since calls visit with the summary of each tick of a pool from then on, oldest first.
	Since(ctx context.Context, pool Name, from time.Time, visit func(api.Summary) error) error
	// Follow calls visit with the summary of each new tick of all pools, until ctx ends or the source is away. visit
	// returns at once.
	Follow(ctx context.Context, visit func(Name, api.Summary)) error
	// Tick returns the last tick of a pool that began at that time or earlier. The error wraps history.ErrNoTick if there is
	// no such tick.
	Tick(ctx context.Context, pool Name, at time.Time) (history.Tick, error)
}
