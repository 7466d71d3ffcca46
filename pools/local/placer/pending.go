package placer

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/names"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools/local/internal/call"
	"github.com/weirkeeper/weirkeeper/resource"
)

// maxListed bounds the copies in a Pending.
const maxListed = 1000

// Pending has the copies for which no node has room.
type Pending struct {
	Total     int             `json:"total"`
	Resources resource.Vector `json:"resources"` // the sum of their footprints
	Copies    []PendingCopy   `json:"copies"`    // oldest first, at most 1000
}

// PendingCopy is one copy that waits for room.
type PendingCopy struct {
	App       string          `json:"app"`
	Version   string          `json:"version"`
	Index     int             `json:"index"`
	Footprint resource.Vector `json:"footprint"`
	Since     time.Time       `json:"since"`
}

// GetPending requests the pending copies from the placer of the pool.
func GetPending(ctx context.Context, nc *nats.Conn, cluster, pool string) (Pending, error) {
	var p Pending
	if err := call.Request(ctx, nc, pendingSubject(cluster, pool), struct{}{}, &p); err != nil {
		return Pending{}, fmt.Errorf("get the pending app instances of pool %s: %w", pool, err)
	}
	return p, nil
}

func pendingSubject(cluster, pool string) string {
	return names.Subject(cluster, "placer", pool, "pending")
}

func (p Pending) samples(now time.Time, cluster, pool string) []metrics.Sample {
	var out []metrics.Sample
	for _, k := range []resource.Kind{resource.CPUs, resource.Mem, resource.Disk} {
		out = append(out, metrics.Sample{
			Type: metrics.System, Name: k.String() + "_pending", Time: now, Value: p.Resources[k],
			Dimensions: metrics.Dimensions{"cluster": cluster, "pool": pool},
		})
	}
	return out
}
