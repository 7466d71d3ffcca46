package state

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Bounds of the findings of a cluster. Beyond them, NATS removes the oldest.
const (
	findingsAge         = 90 * 24 * time.Hour
	findingsBytes int64 = 512 << 20

	findingsEvery = time.Minute // between two checks that the stream exists
)

// FindingsStream returns the configuration of a new stream of findings. It stores what node health and the harmonizer
// publish for live readers.
func FindingsStream(cluster string, replicas int) jetstream.StreamConfig {
	s := lockedStream(names.FindingsStream(cluster), "findings of node health and of the harmonizer", replicas,
		names.Subject(cluster, "harmonizer", "events"), names.Subject(cluster, "health", "*", "events"))
	s.MaxAge, s.MaxBytes = findingsAge, findingsBytes
	s.MaxMsgSize, s.Compression = maxMessage, jetstream.S2Compression
	return s
}

// KeepFindings creates the stream of findings, and creates it again if it is lost, until ctx ends. It logs why that fails.
// Several processes may do so. An existing stream keeps its settings.
func KeepFindings(ctx context.Context, js jetstream.JetStream, cluster string, replicas int, log *slog.Logger) error {
	c := FindingsStream(cluster, replicas)
	failed := false
	for {
		one, cancel := bounded(ctx)
		_, err := EnsureStream(one, js, c)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failed:
			log.Warn("findings are not stored", "stream", c.Name, "err", err, "remedy", "check NATS with \"weir doctor\"; after an upgrade run \"weir nats init\" for the new permissions")
		case err == nil && failed:
			log.Info("findings are stored again", "stream", c.Name)
		}
		failed = err != nil
		if !pause(ctx, findingsEvery) {
			return nil
		}
	}
}

// StoredFinding is one message of the stream of findings: the findings of one publication, as live readers receive it.
type StoredFinding struct {
	Subject string
	At      time.Time // when NATS stored it
	Data    []byte
}

// FindingsSince calls visit with the messages stored at from or later, oldest first, up to the newest at the call. An
// error of visit stops it. Without a stream there are none. Only its context bounds it.
func FindingsSince(ctx context.Context, js jetstream.JetStream, cluster string, from time.Time, visit func(StoredFinding) error) error {
	if !names.Valid(cluster) {
		return fmt.Errorf("read findings: cluster %q: invalid name", cluster)
	}
	l := &Ledger{js: js, name: names.FindingsStream(cluster), subject: names.Subject(cluster, ">"), batched: batchSummaries, turn: newTurn()}
	return l.messages(ctx, batchRequest{Since: &from}, func(m stored) error { return visit(StoredFinding{m.subject, m.at, m.data}) })
}

// Bounds of the events for webhooks. Beyond them, NATS removes the oldest.
const (
	noticesAge         = 25 * time.Hour // package notify drops and counts events older than a day
	noticesBytes int64 = 128 << 20
)

// NoticesStream returns the configuration of a new stream of events for webhooks. An event with the id of a stored one is not
// stored again.
func NoticesStream(cluster string, replicas int) jetstream.StreamConfig {
	s := lockedStream(names.NoticesStream(cluster), "events for webhooks", replicas, NoticeSubject(cluster, ""), NoticeSubject(cluster, "*"))
	s.MaxAge, s.MaxBytes, s.Duplicates = noticesAge, noticesBytes, noticesAge
	s.MaxMsgSize, s.Compression = maxMessage, jetstream.S2Compression
	return s
}

// NoticeSubject returns the subject of the decisions and orders of a pool as events for webhooks. With an empty pool it is
// that of the findings of all pools and of the harmonizer.
func NoticeSubject(cluster, pool string) string {
	if pool == "" {
		return names.Subject(cluster, "notice")
	}
	return names.Subject(cluster, "notice", pool)
}
