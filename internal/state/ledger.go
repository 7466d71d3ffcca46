package state

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/platform/retry"
	"github.com/weirkeeper/weirkeeper/internal/platform/streams"
)

const (
	maxPart   = 512 << 10 // bytes
	maxRecord = 32 << 20  // bytes
)

var (
	// ErrNoRecord: the pool has no decision in the ledger yet.
	ErrNoRecord = errors.New("no decision is recorded yet")
	// errIncomplete: parts of a record were removed before the record.
	errIncomplete = errors.New("parts of the record are missing")
)

// Ledger is the durable list of one pool's ticks: of their records, or of the summaries of the records.
type Ledger struct {
	js      jetstream.JetStream
	name    string
	subject string
	batched int // records of one batch
	turn    turn

	mu     sync.Mutex
	stream jetstream.Stream // nil until a call has found it
}

func ledgerSubject(cluster, pool string) string { return names.Subject(cluster, "decision", pool) }

func summarySubject(cluster, pool string) string { return names.Subject(cluster, "summary", pool) }

// LedgerSubject returns the subject on which the ledger republishes each new record of a pool. Published decodes its messages.
func LedgerSubject(cluster, pool string) string {
	return names.LiveSubject(cluster, ledgerSubject(cluster, pool))
}

// SummarySubject returns the subject on which their stream republishes the summary of each new record.
func SummarySubject(cluster, pool string) string {
	return names.LiveSubject(cluster, summarySubject(cluster, pool))
}

// OpenLedger returns the ledger of a pool. A missing ledger has no records.
func OpenLedger(ctx context.Context, js jetstream.JetStream, cluster, pool string) (*Ledger, error) {
	l, err := newLedger(js, cluster, pool)
	return l.open(ctx, err)
}

// OpenSummaries returns the summaries of a pool's ticks. A missing stream has no summaries.
func OpenSummaries(ctx context.Context, js jetstream.JetStream, cluster, pool string) (*Ledger, error) {
	l, err := newSummaries(js, cluster, pool)
	return l.open(ctx, err)
}

// open finds the stream. A missing stream is no error.
func (l *Ledger) open(ctx context.Context, err error) (*Ledger, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err == nil {
		_, err = l.opened(ctx)
	}
	if err != nil && !errors.Is(err, ErrNoRecord) {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	return l, nil
}

func newSummaries(js jetstream.JetStream, cluster, pool string) (*Ledger, error) {
	l, err := newLedger(js, cluster, pool)
	if err == nil {
		l.name, l.subject, l.batched = names.SummaryStream(cluster, pool), summarySubject(cluster, pool), batchSummaries
	}
	return l, err
}

func newLedger(js jetstream.JetStream, cluster, pool string) (*Ledger, error) {
	if err := checkNames(cluster, pool); err != nil {
		return nil, err
	}
	return &Ledger{js: js, name: names.LedgerStream(cluster, pool), subject: ledgerSubject(cluster, pool), batched: batchRecords, turn: newTurn()}, nil
}

// Check returns kvbucket.ErrMissing if the stream is missing.
func (l *Ledger) Check(ctx context.Context) error { return checkStream(ctx, l.js, l.name) }

// checkStream returns kvbucket.ErrMissing if a stream is missing.
func checkStream(ctx context.Context, js jetstream.JetStream, name string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if _, err := js.Stream(ctx, name); err != nil {
		return fmt.Errorf("open stream %s: %w", name, kvbucket.Explain(js.Conn(), "$JS.API.STREAM.INFO."+name, err))
	}
	return nil
}

// Kept returns the bounds of the existing stream. They differ from the configured ones if an operator changed either.
func (l *Ledger) Kept(ctx context.Context) (age time.Duration, bytes int64, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	stream, err := l.opened(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("read ledger %s: %w", l.name, err)
	}
	c := stream.CachedInfo().Config
	return c.MaxAge, c.MaxBytes, nil
}

// opened returns the stream, or ErrNoRecord if it is missing.
func (l *Ledger) opened(ctx context.Context) (jetstream.Stream, error) {
	l.mu.Lock()
	stream := l.stream
	l.mu.Unlock()
	if stream != nil {
		return stream, nil
	}
	stream, err := l.js.Stream(ctx, l.name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, ErrNoRecord
	}
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", l.name, err)
	}
	l.setStream(stream)
	return stream, nil
}

