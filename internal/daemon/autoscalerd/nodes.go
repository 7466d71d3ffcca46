package autoscalerd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

const nodesTimeout = 3 * time.Second

// nodesSubject is the subject of requests for the facts of a pool's nodes.
func nodesSubject(cluster, pool string) string {
	return names.Subject(cluster, "autoscaler", pool, "nodes")
}

// nodesAnswer is the response, compressed by gzip.
type nodesAnswer struct {
	api.NodesReport
	Error string `json:"error,omitempty"`
}

// RequestNodes requests the latest facts of the pool's nodes from the autoscaler that holds the pool. The nodes
// themselves receive no request. Without an autoscaler the error is nats.ErrNoResponders.
func RequestNodes(ctx context.Context, b *bus.Bus, cluster, pool string) ([]api.NodeFacts, error) {
	report, err := RequestNodesReport(ctx, b, cluster, pool)
	return report.Nodes, err
}

// RequestNodesReport is RequestNodes with what the autoscaler found about the messages.
func RequestNodesReport(ctx context.Context, b *bus.Bus, cluster, pool string) (api.NodesReport, error) {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	answer, err := request[nodesAnswer](ctx, b.Conn(), nodesSubject(cluster, pool))
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	if err != nil {
		return api.NodesReport{}, fmt.Errorf("request the facts of the nodes of pool %s/%s: %w", cluster, pool, err)
	}
	return answer.NodesReport, nil
}

// serveNodes answers requests for the facts of the nodes until ctx ends.
func serveNodes(ctx context.Context, nc *nats.Conn, cluster, pool string, report func(now time.Time) api.NodesReport, log *slog.Logger) error {
	in, err := bus.Receive(nc, bus.InboxConfig{Requests: []string{nodesSubject(cluster, pool)}, Messages: waitingRequests, Log: log})
	if err != nil {
		return fmt.Errorf("receive requests for the nodes: %w", err)
	}
	defer in.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-in.Messages():
			data, err := packed(nodesAnswer{NodesReport: report(time.Now())}, nc.MaxPayload())
			if err != nil {
				data, err = packed(nodesAnswer{Error: err.Error()}, nc.MaxPayload())
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
