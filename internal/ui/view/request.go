package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Timeout bounds each request over the bus.
const Timeout = 3 * time.Second

// Request sends a request to subject, nil for an empty one, and decodes the response.
// part names the receiver in errors.
func Request(ctx context.Context, nc *nats.Conn, subject, part string, request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var data []byte
	if request != nil {
		var err error
		if data, err = json.Marshal(request); err != nil {
			return fmt.Errorf("send a request to the %s: %w", part, err)
		}
	}
	msg, err := bus.Request(ctx, nc, subject, data)
	if errors.Is(err, nats.ErrNoResponders) {
		return &AbsentError{part}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the %s does not respond in time: %w; check its process and its log: it is starting, hangs or is stopped", part, err)
	}
	if err != nil {
		return fmt.Errorf("send a request to the %s: %w", part, err)
	}
	if err := json.Unmarshal(msg.Data, out); err != nil {
		return fmt.Errorf("read the response of the %s: %w", part, err)
	}
	return nil
}

// AbsentError is the error of a request without a receiver.
type AbsentError struct{ Part string }

func (e *AbsentError) Error() string {
	what, _, _ := strings.Cut(e.Part, " ")
	return fmt.Sprintf("no %s runs here: start \"weir %s\", or \"weir up\"", e.Part, what)
}

// counts requests the counts of a pool from the harmonizer. The response may consist
// of several messages.
func counts(ctx context.Context, nc *nats.Conn, cluster, pool string) (api.InstanceCounts, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var parts message.Gather
	var whole api.InstanceCounts
	var unreadable error
	err := bus.Replies(ctx, nc, message.CountsRequestSubject(cluster, pool), nil, func(m *nats.Msg) (more bool, err error) {
		part, err := message.DecodeCounts(m.Data)
		if err != nil {
			unreadable = err
			return false, nil
		}
		var complete bool
		whole, complete = parts.Add(part)
		return !complete, nil
	})
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return api.InstanceCounts{}, &AbsentError{"harmonizer"}
	case err != nil:
		return api.InstanceCounts{}, fmt.Errorf("send a request to the harmonizer: %w", err)
	case unreadable != nil:
		return api.InstanceCounts{}, fmt.Errorf("read the response of the harmonizer: %w", unreadable)
	}
	return whole, nil
}

// Bootstrap requests the status of a pool's processes.
func Bootstrap(ctx context.Context, b *bus.Bus, cluster, pool string) (api.BootstrapStatus, error) {
	var s api.BootstrapStatus
	err := Request(ctx, b.Conn(), names.BootstrapSubject(cluster, pool, "status"), "bootstrap of pool "+cluster+"/"+pool, nil, &s)
	return s, err
}

// Harmonizer requests the status of the cluster's harmonizer. The response to a query of a missing app has no App.
func Harmonizer(ctx context.Context, b *bus.Bus, cluster string, q api.HarmonizerQuery) (api.HarmonizerStatus, error) {
	var s api.HarmonizerStatus
	err := Request(ctx, b.Conn(), message.StatusSubject(cluster), "harmonizer", q, &s)
	return s, err
}
