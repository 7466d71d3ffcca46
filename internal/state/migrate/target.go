package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

const (
	schemaKey = "schema"
	// Versions of a schema. Every process refuses the first and the last one.
	versionUnfinished = 0
	versionValid      = 1
	versionMoved      = 2
	// firstAbove is how far the new bucket starts above the last sequence number of the old one. Old daemons that act
	// between two runs add a few numbers a second.
	firstAbove = 1 << 32
)

// schema is the value of the key "schema".
type schema struct {
	Version int    `json:"version"`
	Note    string `json:"note,omitempty"`
	// Migrated is set in the new bucket.
	Migrated *migrated `json:"migrated,omitempty"`
	// Moved names the new bucket. It is set in the old one.
	Moved string `json:"moved_to,omitempty"`
}

// migrated records what the new buckets were made from. It is the proof of the first reading of a reader.
type migrated struct {
	From   string    `json:"from"`
	At     time.Time `json:"at,omitzero"`
	Keys   int       `json:"keys"`
	Digest string    `json:"digest,omitempty"` // SHA-256 of the keys and values
}

type targetStatus int

const (
	targetMissing    targetStatus = iota // or without a schema
	targetUnfinished                     // of an interrupted migration
	targetComplete                       // made by a migration
	targetForeign                        // made by a daemon
)

// targetStatus reads the schema of the new bucket.
func (m *migration) targetStatus(ctx context.Context) (targetStatus, error) {
	s, _, found, err := m.schema(ctx, names.StateBucket(m.Cluster))
	switch {
	case err != nil:
		return 0, err
	case !found:
		return targetMissing, nil
	case s.Version == versionUnfinished && s.Migrated != nil:
		return targetUnfinished, nil
	case s.Migrated != nil:
		return targetComplete, nil
	}
	return targetForeign, nil
}

// schema reads the schema of a bucket, which may be missing. The revision is the one that a write expects.
func (m *migration) schema(ctx context.Context, bucket string) (s schema, revision uint64, found bool, err error) {
	stream, err := m.stream(ctx, bucket)
	if err != nil || stream == nil {
		return schema{}, 0, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	message, err := stream.GetLastMsgForSubject(ctx, "$KV."+bucket+"."+schemaKey)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return schema{}, 0, false, nil
	}
	if err == nil {
		if message.Header.Get("KV-Operation") != "" {
			return schema{}, message.Sequence, false, nil
		}
		err = json.Unmarshal(message.Data, &s)
	}
	if err != nil {
		return schema{}, 0, false, fmt.Errorf("read the schema of bucket %s: %w", bucket, err)
	}
	return s, message.Sequence, true, nil
}

// writeSchema writes over exactly that revision.
func (m *migration) writeSchema(ctx context.Context, bucket string, s schema, revision uint64) error {
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = m.JS.PublishMsg(ctx, &nats.Msg{Subject: "$KV." + bucket + "." + schemaKey, Data: data},
		jetstream.WithExpectLastSequencePerSubject(revision), jetstream.WithExpectStream("KV_"+bucket))
	if err != nil {
		return fmt.Errorf("write the schema of bucket %s: %w", bucket, err)
	}
	return nil
}

// createTarget creates the missing new buckets. No process uses them until completeTarget.
func (m *migration) createTarget(ctx context.Context, b oldBuckets) error {
	first := uint64(firstAbove)
	if b.state != nil {
		info, err := b.state.Info(ctx)
		if err != nil {
			return fmt.Errorf("read bucket %s: %w", OldBucket(m.Cluster), err)
		}
		first += info.State.LastSeq
	}
	for _, bucket := range newBuckets(m.Cluster) {
		if err := m.createBucket(ctx, bucket, first); err != nil {
			return err
		}
		if !hasSchema(m.Cluster, bucket) {
			continue
		}
		_, revision, found, err := m.schema(ctx, bucket)
		if err != nil {
			return err
		}
		if !found {
			unfinished := schema{Version: versionUnfinished, Note: "a migration is not finished: run weir state migrate", Migrated: &migrated{From: OldBucket(m.Cluster)}}
			if err := m.writeSchema(ctx, bucket, unfinished, revision); err != nil {
				return err
			}
		}
	}
	return nil
}

// hasSchema reports whether a new bucket has a schema. In the bucket of applications each key is an application.
func hasSchema(cluster, bucket string) bool { return bucket != names.AppsBucket(cluster) }

// createBucket creates a bucket that no client can purge or rewrite. An existing one stays as it is.
func (m *migration) createBucket(ctx context.Context, bucket string, first uint64) error {
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	_, err := state.EnsureStream(ctx, m.JS, jetstream.StreamConfig{
		Name: "KV_" + bucket, Description: "migrated from bucket " + OldBucket(m.Cluster), Subjects: []string{"$KV." + bucket + ".>"},
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, Replicas: max(m.Replicas, 1), FirstSeq: first,
		AllowDirect: true, AllowMsgTTL: true, DenyDelete: true, DenyPurge: true,
	})
	if err != nil {
		return fmt.Errorf("create bucket %s: %w", bucket, err)
	}
	return nil
}

// completeTarget makes the new buckets valid, the one of state last.
func (m *migration) completeTarget(ctx context.Context, digest string) error {
	r := m.result
	valid := schema{
		Version:  versionValid,
		Migrated: &migrated{From: OldBucket(m.Cluster), At: time.Now().UTC(), Keys: r.State + r.Orders + r.Apps, Digest: digest},
	}
	for _, bucket := range []string{names.OrdersBucket(m.Cluster), names.StateBucket(m.Cluster)} {
		s, revision, found, err := m.schema(ctx, bucket)
		if err != nil {
			return err
		}
		if found && s.Version == versionValid && bucket == names.OrdersBucket(m.Cluster) {
			continue // an interrupted run did it
		}
		if !found || s.Version != versionUnfinished {
			return fmt.Errorf("bucket %s: another process changed its schema: stop all daemons, and run the command again", bucket)
		}
		if err := m.writeSchema(ctx, bucket, valid, revision); err != nil {
			return err
		}
	}
	return nil
}

// seal marks the old bucket of state as moved, and seals both old buckets: the server refuses every later write to them.
func (m *migration) seal(ctx context.Context, b oldBuckets) error {
	bucket := OldBucket(m.Cluster)
	s, revision, _, err := m.schema(ctx, bucket)
	if err != nil {
		return err
	}
	if s.Version < versionMoved {
		moved := schema{Version: versionMoved, Moved: names.StateBucket(m.Cluster)}
		if err := m.writeSchema(ctx, bucket, moved, revision); err != nil {
			return err
		}
	}
	if err := m.held.renewAll(ctx); err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	if err := m.sealOne(ctx, b.apps); err != nil {
		return err
	}
	return m.sealOne(ctx, b.state)
}

func (m *migration) sealOne(ctx context.Context, stream jetstream.Stream) error {
	if stream == nil {
		return nil
	}
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	info, err := stream.Info(ctx)
	if err == nil && !info.Config.Sealed {
		c := info.Config
		c.Sealed = true
		_, err = m.JS.UpdateStream(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("seal stream %s: %w", stream.CachedInfo().Config.Name, err)
	}
	return nil
}
