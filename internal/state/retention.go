package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// ledgerBudget bounds the records of a pool, in bytes.
const ledgerBudget = 512 << 20

// usage is a pool's part of the ledger, as the pool's writer counts it.
type usage struct {
	budget int64
	known  bool
	sum    int64 // bytes ever written, by the newest record
	// oldest and oldestSum are the sequence number and the sum of the oldest record. 0: not read yet.
	oldest    uint64
	oldestSum int64
}

// measure reads the counts of earlier writers.
func (l *Ledger) measure(ctx context.Context) error {
	if l.usage.known {
		return nil
	}
	m, err := l.stream.GetLastMsgForSubject(ctx, l.subject)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("read the last record: %w", err)
	}
	if err == nil {
		l.usage.sum = sumOf(m.Header)
	}
	l.usage.known = true
	return nil
}

// retain removes the oldest records when the pool exceeds its budget. A later Append retries what fails. A record
// that stays too long is no reason to fail its tick.
func (l *Ledger) retain(ctx context.Context) {
	if err := l.findOldest(ctx); err != nil {
		return
	}
	u := &l.usage
	if u.sum-u.oldestSum <= u.budget {
		return
	}
	// Removing a twentieth more than needed makes removals rare.
	first, parts, err := l.firstBeyond(ctx, u.sum-u.budget+u.budget/20)
	if err != nil {
		return
	}
	err = errors.Join(
		l.stream.Purge(ctx, jetstream.WithPurgeSubject(l.subject), jetstream.WithPurgeSequence(first)),
		l.stream.Purge(ctx, jetstream.WithPurgeSubject(l.subject+".part"), jetstream.WithPurgeSequence(parts)),
	)
	if err == nil {
		u.oldest = 0
	}
}

// findOldest reads the oldest record unless it is known. If that record expired since, the next removal only comes
// early.
func (l *Ledger) findOldest(ctx context.Context) error {
	if l.usage.oldest != 0 {
		return nil
	}
	m, err := l.next(ctx, 1)
	if err != nil {
		return err
	}
	l.usage.oldest, l.usage.oldestSum = m.Sequence, sumOf(m.Header)
	return nil
}

// firstBeyond returns two sequence numbers: of the first record whose sum exceeds bytes, and of the first part that
// this record and later ones need.
func (l *Ledger) firstBeyond(ctx context.Context, bytes int64) (first, parts uint64, err error) {
	last, err := l.stream.GetLastMsgForSubject(ctx, l.subject)
	if err != nil {
		return 0, 0, err
	}
	found := last
	for low, high := l.usage.oldest, last.Sequence; low < high; {
		middle := low + (high-low)/2
		m, err := l.next(ctx, middle)
		if err != nil {
			return 0, 0, err
		}
		if sumOf(m.Header) > bytes {
			found, high = m, middle
		} else {
			low = m.Sequence + 1
		}
	}
	first = found.Sequence
	needed, err := partsOf(found.Header)
	if len(needed) > 0 {
		return first, needed[0], err
	}
	return first, first, err
}

// next returns the first record at or after a sequence number.
func (l *Ledger) next(ctx context.Context, from uint64) (*jetstream.RawStreamMsg, error) {
	return l.stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(l.subject))
}
