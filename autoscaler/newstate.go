package autoscaler

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/snapshot"
	"github.com/weirkeeper/weirkeeper/pools"
)

const (
	// newStateHold is how long a pool does not shrink after its bucket of state was created beside older machines.
	newStateHold = 10 * time.Minute
	// olderThanState is how much older than the bucket a machine must be. A new pool's first machines may be as old.
	olderThanState = time.Minute
)

// newState returns why the pool must not shrink because its bucket of state is new: the state of an older pool was lost
// with the bucket, or this is the pool's first start. It is empty if the bucket is old enough, or older than the machines.
func newState(now, created time.Time, s *snapshot.Snapshot) string {
	until := created.Add(newStateHold)
	if created.IsZero() || !now.Before(until) {
		return ""
	}
	var oldest pools.Instance
	for _, n := range s.Nodes {
		if i := n.Instance; !i.Launched.IsZero() && (oldest.ID == "" || i.Launched.Before(oldest.Launched)) {
			oldest = i
		}
	}
	if oldest.ID == "" || !oldest.Launched.Before(created.Add(-olderThanState)) {
		return ""
	}
	return fmt.Sprintf("the bucket of state was created at %s, after machine %s: state was lost, or this is the first start; no scale-in until %s",
		created.UTC().Format(time.RFC3339), oldest.ID, until.UTC().Format(time.RFC3339))
}
