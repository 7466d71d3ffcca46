package streams

import (
	"cmp"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// SchemaVersion is the version of the keys and values of the buckets, in the key SchemaKey.
const SchemaVersion = 1

// SchemaKey has the schema of each bucket but that of the applications, which programs of others write too.
const SchemaKey = "schema"

// Cluster is what the streams and buckets of a cluster depend on.
type Cluster struct {
	Name     string
	Replicas int // 0: 1
	Pools    []Pool
}

// Pool has the bounds of one pool's recorded ticks. Zero is the default.
type Pool struct {
	Name         string
	LedgerAge    time.Duration
	LedgerBytes  int64 // of the stored, packed records
	SummaryAge   time.Duration
	SummaryBytes int64
}

// Bounds of the streams. NATS removes the oldest messages beyond them. Those of a pool's recorded ticks are defaults.
const (
	LedgerAge         = 14 * 24 * time.Hour
	LedgerBytes int64 = 512 << 20
	// The bytes of the summaries hold this age of ticks of 10 s in a pool of 20 apps and 10 leaving nodes.
	SummaryAge         = 90 * 24 * time.Hour
	SummaryBytes int64 = 2560 << 20

	evidenceAge    = 14 * 24 * time.Hour
	evidenceBytes  = 64 << 20 // of all objects, with their headers
	evidenceMax    = 2000     // objects
	evidenceOfNode = 4        // objects of one node

	findingsAge   = 90 * 24 * time.Hour
	findingsBytes = 512 << 20

	noticesAge   = 25 * time.Hour // package notify drops and counts events older than a day
	noticesBytes = 128 << 20
)

// MaxEvidence bounds one object of evidence, and maxMessage one message of another stream with its headers, in bytes.
const (
	MaxEvidence     = 192 << 10
	evidenceHeaders = 4 << 10
	maxMessage      = 1 << 20
)

// Bounds of the buckets, in bytes. A write beyond them fails.
const (
	poolBytes       = 256 << 20
	placerBytes     = 128 << 20
	harmonizerBytes = 512 << 20
	appsBytes       = 256 << 20
	authBytes       = 32 << 20
	notifyBytes     = 16 << 20
)

const (
	// AppendTimeout bounds the attempts to append one record, which have the same id: the server must compare ids for longer.
	AppendTimeout  = 15 * time.Second
	appendWindow   = 2 * AppendTimeout
	shortestWindow = 100 * time.Millisecond // that the server accepts, of messages without ids
)

// Validate returns an error for a name that would be part of another stream's name.
func (c Cluster) Validate() error {
	if !names.Valid(c.Name) {
		return fmt.Errorf("cluster %.80q: %s", c.Name, names.Rule)
	}
	for _, p := range c.Pools {
		if !names.Valid(p.Name) {
			return fmt.Errorf("pool %.80q: %s", p.Name, names.Rule)
		}
	}
	return nil
}

// Specs returns the configurations of all streams and buckets, those of the cluster first.
func (c Cluster) Specs() []jetstream.StreamConfig {
	all := []jetstream.StreamConfig{
		c.Apps(),
		c.bucket(names.HarmonizerBucket(c.Name), "state of the harmonizer of cluster "+c.Name, harmonizerBytes),
		c.bucket(names.AuthBucket(c.Name), "public keys of the agents of cluster "+c.Name, authBytes),
		c.bucket(names.NotifyBucket(c.Name), "positions of the targets of events of cluster "+c.Name, notifyBytes),
		c.findings(), c.notices(),
	}
	for _, p := range c.Pools {
		all = append(all,
			c.bucket(names.PoolBucket(c.Name, p.Name), "state and orders of pool "+p.Name, poolBytes),
			c.bucket(names.PlacerBucket(c.Name, p.Name), "assignments of the placer of pool "+p.Name, placerBytes),
			c.ledger(p), c.summaries(p), c.evidence(p),
		)
	}
	return all
}

// Apps returns the bucket of the expected applications. Its readers learn of changes by their republished headers.
func (c Cluster) Apps() jetstream.StreamConfig {
	name := names.AppsBucket(c.Name)
	s := c.bucket(name, "expected state of applications in cluster "+c.Name, appsBytes)
	s.RePublish = &jetstream.RePublish{Source: s.Subjects[0], Destination: names.ChangedSubject(c.Name, name), HeadersOnly: true}
	return s
}

func (c Cluster) bucket(name, description string, bytes int64) jetstream.StreamConfig {
	return kvbucket.Settings(name, description, c.Replicas, bytes)
}

// stream returns a stream that no client can purge or rewrite.
func (c Cluster) stream(name, description string, subjects ...string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Description: description, Subjects: subjects, Replicas: max(c.Replicas, 1), MaxMsgSize: maxMessage,
		Discard: jetstream.DiscardOld, Duplicates: shortestWindow, AllowDirect: true, DenyPurge: true, DenyDelete: true,
	}
}

