package state

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

// Headers of a record's message.
const (
	encodingHeader = "Weir-Encoding"
	encodingGzip   = "gzip"
	partsHeader    = "Weir-Parts" // sequence numbers, separated by commas

	maxParts = maxRecord/maxPart + 1
)

func setParts(h nats.Header, parts []uint64) {
	if len(parts) == 0 {
		return
	}
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = strconv.FormatUint(p, 10)
	}
	h.Set(partsHeader, strings.Join(texts, ","))
}

// partsOf returns the rising sequence numbers of a record's parts. A record of one message has no parts.
func partsOf(h nats.Header) ([]uint64, error) {
	text := h.Get(partsHeader)
	if text == "" {
		return nil, nil
	}
	if strings.Count(text, ",") >= maxParts {
		return nil, fmt.Errorf("a record has more than %d parts", maxParts)
	}
	var parts []uint64
	for one := range strings.SplitSeq(text, ",") {
		p, err := strconv.ParseUint(one, 10, 64)
		if err != nil || p == 0 || len(parts) > 0 && p <= parts[len(parts)-1] {
			return nil, fmt.Errorf("%s %.80q: want rising sequence numbers", partsHeader, text)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// Bounds of one batch, which Since holds in memory. The server ends a batch with the first record beyond batchBytes.
const (
	batchRecords   = 64
	batchSummaries = 1024
	batchBytes     = 4 << 20

	replicaPause = 50 * time.Millisecond // before the next request to a server that may lag
)

// Since calls visit with each record written at from or later, oldest first, up to the newest record at the call. An
// error of visit stops it. It omits incomplete records. Only its context bounds it.
//
// Since reads batches by direct gets, because operators and viewers may not create a consumer. Any replica answers a direct
// get, also one that lags behind the leader: Since then sends the request again.
func (l *Ledger) Since(ctx context.Context, from time.Time, visit func(record []byte) error) error {
	return l.messages(ctx, streams.Request{Since: &from}, func(m bus.Stored) error {
		record, err := l.whole(ctx, m.Header, m.Data)
		if errors.Is(err, errIncomplete) {
			return nil
		}
		if err != nil {
			return err
		}
		return visit(record)
	})
}

// messages calls visit with each message of the subject from the sequence number or the time of the request on, as Since
// does. It omits messages that another client made the server store. An empty result counts only if the newest message
// agrees: a server that has just become a leader may miss streams.
func (l *Ledger) messages(ctx context.Context, request streams.Request, visit func(bus.Stored) error) error {
	for {
		some, err := l.readOnce(ctx, request, visit)
		if err != nil || some {
			return err
		}
		newest, found, err := streams.Last(ctx, l.js, l.name, l.subject)
		if err != nil {
			return fmt.Errorf("read ledger %s: %w", l.subject, err)
		}
		if !found || newest.Sequence < request.Sequence || request.Since != nil && newest.At.Before(*request.Since) {
			return nil
		}
		if !retry.Pause(ctx, replicaPause) {
			return fmt.Errorf("read ledger %s: the server answers that there is no record, but message %d is one: %w", l.subject, newest.Sequence, context.Cause(ctx))
		}
	}
}

// readOnce is messages, without the check of an empty answer. some: it read a message.
func (l *Ledger) readOnce(ctx context.Context, request streams.Request, visit func(bus.Stored) error) (some bool, err error) {
	end, err := l.end(ctx)
	if errors.Is(err, ErrNoRecord) {
		return some, nil
	}
	if err != nil {
		return some, fmt.Errorf("read ledger %s: %w", l.subject, err)
	}
	request.Subject, request.Count, request.Bytes = l.subject, l.batched, batchBytes
	complete := false // the last request began after a replica had the newest message
	for request.Sequence <= end.last {
		records, pending, err := streams.Batch(ctx, l.js, l.name, request)
		if err != nil {
			return some, fmt.Errorf("read ledger %s: %w", l.subject, err)
		}
		for _, r := range records {
			if r.Sequence > end.last {
				return some, nil
			}
			some, request.Since, request.Sequence = true, nil, r.Sequence+1
			if r.Forged {
				continue
			}
			if err := visit(r); err != nil {
				return some, err
			}
		}
		if pending > 0 && len(records) > 0 {
			continue
		}
		if !end.replicated || complete && len(records) == 0 {
			return some, nil
		}
		if request.Sequence <= end.last {
			ended := func() bool { _, err := l.end(ctx); return errors.Is(err, ErrNoRecord) }
			if err := streams.AwaitReplica(ctx, l.js, l.name, end.last, ended); err != nil {
				return some, fmt.Errorf("read ledger %s: %w", l.subject, err)
			}
			complete = true
		}
	}
	return some, nil
}

// streamEnd is the end of a stream, as its leader reports it.
type streamEnd struct {
	last       uint64 // sequence number of the newest message
	replicated bool
}

// end returns the end of the stream, or ErrNoRecord if the stream is missing or empty.
func (l *Ledger) end(ctx context.Context) (streamEnd, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	stream, err := l.opened(ctx)
	if err != nil {
		return streamEnd{}, err
	}
	info, err := stream.Info(ctx)
	switch {
	case err != nil:
		l.setStream(nil)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return streamEnd{}, ErrNoRecord
		}
		return streamEnd{}, err
	case info.State.Msgs == 0:
		return streamEnd{}, ErrNoRecord
	}
	return streamEnd{info.State.LastSeq, kvbucket.Replicated(info)}, nil
}
