package state

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

// FindingsSince calls visit with the messages of the stream of findings that were stored at from or later, oldest first, up to
// the newest at the call. Each has the findings of one publication. An error of visit stops it. A missing stream has no findings.
// Only its context bounds it.
func FindingsSince(ctx context.Context, js jetstream.JetStream, cluster string, from time.Time, visit func(bus.Stored) error) error {
	if !names.Valid(cluster) {
		return fmt.Errorf("read findings: cluster %q: invalid name", cluster)
	}
	l := &Ledger{js: js, name: names.FindingsStream(cluster), subject: names.Subject(cluster, ">"), batched: batchSummaries, turn: newTurn()}
	return l.messages(ctx, streams.Request{Since: &from}, visit)
}
