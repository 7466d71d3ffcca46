package autoscalerd

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

const waitingRequests = 16 // of plans or nodes

// servePlans answers plan requests until ctx ends. The content of a request is an api.WhatIf, or empty.
func servePlans(ctx context.Context, nc *nats.Conn, cluster, pool string, preview func(context.Context, api.WhatIf) (api.TickRecord, error), log *slog.Logger) error {
	in, err := bus.Receive(nc, bus.InboxConfig{Requests: []string{names.PlanSubject(cluster, pool)}, Messages: waitingRequests, Log: log})
	if err != nil {
		return fmt.Errorf("receive plan requests: %w", err)
	}
	defer in.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-in.Messages():
			within, cancel := context.WithTimeout(ctx, api.PlanTimeout)
			answer, err := planOf(within, m.Data, preview)
			cancel()
			var data []byte
			if err == nil {
				data, err = packed(answer, nc.MaxPayload())
			}
			if err != nil {
				data, err = packed(api.PlanAnswer{Error: err.Error()}, nc.MaxPayload())
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

// planOf returns the plan for the content of a request.
func planOf(ctx context.Context, request []byte, preview func(context.Context, api.WhatIf) (api.TickRecord, error)) (api.PlanAnswer, error) {
	var w api.WhatIf
	if len(request) > 0 {
		if err := json.Unmarshal(request, &w); err != nil {
			return api.PlanAnswer{}, fmt.Errorf("read the assumed change: %w", err)
		}
		if err := w.Validate(); err != nil {
			return api.PlanAnswer{}, fmt.Errorf("the assumed change: %w", err)
		}
	}
	r, err := preview(ctx, w)
	return api.PlanAnswer{Record: &r, WhatIf: &w}, err
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