// setStream sets the stream. After nil, the next call searches for it again, because it may be lost or created again.
func (l *Ledger) setStream(stream jetstream.Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stream = stream
}

// maxListedName bounds the streams of one listing.
const maxListedName = 10_000

// Pools returns the names of a cluster's pools that have a ledger, in order.
func Pools(ctx context.Context, js jetstream.JetStream, cluster string) ([]string, error) {
	return listed(ctx, js, cluster, func(of, pool string) (string, bool) { return pool, of == cluster })
}

// Clusters returns the names of the clusters with a pool that has a ledger, in order.
func Clusters(ctx context.Context, js jetstream.JetStream) ([]string, error) {
	return listed(ctx, js, "*", func(of, _ string) (string, bool) { return of, true })
}

// listed returns a name for each ledger of a cluster, or of all for "*".
func listed(ctx context.Context, js jetstream.JetStream, cluster string, name func(cluster, pool string) (string, bool)) ([]string, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var all []string
	streams := js.StreamNames(ctx, jetstream.WithStreamListSubject(ledgerSubject(cluster, "*")))
	n := 0
	for stream := range streams.Name() {
		if n++; n > maxListedName {
			return nil, fmt.Errorf("list the pools of cluster %s: more than %d streams", cluster, maxListedName)
		}
		parts := strings.Split(stream, ":")
		if len(parts) != 3 || stream != names.LedgerStream(parts[1], parts[2]) || !names.Valid(parts[1]) || !names.Valid(parts[2]) {
			continue
		}
		if one, ok := name(parts[1], parts[2]); ok {
			all = append(all, one)
		}
	}
	if err := streams.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return nil, fmt.Errorf("list the pools of cluster %s: %w", cluster, err)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Bounds of Append, beside streams.AppendTimeout. A leader that hangs is replaced within about ten seconds, and each attempt finds the new one.
const (
	appendAttempt    = 3 * time.Second
	publishRetryWait = 250 * time.Millisecond
)

// Append writes one record of at most 32 MiB; when it returns nil, the record is
// kept. Readers get all of it or nothing. An attempt without an answer is repeated with the same message ids, so that the
// server stores the record once.
func (l *Ledger) Append(ctx context.Context, record []byte) error {
	ctx, cancel := context.WithTimeout(ctx, streams.AppendTimeout)
	defer cancel()
	if err := l.turn.take(ctx); err != nil {
		return fmt.Errorf("append to ledger %s: %w", l.subject, err)
	}
	defer l.turn.give()
	id := rand.Text()
	err := l.attempt(ctx, record, id)
	for again(err) && retry.Pause(ctx, publishRetryWait) {
		if errors.Is(err, jetstream.ErrNoStreamResponse) { // its replicas elect a leader, or it is missing
			if missing := l.Check(ctx); errors.Is(missing, kvbucket.ErrMissing) {
				err = missing
				break
			}
		}
		err = l.attempt(ctx, record, id)
	}
	if err != nil {
		return fmt.Errorf("append to ledger %s: %w", l.subject, err)
	}
	return nil
}

// codeInProcess is the error code of JetStream for a message whose id the server stores at this time.
const codeInProcess jetstream.ErrorCode = 10158

// again reports whether the server may have stored a message, may still be storing it, or had no leader for it.
func again(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		ok && api.ErrorCode == codeInProcess
}

// attempt appends a record once. Its messages have ids that begin with id.
func (l *Ledger) attempt(ctx context.Context, record []byte, id string) error {
	ctx, cancel := context.WithTimeout(ctx, appendAttempt)
	defer cancel()
	return l.append(ctx, record, id)
}

func (l *Ledger) append(ctx context.Context, record []byte, id string) error {
	if len(record) > maxRecord {
		return fmt.Errorf("a record of %d bytes is longer than %d", len(record), maxRecord)
	}
	options := []jetstream.PublishOpt{jetstream.WithExpectStream(l.name)}
	data, packed := pack(record)
	header := nats.Header{}
	if packed {
		header.Set(encodingHeader, encodingGzip)
	}
	var parts []uint64
	for len(data) > maxPart {
		ack, err := l.js.Publish(ctx, l.subject+".part", data[:maxPart], append(options, jetstream.WithMsgID(fmt.Sprintf("%s.%d", id, len(parts))))...)
		if err != nil {
			return fmt.Errorf("part %d: %w", len(parts)+1, err)
		}
		parts, data = append(parts, ack.Sequence), data[maxPart:]
	}
	setParts(header, parts)
	_, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: l.subject, Header: header, Data: data}, append(options, jetstream.WithMsgID(id))...)
	return err
}

