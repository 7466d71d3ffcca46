package state

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

const (
	// placementWait is the pause between two attempts to create a stream in a cluster that has just started.
	placementWait = 250 * time.Millisecond
	// Error codes of JetStream.
	codeNoPeers   jetstream.ErrorCode = 10005 // no server has space for a replica, or the cluster has just started
	codeStorage   jetstream.ErrorCode = 10047
	codeSingle    jetstream.ErrorCode = 10074 // a single server has one replica
	codeOther     jetstream.ErrorCode = 10060 // another stream than the expected one has the subject
	codeOverlap   jetstream.ErrorCode = 10065
	codeInProcess jetstream.ErrorCode = 10158  // the server stores a message with the same id at this time
	maxListedName                     = 10_000 // streams of one listing
)

// streamAway reports whether a publication failed because its stream is missing, or because its replicas elect a
// leader. The message is not stored.
func streamAway(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || hasCode(err, codeOther)
}

// EnsureStream returns the stream of that configuration, and creates it if it is missing. An existing stream keeps its
// settings.
func EnsureStream(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig) (jetstream.Stream, error) {
	for {
		stream, err := js.Stream(ctx, c.Name)
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return stream, err
		}
		stream, err = js.CreateStream(ctx, c)
		switch {
		case err == nil:
			return stream, nil
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse): // another process was faster, with other settings
		case hasCode(err, codeNoPeers):
		default:
			return nil, explainCreate(err)
		}
		if !pause(ctx, placementWait) {
			return nil, explainCreate(err)
		}
	}
}

// explainCreate adds to the server's refusal of a new stream what an operator can do.
func explainCreate(err error) error {
	switch {
	case hasCode(err, codeOverlap):
		return fmt.Errorf(`%w: another stream has its subjects; if it is %s or %s of the old layout, run "weir state migrate"`,
			err, OldLedgerStream, OldEvidenceStream)
	case hasCode(err, codeNoPeers), hasCode(err, codeSingle):
		return fmt.Errorf("%w: start the other servers of the NATS cluster, or lower nats.replicas", err)
	case hasCode(err, codeStorage):
		return fmt.Errorf("%w: its max_bytes are reserved; lower max_bytes, or raise max_file_store of the NATS servers", err)
	}
	return err
}

func hasCode(err error, code jetstream.ErrorCode) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == code
}

// pause waits, and returns false if ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// lockedStream returns a configuration of a stream that no client can purge or rewrite.
func lockedStream(name, description string, replicas int, subjects ...string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Description: description, Subjects: subjects, Replicas: max(replicas, 1),
		Discard: jetstream.DiscardOld, AllowDirect: true, DenyPurge: true, DenyDelete: true,
	}
}

// AdoptRecords copies the records of a pool that another stream has since a time, oldest first, and calls copied after
// each one. It begins after the newest record that was copied before. It omits incomplete records. A ledger with records
// of its own stays as it is. Only one process may copy at a time. Each call of bound returns the context of one request.
func AdoptRecords(ctx context.Context, js jetstream.JetStream, from jetstream.Stream, c LedgerConfig, since time.Time,
	bound func(context.Context) (context.Context, context.CancelFunc), copied func(),
) error {
	l, err := CreateLedger(ctx, js, c)
	if err != nil {
		return err
	}
	if err := l.adopt(ctx, from, since, bound, copied); err != nil {
		return fmt.Errorf("copy records to %s: %w", l.name, err)
	}
	return nil
}

func (l *Ledger) adopt(ctx context.Context, from jetstream.Stream, since time.Time,
	bound func(context.Context) (context.Context, context.CancelFunc), copied func(),
) error {
	last, err := l.stream.GetLastMsgForSubject(ctx, l.subject)
	newest, next := uint64(0), uint64(1)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
	case err != nil:
		return err
	case migratedFrom(last.Header) == 0:
		return nil
	default:
		newest, next = last.Sequence, migratedFrom(last.Header)+1
	}
	source := &Ledger{js: l.js, name: from.CachedInfo().Config.Name, subject: l.subject, stream: from}
	for {
		one, cancel := bound(ctx)
		stored, found, err := l.adoptNext(one, source, next, newest, since)
		cancel()
		if err != nil || !found {
			return err
		}
		if next = stored.next; stored.newest != 0 {
			newest = stored.newest
			copied()
		}
	}
}

