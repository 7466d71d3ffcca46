package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/names"
)

const (
	// DefaultLedgerAge and DefaultLedgerBytes bound a pool's ledger unless its settings do. NATS removes the oldest
	// records beyond either bound.
	DefaultLedgerAge         = 14 * 24 * time.Hour
	DefaultLedgerBytes int64 = 512 << 20

	maxPart    = 512 << 10 // bytes
	maxRecord  = 32 << 20  // bytes
	maxMessage = 1 << 20   // bytes of one message with its headers

	// OldLedgerStream is the stream of all pools' records in the layout before ADR 34.
	OldLedgerStream = "WEIR_DECISIONS"
)

var (
	// ErrNoRecord: the pool has no decision in the ledger yet.
	ErrNoRecord = errors.New("no decision is recorded yet")
	// errIncomplete: parts of a record were removed before the record.
	errIncomplete = errors.New("parts of the record are missing")
)

// Ledger is the durable list of one pool's ticks.
type Ledger struct {
	js      jetstream.JetStream
	name    string
	subject string
	turn    turn
	// config creates the stream. A reader's has no name: it creates nothing.
	config jetstream.StreamConfig

	mu     sync.Mutex
	stream jetstream.Stream // nil until a call has found it
}

// LedgerConfig configures the ledger of the pool's writer.
type LedgerConfig struct {
	Cluster, Pool string
	Replicas      int           // 0: 1
	MaxAge        time.Duration // 0: DefaultLedgerAge
	MaxBytes      int64         // of the stored, packed records; 0: DefaultLedgerBytes
}

// LedgerSubject returns the subject on which each new record of a pool is published live. Heard decodes its messages.
func LedgerSubject(cluster, pool string) string { return names.Subject(cluster, "decision", pool) }

// OpenLedger returns the ledger of a pool for readers. It creates nothing. A missing ledger has no records.
func OpenLedger(ctx context.Context, js jetstream.JetStream, cluster, pool string) (*Ledger, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	l, err := newLedger(js, cluster, pool)
	if err == nil {
		_, err = l.opened(ctx)
	}
	if err != nil && !errors.Is(err, ErrNoRecord) {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	return l, nil
}

// CreateLedger returns the ledger of a pool for the pool's writer. It creates a missing stream. An existing stream
// keeps its settings. Append creates a stream again that was lost.
func CreateLedger(ctx context.Context, js jetstream.JetStream, c LedgerConfig) (*Ledger, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	l, err := newLedger(js, c.Cluster, c.Pool)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l.config = c.Stream()
	if err := l.create(ctx); err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", l.name, err)
	}
	return l, nil
}

func newLedger(js jetstream.JetStream, cluster, pool string) (*Ledger, error) {
	if err := checkNames(cluster, pool); err != nil {
		return nil, err
	}
	return &Ledger{js: js, name: names.LedgerStream(cluster, pool), subject: LedgerSubject(cluster, pool), turn: newTurn()}, nil
}

