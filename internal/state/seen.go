package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// maxLearn bounds the retries of Learn after concurrent writes.
const maxLearn = 8

// Seen stores the first-seen digests and yanks of releases for all hosts of a pool. The pool writes Update, and an operator
// Forget. It is safe for concurrent use.
type Seen struct{ bucket *bucket }

var _ release.SeenStore = Seen{}

// OpenSeen opens the first-seen records of a pool.
func OpenSeen(ctx context.Context, js jetstream.JetStream, cluster, pool string) (Seen, error) {
	if err := checkNames(cluster, pool); err != nil {
		return Seen{}, fmt.Errorf("open the memory of releases: %w", err)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	b, err := openBucket(ctx, js, names.PoolBucket(cluster, pool))
	return Seen{b}, err
}

// Update implements release.SeenStore.
func (s Seen) Update(ctx context.Context, k release.SeenKey, news release.Seen) (release.Seen, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	fail := func(err error) (release.Seen, error) {
		return release.Seen{}, fmt.Errorf("first-seen record of %s: %w", k.Ref, err)
	}
	forgotten, accepted, err := s.get(ctx, acceptSeenPrefix+k.String())
	if err != nil {
		return fail(err)
	}
	key := seenPrefix + k.String()
	for range maxLearn {
		stored, revision, err := s.get(ctx, key)
		if errors.Is(err, release.ErrCorrupt) && accepted > revision { // an operator has replaced it
			stored, err = release.Seen{}, nil
		}
		if err != nil {
			return fail(err)
		}
		next := stored.Merge(forgotten).Merge(news)
		if next == stored {
			return stored, nil
		}
		data, err := json.Marshal(next)
		if err == nil {
			_, err = s.bucket.update(ctx, key, data, revision)
		}
		if err == nil {
			return next, nil
		}
		if !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return fail(err)
		}
	}
	return fail(fmt.Errorf("write %s: other hosts were faster %d times", key, maxLearn))
}

// get returns a record. A missing one is empty.
func (s Seen) get(ctx context.Context, key string) (record release.Seen, revision uint64, err error) {
	e, err := s.bucket.get(ctx, key)
	if err == nil && e.found {
		record, err = release.DecodeSeen(e.value)
	}
	return record, e.revision, err
}

// Forget implements release.SeenStore. The record with the next generation is in a key of the operator, and the pool merges it.
func (s Seen) Forget(ctx context.Context, k release.SeenKey) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	stored, _, err := s.get(ctx, seenPrefix+k.String())
	var before release.Seen
	var revision uint64
	if err == nil || errors.Is(err, release.ErrCorrupt) { // an unreadable record is replaced too
		before, revision, err = s.get(ctx, acceptSeenPrefix+k.String())
	}
	var data []byte
	if err == nil || errors.Is(err, release.ErrCorrupt) {
		data, err = json.Marshal(release.Seen{Generation: max(before.Generation, stored.Generation) + 1})
	}
	if err == nil {
		_, err = s.bucket.update(ctx, acceptSeenPrefix+k.String(), data, revision)
	}
	if err != nil {
		return fmt.Errorf("forget first-seen record of %s: %w", k.Ref, err)
	}
	return nil
}
