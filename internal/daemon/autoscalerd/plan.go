package autoscalerd

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/names"
)

const (
	planTimeout = 20 * time.Second // a tick may run first
	maxPlan     = 64 << 20         // bytes of an uncompressed plan
)

// planSubject is the subject of requests for a pool's next plan.
func planSubject(cluster, pool string) string {
	return names.Subject(cluster, "autoscaler", pool, "plan")
}

// planAnswer is the response, compressed by gzip. RequestPlan requests the plan from the pool's autoscaler.
type planAnswer struct {
	Record *autoscaler.Record `json:"record,omitempty"`
	Error  string             `json:"error,omitempty"`
}

// ErrNoAutoscaler is the error of a request to a pool without an autoscaler.
var ErrNoAutoscaler = errors.New("no autoscaler runs for it: start one with \"weir bootstrap\", or \"weir up\"")

// RequestPlan asks the autoscaler that holds the pool.
func RequestPlan(ctx context.Context, b *bus.Bus, cluster, pool string) (autoscaler.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, planTimeout)
	defer cancel()
	fail := func(err error) (autoscaler.Record, error) {
		return autoscaler.Record{}, fmt.Errorf("plan of pool %s/%s: %w", cluster, pool, err)
	}
	msg, err := bus.Request(ctx, b.Conn(), planSubject(cluster, pool), nil)
	if errors.Is(err, nats.ErrNoResponders) {
		return fail(ErrNoAutoscaler)
	}
	if err != nil {
		return fail(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(msg.Data))
	if err != nil {
		return fail(err)
	}
	var answer planAnswer
	if err := json.NewDecoder(io.LimitReader(unpacked, maxPlan)).Decode(&answer); err != nil {
		return fail(err)
	}
	if answer.Record == nil {
		return fail(errors.New(answer.Error))
	}
	return *answer.Record, nil
}

// servePlans answers plan requests until ctx ends.
func servePlans(ctx context.Context, nc *nats.Conn, cluster, pool string, preview func(context.Context) (autoscaler.Record, error)) error {
	requests := make(chan *nats.Msg, 16)
	sub, err := nc.ChanSubscribe(planSubject(cluster, pool), requests)
	if err != nil {
		return fmt.Errorf("subscribe to plan requests: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-requests:
			within, cancel := context.WithTimeout(ctx, planTimeout)
			r, err := preview(within)
			cancel()
			answer := planAnswer{Record: &r}
			if err != nil {
				answer = planAnswer{Error: err.Error()}
			}
			_ = m.Respond(packed(answer, nc.MaxPayload())) // the client repeats its request
		}
	}
}

// packed compresses the response to at most that many bytes.
func packed(a planAnswer, most int64) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	err := json.NewEncoder(w).Encode(a)
	if err := errors.Join(err, w.Close()); err != nil || int64(b.Len()) > most {
		return packed(planAnswer{Error: fmt.Sprintf("the answer of %d bytes is too long for the bus", b.Len())}, most)
	}
	return b.Bytes()
}
