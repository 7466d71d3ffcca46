package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
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

	replicaPause = 50 * time.Millisecond // before the next request to a replica that lags
)

// Headers of the messages of a batch.
const (
	statusHeader  = "Status" // of a message without a record
	pendingHeader = "Nats-Num-Pending"
	statusEnd     = "204" // the batch is complete
	statusNone    = "404" // no record is left
)

// batchRequest requests the records from a sequence number or from a time on.
type batchRequest struct {
	Sequence uint64     `json:"seq,omitempty"`
	Since    *time.Time `json:"start_time,omitempty"`
	Subject  string     `json:"next_by_subj"`
	Records  int        `json:"batch"`
	Bytes    int        `json:"max_bytes"`
}

// Since calls visit with each record written at from or later, oldest first, up to the newest record at the call. An
// error of visit stops it. It omits incomplete records. Only its context bounds it.
//
// Since reads batches by direct gets, because operators and viewers may not create a consumer. Any replica answers a direct
// get, also one that lags behind the leader: Since then sends the request again.
func (l *Ledger) Since(ctx context.Context, from time.Time, visit func(record []byte) error) error {
	return l.messages(ctx, batchRequest{Since: &from}, func(m stored) error {
		record, err := l.whole(ctx, m.header, m.data)
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
// does. That there is none counts only if the newest message agrees: a server that has just become a leader may miss streams.
func (l *Ledger) messages(ctx context.Context, request batchRequest, visit func(stored) error) error {
	for {
		some := false
		err := l.readOnce(ctx, request, func(m stored) error {
			some = true
			return visit(m)
		})
		if err != nil || some {
			return err
		}
		newest, found, err := l.newest(ctx)
		if err != nil {
			return fmt.Errorf("read ledger %s: %w", l.subject, err)
		}
		if !found || newest.sequence < request.Sequence || request.Since != nil && newest.at.Before(*request.Since) {
			return nil
		}
		if !pause(ctx, replicaPause) {
			return fmt.Errorf("read ledger %s: the server answers that there is no record, but message %d is one: %w", l.subject, newest.sequence, context.Cause(ctx))
		}
	}
}

// newest returns the newest message of the subject that a replica has.
func (l *Ledger) newest(ctx context.Context) (newest stored, found bool, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	data, err := json.Marshal(map[string]string{"last_by_subj": l.subject})
	if err != nil {
		return stored{}, false, err
	}
	m, err := bus.Request(ctx, l.js.Conn(), "$JS.API.DIRECT.GET."+l.name, data)
	if errors.Is(err, nats.ErrNoResponders) { // there is no stream
		return stored{}, false, nil
	}
	if err != nil {
		return stored{}, false, err
	}
	if m.Header.Get(statusHeader) == statusNone {
		return stored{}, false, nil
	}
	newest, err = storedOf(m)
	return newest, err == nil, err
}

// storedOf returns the message of a direct get.
func storedOf(m *nats.Msg) (one stored, err error) {
	one = stored{subject: m.Header.Get(jetstream.SubjectHeader), header: m.Header, data: m.Data}
	if one.sequence, err = strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64); err != nil {
		return stored{}, fmt.Errorf("the server answers with sequence number %.80q", m.Header.Get(jetstream.SequenceHeader))
	}
	if one.at, err = time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer)); err != nil {
		return stored{}, fmt.Errorf("the server answers with time %.80q", m.Header.Get(jetstream.TimeStampHeaer))
	}
	return one, nil
}

// readOnce is messages, without the check of an empty answer.
func (l *Ledger) readOnce(ctx context.Context, request batchRequest, visit func(stored) error) error {
	end, err := l.end(ctx)
	if errors.Is(err, ErrNoRecord) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read ledger %s: %w", l.subject, err)
	}
	request.Subject, request.Records, request.Bytes = l.subject, l.batched, batchBytes
	complete := false // the last request began after a replica had the newest message
	for request.Sequence <= end.last {
		records, more, err := l.batch(ctx, request)
		if err != nil {
			return fmt.Errorf("read ledger %s: %w", l.subject, err)
		}
		for _, r := range records {
			if r.sequence > end.last {
				return nil
			}
			request.Since, request.Sequence = nil, r.sequence+1
			if err := visit(r); err != nil {
				return err
			}
		}
		if more && len(records) > 0 {
			continue
		}
		if !end.replicated || complete && len(records) == 0 {
			return nil
		}
		if request.Sequence <= end.last {
			if err := l.awaitReplica(ctx, end.last); err != nil {
				return fmt.Errorf("read ledger %s: %w", l.subject, err)
			}
			complete = true
		}
	}
	return nil
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

// awaitReplica waits until a replica that answers has the message with that sequence number, or the stream is empty.
func (l *Ledger) awaitReplica(ctx context.Context, sequence uint64) error {
	for {
		records, _, err := l.batch(ctx, batchRequest{Sequence: sequence, Subject: ">", Records: 1, Bytes: batchBytes})
		if err != nil || len(records) > 0 {
			return err
		}
		if _, err := l.end(ctx); errors.Is(err, ErrNoRecord) {
			return nil
		}
		if !pause(ctx, replicaPause) {
			return fmt.Errorf("the replica that answers lacks message %d, which the leader has: %w", sequence, context.Cause(ctx))
		}
	}
}

// stored is one message of the ledger.
type stored struct {
	subject  string
	sequence uint64
	at       time.Time
	header   nats.Header
	data     []byte
}

// batch returns the records of one request, in order, and whether the stream has more.
func (l *Ledger) batch(ctx context.Context, r batchRequest) (records []stored, more bool, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	data, err := json.Marshal(r)
	if err != nil {
		return nil, false, err
	}
	err = bus.Replies(ctx, l.js.Conn(), "$JS.API.DIRECT.GET."+l.name, data, func(m *nats.Msg) (bool, error) {
		switch status := m.Header.Get(statusHeader); status {
		case "":
		case statusEnd:
			more = m.Header.Get(pendingHeader) != "0"
			return false, nil
		case statusNone:
			return false, nil
		default:
			return false, fmt.Errorf("the server answers with status %.80q %.80q", status, m.Header.Get("Description"))
		}
		if len(records) == r.Records {
			return false, fmt.Errorf("the server answers with more than %d records", r.Records)
		}
		one, err := storedOf(m)
		if err == nil && one.sequence < r.Sequence {
			err = fmt.Errorf("the server answers with sequence number %d, want at least %d", one.sequence, r.Sequence)
		}
		if err != nil {
			return false, err
		}
		r.Sequence = one.sequence + 1
		records = append(records, one)
		return true, nil
	})
	if errors.Is(err, nats.ErrNoResponders) {
		err = fmt.Errorf("no server answers direct gets of stream %s: check its leader, and that it allows direct gets: %w", l.name, err)
	}
	return records, more, err
}
