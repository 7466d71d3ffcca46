package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/names"
)

const (
	ledgerStream = "WEIR_DECISIONS"
	ledgerMaxAge = 14 * 24 * time.Hour
	// ledgerMaxRecords bounds a pool's records if the pool's writer does not.
	ledgerMaxRecords = 500_000
	maxPart          = 512 << 10 // bytes
	maxRecord        = 32 << 20  // bytes
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
	stream  jetstream.Stream
	subject string
	turn    turn
	usage   usage // owned by the caller that has the turn
}

// LedgerSubject returns the subject on which each new record of a pool is published live. Heard decodes its messages.
func LedgerSubject(cluster, pool string) string { return names.Subject(cluster, "decision", pool) }

func ledgerSubjects() []string { return []string{"weir.*.decision.*", "weir.*.decision.*.part"} }

// OpenLedger opens the ledger of a pool, and creates a missing stream. An existing stream keeps the operator's
// settings.
func OpenLedger(ctx context.Context, js jetstream.JetStream, cluster, pool string) (*Ledger, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := checkNames(cluster, pool); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	stream, err := openStream(ctx, js)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", ledgerStream, err)
	}
	return &Ledger{
		js: js, stream: stream, subject: LedgerSubject(cluster, pool),
		turn: newTurn(), usage: usage{budget: ledgerBudget},
	}, nil
}

func openStream(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, ledgerStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name:              ledgerStream,
			Description:       "one record for each tick of each pool",
			Subjects:          ledgerSubjects(),
			MaxAge:            ledgerMaxAge,
			MaxMsgsPerSubject: ledgerMaxRecords,
			AllowDirect:       true,
		})
	}
	if err != nil {
		return nil, err
	}
	c := stream.CachedInfo().Config
	for _, s := range ledgerSubjects() {
		if !slices.Contains(c.Subjects, s) { // created by a version without parts
			c.Subjects = append(c.Subjects, s)
		}
	}
	if len(c.Subjects) > len(stream.CachedInfo().Config.Subjects) {
		return js.UpdateStream(ctx, c)
	}
	return stream, nil
}

// Pools returns the names of a cluster's pools that have a record in the ledger, in order. A
// bus without a ledger has no pools.
func Pools(ctx context.Context, js jetstream.JetStream, cluster string) ([]string, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	stream, err := js.Stream(ctx, ledgerStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the pools of cluster %s: %w", cluster, err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(LedgerSubject(cluster, "*")))
	if err != nil {
		return nil, fmt.Errorf("list the pools of cluster %s: %w", cluster, err)
	}
	var pools []string
	for subject := range info.State.Subjects {
		pools = append(pools, strings.TrimPrefix(subject, LedgerSubject(cluster, "")))
	}
	slices.Sort(pools)
	return pools, nil
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
	if err := l.append(ctx, record); err != nil {
		return fmt.Errorf("append to ledger %s: %w", l.subject, err)
	}
	l.retain(ctx)
	return nil
}

func (l *Ledger) append(ctx context.Context, record []byte) error {
	if len(record) > maxRecord {
		return fmt.Errorf("a record of %d bytes is longer than %d", len(record), maxRecord)
	}
	if err := l.measure(ctx); err != nil {
		return err
	}
	data, packed := pack(record)
	header := nats.Header{}
	if packed {
		header.Set(encodingHeader, encodingGzip)
	}
	size := int64(len(data))
	var parts []uint64
	for len(data) > maxPart {
		ack, err := l.js.Publish(ctx, l.subject+".part", data[:maxPart])
		if err != nil {
			return fmt.Errorf("part %d: %w", len(parts)+1, err)
		}
		parts, data = append(parts, ack.Sequence), data[maxPart:]
	}
	setParts(header, parts)
	setSum(header, l.usage.sum+size)
	if _, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: l.subject, Header: header, Data: data}); err != nil {
		return err
	}
	l.usage.sum += size
	return nil
}

// Last returns the newest record, or ErrNoRecord.
func (l *Ledger) Last(ctx context.Context) ([]byte, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	msg, err := l.stream.GetLastMsgForSubject(ctx, l.subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, ErrNoRecord
	}
	if err != nil {
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
	consumer, err := l.js.OrderedConsumer(ctx, ledgerStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{l.subject},
		DeliverPolicy:  jetstream.DeliverByStartTimePolicy,
		OptStartTime:   &from,
	})
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
	var data []byte
	for _, sequence := range parts {
		m, err := l.stream.GetMsg(ctx, sequence)
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
