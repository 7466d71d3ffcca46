package bustest

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

// Streams creates all streams and buckets of a cluster and these pools that are missing, with that many replicas.
func Streams(tb testing.TB, js jetstream.JetStream, cluster string, replicas int, pools ...string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	c := streams.Cluster{Name: cluster, Replicas: replicas}
	for _, pool := range pools {
		c.Pools = append(c.Pools, streams.Pool{Name: pool})
	}
	if _, err := streams.Create(ctx, js, c.Specs()); err != nil {
		tb.Fatal(err)
	}
}
