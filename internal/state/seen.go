package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/platform/kvbucket"
)

// maxLearn bounds the retries of Learn after concurrent writes.
const maxLearn = 8

// Seen stores the first-seen digests and yanks of releases for all hosts of a cluster, at "seen.<release.SeenKey>".
// It is safe for concurrent use.
type Seen struct{ bucket *bucket }

var _ release.SeenStore = Seen{}

// OpenSeen opens the first-seen records in the cluster's bucket. It creates a missing bucket with that many replicas.
func OpenSeen(ctx context.Context, js jetstream.JetStream, cluster string, replicas int) (Seen, error) {
	if err := checkNames(cluster, "default"); err != nil {
		return Seen{}, fmt.Errorf("open the memory of releases: %w", err)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	b, err := openBucket(ctx, js, kvbucket.State(cluster, replicas))
	return Seen{b}, err
}

// Update implements release.SeenStore.
func (s Seen) Update(ctx context.Context, k release.SeenKey, news release.Seen) (release.Seen, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	key := "seen." + k.String()
	for range maxLearn {
		entry, err := s.bucket.get(ctx, key)
		var savedValues release.Seen
		if err == nil && entry.found {
			savedValues, err = release.DecodeSeen(entry.value)
		}
		if err != nil {
			return release.Seen{}, fmt.Errorf("first-seen record of %s: %w", k.Ref, err)
		}
		next := savedValues.Merge(news)
		if next == savedValues {
			return savedValues, nil
		}
		data, err := json.Marshal(next)
		if err != nil {
			return release.Seen{}, err
		}
		if _, err = s.bucket.update(ctx, key, data, entry.revision); err == nil {
			return next, nil
		}
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return release.Seen{}, fmt.Errorf("first-seen record of %s: %w", k.Ref, err)
		}
	}
	return release.Seen{}, fmt.Errorf("first-seen record of %s: write %s: other hosts were faster %d times", k.Ref, key, maxLearn)
}

// Forget implements release.SeenStore.
func (s Seen) Forget(ctx context.Context, k release.SeenKey) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	key := "seen." + k.String()
	entry, err := s.bucket.get(ctx, key)
	var before release.Seen
	if err == nil && entry.found {
		before, _ = release.DecodeSeen(entry.value) // an unreadable record is replaced too
	}
	var data []byte
	if err == nil {
		data, err = json.Marshal(release.Seen{Generation: before.Generation + 1})
	}
	if err == nil {
		_, err = s.bucket.update(ctx, key, data, entry.revision)
	}
	if err != nil {
		return fmt.Errorf("forget first-seen record of %s: %w", k.Ref, err)
	}
	return nil
}
