package view

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

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// requestPlan requests the next plan from the autoscaler that holds the pool.
func requestPlan(ctx context.Context, b *bus.Bus, cluster, pool string) (api.TickRecord, error) {
	return RequestWhatIf(ctx, b, cluster, pool, api.WhatIf{})
}

// RequestWhatIf requests the plan that would be next after a change.
func RequestWhatIf(ctx context.Context, b *bus.Bus, cluster, pool string, w api.WhatIf) (api.TickRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, api.PlanTimeout+time.Second) // the autoscaler gives its reason after PlanTimeout
	defer cancel()
	fail := func(err error) (api.TickRecord, error) {
		return api.TickRecord{}, fmt.Errorf("plan of pool %s/%s: %w", cluster, pool, err)
	}
	var request []byte
	if !w.Empty() {
		var err error
		if request, err = json.Marshal(w); err != nil {
			return fail(err)
		}
	}
	answer, err := requestPacked[api.PlanAnswer](ctx, b.Conn(), names.PlanSubject(cluster, pool), request)
	if errors.Is(err, nats.ErrNoResponders) {
		return fail(ErrNoAutoscaler)
	}
	if err != nil {
		return fail(err)
	}
	if answer.Record == nil {
		return fail(errors.New(answer.Error))
	}
	if !w.Empty() && answer.WhatIf == nil {
		return fail(errors.New("the autoscaler is of a version without assumed changes: restart it with this version"))
	}
	return *answer.Record, nil
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
	answer, err := requestPacked[api.NodesAnswer](ctx, b.Conn(), names.NodesSubject(cluster, pool), nil)
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	if err != nil {
		return api.NodesReport{}, fmt.Errorf("request the facts of the nodes of pool %s/%s: %w", cluster, pool, err)
	}
	return answer.NodesReport, nil
}

// requestPacked returns the response of the pool's autoscaler, which is JSON compressed by gzip.
func requestPacked[T any](ctx context.Context, nc *nats.Conn, subject string, request []byte) (answer T, err error) {
	msg, err := bus.Request(ctx, nc, subject, request)
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

// ErrNoAutoscaler is the error of a request to a pool without an autoscaler.
var ErrNoAutoscaler = errors.New("no autoscaler runs for it: start one with \"weir bootstrap\", or \"weir up\"")

const nodesTimeout = 3 * time.Second

const maxAnswer = 64 << 20 // bytes of an uncompressed response
