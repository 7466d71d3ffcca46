package pools

import (
	"context"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// OrderStore stores the orders of a pool. It may be used concurrently.
type OrderStore interface {
	// Read returns the orders in force at now. It deletes expired orders, so that they do not apply
	// again if the clock goes back.
	Read(ctx context.Context, now time.Time) (api.Orders, error)
	// Removed deletes the removal of a node after it is carried out or has no effect. A missing
	// removal is not an error. Rolled does the same for the stale mark of a group, or for the rotation if group is empty.
	Removed(ctx context.Context, node string) error
	Rolled(ctx context.Context, group string) error
}

// AllowOrders returns an error that wraps ErrPaused if the pool is paused at now.
func AllowOrders(o api.Orders, now time.Time) error {
	if o.Pause == nil || !o.Pause.InForce(now) {
		return nil
	}
	return fmt.Errorf("%w %s", ErrPaused, o.Pause.Text())
}