// Last returns the newest record, or ErrNoRecord.
func (l *Ledger) Last(ctx context.Context) ([]byte, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	stream, err := l.opened(ctx)
	if errors.Is(err, ErrNoRecord) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("read ledger %s: %w", l.subject, err)
	}
	msg, err := stream.GetLastMsgForSubject(ctx, l.subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, ErrNoRecord
	}
	if err == nil && bus.IsForged(msg.Header) {
		err = kvbucket.ErrForged
	}
	if err != nil {
		l.setStream(nil)
		return nil, fmt.Errorf("read ledger %s: %w", l.subject, err)
	}
	return l.whole(ctx, msg.Header, msg.Data)
}

// Published returns the record of a message that arrived on LedgerSubject.
func (l *Ledger) Published(ctx context.Context, m *nats.Msg) ([]byte, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return l.whole(ctx, m.Header, m.Data)
}

// PublishedSummary returns the summary of a message that arrived on SummarySubject.
func PublishedSummary(m *nats.Msg) ([]byte, error) {
	if m.Header.Get(partsHeader) != "" {
		return nil, fmt.Errorf("read a summary: it is longer than %d bytes", maxPart)
	}
	data, err := unpack(m.Data, m.Header.Get(encodingHeader) == encodingGzip, maxPart)
	if err != nil {
		return nil, fmt.Errorf("read a summary: %w", err)
	}
	return data, nil
}

// whole assembles a record from its message and its parts.
func (l *Ledger) whole(ctx context.Context, header nats.Header, last []byte) ([]byte, error) {
	parts, err := partsOf(header)
	if err != nil {
		return nil, fmt.Errorf("read ledger %s: %w", l.subject, err)
	}
	stream, err := l.opened(ctx)
	if err != nil && len(parts) > 0 {
		return nil, fmt.Errorf("read ledger %s: %w", l.subject, err)
	}
	var data []byte
	for _, sequence := range parts {
		m, err := stream.GetMsg(ctx, sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && m.Subject != l.subject+".part" {
			return nil, fmt.Errorf("read ledger %s: %w", l.subject, errIncomplete)
		}
		if err != nil {
			return nil, fmt.Errorf("read ledger %s: %w", l.subject, err)
		}
		if len(data)+len(m.Data) > maxRecord {
			return nil, fmt.Errorf("read ledger %s: a record is longer than %d bytes", l.subject, maxRecord)
		}
		data = append(data, m.Data...)
	}
	record, err := unpack(append(data, last...), header.Get(encodingHeader) == encodingGzip, maxRecord)
	if err != nil {
		return nil, fmt.Errorf("read ledger %s: %w", l.subject, err)
	}
	return record, nil
}

// packFrom is the length in bytes above which pack compresses. Any NATS client can read shorter values.
const packFrom = 4 << 10

// pack compresses data if that makes it shorter, and reports whether it did.
func pack(data []byte) ([]byte, bool) {
	if len(data) <= packFrom {
		return data, false
	}
	var buf bytes.Buffer
	// A valid level, and a buffer that takes everything: no error is possible.
	w, _ := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	_, _ = w.Write(data)
	_ = w.Close()
	if buf.Len() >= len(data) {
		return data, false
	}
	return buf.Bytes(), true
}

// unpack reverses pack. It refuses a result of more than limit bytes.
func unpack(data []byte, packed bool, limit int) ([]byte, error) {
	if packed {
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		if data, err = io.ReadAll(io.LimitReader(r, int64(limit)+1)); err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
	}
	if len(data) > limit {
		return nil, fmt.Errorf("longer than %d bytes", limit)
	}
	return data, nil
}