// adopted is the result of adoptNext: the sequence number from which to continue, and that of the copy, 0 without one.
type adopted struct{ next, newest uint64 }

// adoptNext copies the first record at or after a sequence number of its source, behind the newest record.
func (l *Ledger) adoptNext(ctx context.Context, source *Ledger, next, newest uint64, since time.Time) (a adopted, found bool, err error) {
	m, err := source.stream.GetMsg(ctx, next, jetstream.WithGetMsgSubject(l.subject))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return a, false, nil
	}
	if err != nil {
		return a, false, err
	}
	a.next = m.Sequence + 1
	if m.Time.Before(since) {
		return a, true, nil
	}
	sequences, err := partsOf(m.Header)
	if err != nil {
		return a, true, nil // unreadable, as it is for every reader
	}
	var parts []uint64
	for _, sequence := range sequences {
		part, err := source.stream.GetMsg(ctx, sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && part.Subject != l.subject+".part" {
			return a, true, nil
		}
		if err != nil {
			return a, false, err
		}
		ack, err := l.js.Publish(ctx, part.Subject, part.Data, jetstream.WithExpectStream(l.name))
		if err != nil {
			return a, false, err
		}
		parts = append(parts, ack.Sequence)
	}
	header := migratedHeader(m)
	header.Set(timeHeader, recordTime(m.Header, m.Time).UTC().Format(time.RFC3339Nano))
	if encoding := m.Header.Get(encodingHeader); encoding != "" {
		header.Set(encodingHeader, encoding)
	}
	setParts(header, parts)
	ack, err := l.js.PublishMsg(ctx, &nats.Msg{Subject: l.subject, Header: header, Data: m.Data},
		jetstream.WithExpectStream(l.name), jetstream.WithExpectLastSequencePerSubject(newest))
	if err == nil {
		a.newest = ack.Sequence
	}
	return a, true, err
}

func migratedHeader(m *jetstream.RawStreamMsg) nats.Header {
	return nats.Header{MigratedHeader: {strconv.FormatUint(m.Sequence, 10)}}
}

// AdoptEvidence copies the evidence of a pool that another stream has, oldest first, and calls copied after each object.
// It begins after the newest object that was copied before. The objects keep their names. Only one process may copy at a
// time.
func AdoptEvidence(ctx context.Context, js jetstream.JetStream, from jetstream.Stream, cluster, pool string, replicas int,
	bound func(context.Context) (context.Context, context.CancelFunc), copied func(),
) error {
	c := EvidenceStream(cluster, pool, replicas)
	info, err := from.Info(ctx)
	if err != nil {
		return fmt.Errorf("copy evidence of pool %s: %w", pool, err)
	}
	c.FirstSeq = info.State.LastSeq + 1 // no new object has the name of an old one
	to, err := EnsureStream(ctx, js, c)
	if err != nil {
		return fmt.Errorf("open stream %s: %w", c.Name, err)
	}
	if info, err = to.Info(ctx); err != nil {
		return fmt.Errorf("copy evidence of pool %s: %w", pool, err)
	}
	next, newest := uint64(1), uint64(0)
	if info.State.Msgs > 0 {
		last, err := to.GetMsg(ctx, info.State.LastSeq)
		if err != nil {
			return fmt.Errorf("copy evidence of pool %s: %w", pool, err)
		}
		if migratedFrom(last.Header) == 0 {
			return nil
		}
		next, newest = migratedFrom(last.Header)+1, last.Sequence
	}
	filter := names.Subject(cluster, "evidence", pool, "*")
	for {
		one, cancel := bound(ctx)
		m, err := from.GetMsg(one, next, jetstream.WithGetMsgSubject(filter))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			cancel()
			return nil
		}
		if err == nil {
			next = m.Sequence + 1
			newest, err = copyEvidence(one, js, m, c.Name, newest)
		}
		cancel()
		if err != nil {
			return fmt.Errorf("copy evidence of pool %s: %w", pool, err)
		}
		copied()
	}
}

func copyEvidence(ctx context.Context, js jetstream.JetStream, m *jetstream.RawStreamMsg, stream string, newest uint64) (uint64, error) {
	options := []jetstream.PublishOpt{jetstream.WithExpectStream(stream)}
	if newest != 0 {
		options = append(options, jetstream.WithExpectLastSequence(newest))
	}
	ack, err := js.PublishMsg(ctx, &nats.Msg{Subject: m.Subject, Header: migratedHeader(m), Data: m.Data}, options...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}
