package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
)

// ErrNoResponse is returned if no process serves the pool's node health.
var ErrNoResponse = errors.New("no response from node health: the pool has no running autoscaler, or its pool file has no health block; \"weir status\" shows which")

// Client sends requests to the node health of one pool.
type Client struct {
	nc            *nats.Conn
	cluster, pool string
}

// NewClient returns a client on the connection.
func NewClient(nc *nats.Conn, cluster, pool string) *Client { return &Client{nc, cluster, pool} }

// Order sends an order and waits for its Answer. An Answer with an Error is not an error here.
func (c *Client) Order(ctx context.Context, o api.RepairOrder) (api.RepairOrderResponse, error) {
	var a api.RepairOrderResponse
	if err := api.ValidateOrder(o); err != nil {
		return a, err
	}
	err := c.request(ctx, OrderSubject(c.cluster, c.pool), o, &a)
	return a, err
}

// Status requests one page of the pool's status.
func (c *Client) Status(ctx context.Context, q api.HealthQuery) (api.HealthStatus, error) {
	var s api.HealthStatus
	if err := api.ValidateQuery(q); err != nil {
		return s, err
	}
	err := c.request(ctx, StatusSubject(c.cluster, c.pool), q, &s)
	return s, err
}

// request waits for a response until ctx ends, and for longer than answerTimeout, after which the responder gives its reason.
func (c *Client) request(ctx context.Context, subject string, query, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout+travelTime)
	defer cancel()
	data, err := json.Marshal(query)
	if err != nil {
		return fmt.Errorf("request node health of pool %s: %w", c.pool, err)
	}
	m, err := bus.Request(ctx, c.nc, subject, data)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		err = ErrNoResponse
	case err == nil && m.Header.Get(headerError) != "":
		err = errors.New(prose.Line(m.Header.Get(headerError), api.MaxWhy))
	case err == nil:
		err = json.Unmarshal(m.Data, into)
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no response in time: %w; the pool's autoscaler is starting, hangs or is stopped: check its log", err)
	}
	if err != nil {
		return fmt.Errorf("request node health of pool %s: %w", c.pool, err)
	}
	return nil
}