// live returns the republication of the messages of a subject.
func (c Cluster) live(subject string) *jetstream.RePublish {
	return &jetstream.RePublish{Source: subject, Destination: names.LiveSubject(c.Name, subject)}
}

// ledger returns the stream of the records of a pool's ticks. Live readers receive no parts of long records.
func (c Cluster) ledger(p Pool) jetstream.StreamConfig {
	subject := names.Subject(c.Name, "decision", p.Name)
	s := c.stream(names.LedgerStream(c.Name, p.Name), "one record for each tick of pool "+p.Name, subject, subject+".part")
	s.MaxAge, s.MaxBytes = cmp.Or(p.LedgerAge, LedgerAge), cmp.Or(p.LedgerBytes, LedgerBytes)
	s.Duplicates, s.RePublish = min(appendWindow, s.MaxAge), c.live(subject)
	return s
}

// summaries returns the stream of the summaries of a pool's ticks. The server compresses it: one summary resembles the next.
func (c Cluster) summaries(p Pool) jetstream.StreamConfig {
	subject := names.Subject(c.Name, "summary", p.Name)
	s := c.stream(names.SummaryStream(c.Name, p.Name), "a summary of each tick of pool "+p.Name, subject)
	s.MaxAge, s.MaxBytes, s.Compression = cmp.Or(p.SummaryAge, SummaryAge), cmp.Or(p.SummaryBytes, SummaryBytes), jetstream.S2Compression
	s.Duplicates, s.RePublish = min(appendWindow, s.MaxAge), c.live(subject)
	return s
}

func (c Cluster) evidence(p Pool) jetstream.StreamConfig {
	s := c.stream(names.EvidenceStream(c.Name, p.Name), "evidence about machines of pool "+p.Name+" before they are replaced or rebuilt",
		names.Subject(c.Name, "evidence", p.Name, "*"))
	s.MaxAge, s.MaxBytes, s.MaxMsgs, s.MaxMsgsPerSubject = evidenceAge, evidenceBytes, evidenceMax, evidenceOfNode
	s.MaxMsgSize = MaxEvidence + evidenceHeaders
	return s
}

// findings returns the stream of what node health and the harmonizer publish.
func (c Cluster) findings() jetstream.StreamConfig {
	s := c.stream(names.FindingsStream(c.Name), "findings of node health and of the harmonizer",
		names.Subject(c.Name, "harmonizer", "events"), names.Subject(c.Name, "health", "*", "events"))
	s.MaxAge, s.MaxBytes, s.Compression = findingsAge, findingsBytes, jetstream.S2Compression
	s.RePublish = c.live(names.Subject(c.Name, ">"))
	return s
}

// notices returns the stream of the events for webhooks. An event with the id of a stored one is not stored again: a process
// that starts again reads its sources again from the last stored position.
func (c Cluster) notices() jetstream.StreamConfig {
	s := c.stream(names.NoticesStream(c.Name), "events for webhooks", names.Subject(c.Name, "notice"), names.Subject(c.Name, "notice", "*"))
	s.MaxAge, s.MaxBytes, s.Duplicates, s.Compression = noticesAge, noticesBytes, noticesAge, jetstream.S2Compression
	return s
}
