package autoscalerd

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

const (
	planTimeout = 20 * time.Second // a tick may run first
	maxAnswer   = 64 << 20         // bytes of an uncompressed response

	waitingRequests = 16 // of plans or nodes
)

// planSubject is the subject of requests for a pool's next plan.
func planSubject(cluster, pool string) string {
	return names.Subject(cluster, "autoscaler", pool, "plan")
}

// planAnswer is the response, compressed by gzip. RequestPlan requests the plan from the pool's autoscaler.
type planAnswer struct {
	Record *api.TickRecord `json:"record,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// ErrNoAutoscaler is the error of a request to a pool without an autoscaler.
var ErrNoAutoscaler = errors.New("no autoscaler runs for it: start one with \"weir bootstrap\", or \"weir up\"")

// RequestPlan requests the autoscaler that holds the pool.
func RequestPlan(ctx context.Context, b *bus.Bus, cluster, pool string) (api.TickRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	fail := func(err error) (api.TickRecord, error) {
		return api.TickRecord{}, fmt.Errorf("plan of pool %s/%s: %w", cluster, pool, err)
	}
	answer, err := request[planAnswer](ctx, b.Conn(), planSubject(cluster, pool))
	if errors.Is(err, nats.ErrNoResponders) {
		return fail(ErrNoAutoscaler)
	}
	if err != nil {
		return fail(err)
	}
	if answer.Record == nil {
		return fail(errors.New(answer.Error))
	}
	return *answer.Record, nil
}

// request returns the response of the pool's autoscaler, which is JSON compressed by gzip.
func request[T any](ctx context.Context, nc *nats.Conn, subject string) (answer T, err error) {
	msg, err := bus.Request(ctx, nc, subject, nil)
	if err != nil {
		return answer, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(msg.Data))
	if err != nil {
		return answer, err
	}
	err = json.NewDecoder(io.LimitReader(unpacked, maxAnswer)).Decode(&answer)
	return answer, err
}

// servePlans answers plan requests until ctx ends.
func servePlans(ctx context.Context, nc *nats.Conn, cluster, pool string, preview func(context.Context) (api.TickRecord, error), log *slog.Logger) error {
	in, err := bus.Receive(nc, bus.InboxConfig{Requests: []string{planSubject(cluster, pool)}, Messages: waitingRequests, Log: log})
	if err != nil {
		return fmt.Errorf("receive plan requests: %w", err)
	}
	defer in.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-in.Messages():
			within, cancel := context.WithTimeout(ctx, planTimeout)
			r, err := preview(within)
			cancel()
			var data []byte
			if err == nil {
				data, err = packed(planAnswer{Record: &r}, nc.MaxPayload())
			}
			if err != nil {
				data, err = packed(planAnswer{Error: err.Error()}, nc.MaxPayload())
			}
			if err == nil {
				err = m.Respond(data)
			}
			if err != nil {
				log.Warn("plan request not answered", "pool", pool, "err", err)
			}
		}
	}
}

// packed compresses the response to at most that many bytes.
func packed(answer any, most int64) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	err := json.NewEncoder(w).Encode(answer)
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compress the answer: %w", err)
	}
	if int64(b.Len()) > most {
		return nil, fmt.Errorf("the answer of %d bytes is too long for the bus", b.Len())
	}
	return b.Bytes(), nil
}
