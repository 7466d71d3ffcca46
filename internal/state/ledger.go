package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	ledgerStream = "WEIR_DECISIONS"
	ledgerMaxAge = 14 * 24 * time.Hour
	ledgerMax    = 1 << 30 // bytes
)

// ErrNoRecord: the pool has no decision in the ledger yet.
var ErrNoRecord = errors.New("no decision is recorded yet")

// Ledger is the durable record of one pool's ticks.
type Ledger struct {
	js      jetstream.JetStream
	stream  jetstream.Stream
	subject string
}

// LedgerSubject is where each new record of a pool is also heard live.
func LedgerSubject(cluster, pool string) string { return "weir." + cluster + ".decision." + pool }

// OpenLedger opens the ledger of a pool, and creates the stream if it is not
// there. One that is there keeps its settings: they are the operator's.
func OpenLedger(ctx context.Context, js jetstream.JetStream, cluster, pool string) (*Ledger, error) {
	if err := checkNames(cluster, pool); err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	stream, err := js.Stream(ctx, ledgerStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name:        ledgerStream,
			Description: "one record for each tick of each pool",
			Subjects:    []string{"weir.*.decision.*"},
			MaxAge:      ledgerMaxAge,
			MaxBytes:    ledgerMax,
			Discard:     jetstream.DiscardOld,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", ledgerStream, err)
	}
	return &Ledger{js: js, stream: stream, subject: LedgerSubject(cluster, pool)}, nil
}

// Append writes one record; when it returns nil, the record is kept.
func (l *Ledger) Append(ctx context.Context, record []byte) error {
	if _, err := l.js.Publish(ctx, l.subject, record); err != nil {
		return fmt.Errorf("append to ledger %s: %w", l.subject, err)
	}
	return nil
}

// Last returns the newest record, or ErrNoRecord.
func (l *Ledger) Last(ctx context.Context) ([]byte, error) {
	msg, err := l.stream.GetLastMsgForSubject(ctx, l.subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, ErrNoRecord
	}
	if err != nil {
		return nil, fmt.Errorf("read ledger %s: %w", l.subject, err)
	}
	return msg.Data, nil
}

// Since calls visit with each record that was written at from or later, oldest
// first, up to the newest one there is now. An error of visit ends it.
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
	for left := info.NumPending; left > 0; {
		msg, err := consumer.Next(jetstream.FetchContext(ctx))
		if err != nil {
			return fmt.Errorf("read ledger %s: %w", l.subject, err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			return fmt.Errorf("read ledger %s: %w", l.subject, err)
		}
		if err := visit(msg.Data()); err != nil {
			return err
		}
		left = min(left-1, meta.NumPending)
	}
	return nil
}