// Stream returns the configuration of a new ledger's stream.
func (c LedgerConfig) Stream() jetstream.StreamConfig {
	subject := LedgerSubject(c.Cluster, c.Pool)
	s := lockedStream(names.LedgerStream(c.Cluster, c.Pool), "one record for each tick of pool "+c.Pool, c.Replicas, subject, subject+".part")
	s.MaxAge, s.MaxBytes = cmp.Or(c.MaxAge, DefaultLedgerAge), cmp.Or(c.MaxBytes, DefaultLedgerBytes)
	s.MaxMsgSize = maxMessage
	return s
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

// create finds the stream, or creates it.
func (l *Ledger) create(ctx context.Context) error {
	stream, err := EnsureStream(ctx, l.js, l.config)
	if err == nil {
		l.setStream(stream)
	}
	return err
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

// setStream sets the stream. After nil, the next call looks for it again, because it may be lost or created again.
func (l *Ledger) setStream(stream jetstream.Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stream = stream
}

// Pools returns the names of a cluster's pools that have a ledger, in order.
func Pools(ctx context.Context, js jetstream.JetStream, cluster string) ([]string, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	var pools []string
	prefix := names.LedgerStream(cluster, "")
	listed := js.StreamNames(ctx, jetstream.WithStreamListSubject(LedgerSubject(cluster, "*")))
	n := 0
	for name := range listed.Name() {
		if n++; n > maxListedName {
			return nil, fmt.Errorf("list the pools of cluster %s: more than %d streams", cluster, maxListedName)
		}
		if pool, ok := strings.CutPrefix(name, prefix); ok && names.Valid(pool) {
			pools = append(pools, pool)
		}
	}
	if err := listed.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return nil, fmt.Errorf("list the pools of cluster %s: %w", cluster, err)
	}
	slices.Sort(pools)
	return slices.Compact(pools), nil
}

// Append writes one record of at most 32 MiB; when it returns nil, the record is
// kept. Readers see all of it or nothing.
func (l *Ledger) Append(ctx context.Context, record []byte) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := l.turn.take(ctx); err != nil {
		return fmt.Errorf("append to ledger %s: %w", l.subject, err)
	}
	defer l.turn.give()
	err := l.append(ctx, record)
	if streamAway(err) && l.config.Name != "" {
		// Parts of a lost stream are lost too.
		if err = l.create(ctx); err == nil {
			err = l.append(ctx, record, jetstream.WithRetryWait(publishRetryWait), jetstream.WithRetryAttempts(publishRetries))
		}
	}
	if err != nil {
		return fmt.Errorf("append to ledger %s: %w", l.subject, err)
	}
	return nil
}

// Retries of a message while the stream has no leader, within the time of one call.
const (
	publishRetryWait = 250 * time.Millisecond
	publishRetries   = int(callTimeout / publishRetryWait)
)

func (l *Ledger) append(ctx context.Context, record []byte, options ...jetstream.PublishOpt) error {
	if len(record) > maxRecord {
		return fmt.Errorf("a record of %d bytes is longer than %d", len(record), maxRecord)
	}
	options = append(options, jetstream.WithExpectStream(l.name))
	data, packed := pack(record)
	header := nats.Header{}
	if packed {
		header.Set(encodingHeader, encodingGzip)
	}
	var parts []uint64
	for len(data) > maxPart {
		ack, err := l.js.Publish(ctx, l.subject+".part", data[:maxPart], options...)
		if err != nil {
			return fmt.Errorf("part %d: %w", len(parts)+1, err)
		}
		parts, data = append(parts, ack.Sequence), data[maxPart:]
	}
	setParts(header, parts)
	_, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: l.subject, Header: header, Data: data}, options...)
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
	if err != nil {
		l.setStream(nil)
		return nil, fmt.Errorf("read ledger %s: %w", l.subject, err)
	}
	return l.whole(ctx, msg.Header, msg.Data)
}

// Heard returns the record of a message that arrived on LedgerSubject.
func (l *Ledger) Heard(ctx context.Context, m *nats.Msg) ([]byte, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	return l.whole(ctx, m.Header, m.Data)
}

// readAhead bounds the messages, of at most 512 KiB each, that Since buffers.
const readAhead = 16

// Since calls visit with each record written at from or later, oldest first, up to the newest record at the call. An
// error of visit stops it. It omits incomplete records. Only its context bounds it.
func (l *Ledger) Since(ctx context.Context, from time.Time, visit func(record []byte) error) error {
	consumer, err := l.js.OrderedConsumer(ctx, l.name, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{l.subject},
		DeliverPolicy:  jetstream.DeliverByStartTimePolicy,
		OptStartTime:   &from,
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read ledger %s: %w", l.subject, err)
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		return fmt.Errorf("read ledger %s: %w", l.subject, err)
	}
	if info.NumPending == 0 {
		return nil
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(readAhead))
	if err != nil {
		return fmt.Errorf("read ledger %s: %w", l.subject, err)
	}
	defer messages.Stop()
	for left := info.NumPending; left > 0; {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("read ledger %s: %w", l.subject, err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			return fmt.Errorf("read ledger %s: %w", l.subject, err)
		}
		left = min(left-1, meta.NumPending)
		if recordTime(msg.Headers(), meta.Timestamp).Before(from) {
			continue
		}
		record, err := l.whole(ctx, msg.Headers(), msg.Data())
		if errors.Is(err, errIncomplete) {
			continue
		}
		if err != nil {
			return err
		}
		if err := visit(record); err != nil {
			return err
		}
	}
	return nil
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
