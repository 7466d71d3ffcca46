package autoscalerd

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// serveNodes answers requests for the facts of the nodes until ctx ends.
func serveNodes(ctx context.Context, nc *nats.Conn, cluster, pool string, report func(now time.Time) api.NodesReport, log *slog.Logger) error {
	in, err := bus.Receive(nc, bus.InboxConfig{Requests: []string{names.NodesSubject(cluster, pool)}, Messages: waitingRequests, Log: log})
	if err != nil {
		return fmt.Errorf("receive requests for the nodes: %w", err)
	}
	defer in.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-in.Messages():
			data, err := packed(api.NodesAnswer{NodesReport: report(time.Now())}, nc.MaxPayload())
			if err != nil {
				data, err = packed(api.NodesAnswer{Error: err.Error()}, nc.MaxPayload())
			}
			if err == nil {
				err = m.Respond(data)
			}
			if err != nil {
				log.Warn("request for the nodes not answered", "pool", pool, "err", err)
			}
		}
	}
}
