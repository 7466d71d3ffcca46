package state

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// leaseSlack is how long a lease that is not renewed still counts as held: the clocks of its holder and of a reader differ.
const leaseSlack = time.Minute

// ReadHolder returns the process that holds the lease of a pool; empty: no process holds it. An error means that the holder is
// unknown.
func ReadHolder(ctx context.Context, js jetstream.JetStream, now time.Time, cluster, pool string) (string, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	b, err := openBucket(ctx, js, names.PoolBucket(cluster, pool))
	if err != nil {
		return "", err
	}
	e, err := b.get(ctx, leaseKey)
	if err != nil || !e.found {
		return "", err
	}
	c, err := decodeClaim(e.value)
	if err != nil {
		return "", fmt.Errorf("read the lease of pool %s/%s: %w", cluster, pool, err)
	}
	if c.Released || now.Sub(c.At) > c.TTL+leaseSlack {
		return "", nil
	}
	return c.Holder, nil
}
