package release_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

// sharedStore is an in-memory release.SeenStore for several caches.
type sharedStore struct {
	mu   sync.Mutex
	seen map[release.SeenKey]release.Seen
	away error
}

// Update implements release.SeenStore.
func (m *sharedStore) Update(_ context.Context, k release.SeenKey, update release.Seen) (release.Seen, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away == nil {
		m.seen[k] = m.seen[k].Merge(update)
	}
	return m.seen[k], m.away
}

// Forget implements release.SeenStore.
func (m *sharedStore) Forget(_ context.Context, k release.SeenKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen[k] = release.Seen{Generation: m.seen[k].Generation + 1}
	return m.away
}

func openShared(t *testing.T, shared release.SeenStore) *release.Cache {
	t.Helper()
	c, err := release.OpenCache(t.Context(), release.Config{Dir: t.TempDir(), Platform: linux, RetryTimeout: 2 * time.Second, Shared: shared})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A version has its first-seen content on each host until Forget.
func TestFirstSeenContentIsPinned(t *testing.T) {
	server, b := startBucket(t)
	m := publish(t, b, v1, map[string]string{"run*": "good"})
	shared := &sharedStore{seen: map[release.SeenKey]release.Seen{}}
	c, other := openShared(t, shared), openShared(t, shared)
	first, _ := mustFetch(t, c, b, v1)

	removeObject(t, server, m, "manifest.json")
	craft(t, b, v1, []entry{{name: "run", body: "replaced", kind: '0'}}, nil)
	for name, host := range map[string]*release.Cache{"the host that fetched it": c, "another host": other} {
		err := refusal(t, host, b, v1)
		if !errors.Is(err, release.ErrChanged) || !strings.Contains(err.Error(), "had "+first.Digest.String()+" when it was first seen") {
			t.Errorf("%s: %v, want ErrChanged with the first digest", name, err)
		}
	}
	if err := c.Forget(t.Context(), b, v1); err != nil {
		t.Fatal(err)
	}
	for _, host := range []*release.Cache{c, other} {
		if in, _ := mustFetch(t, host, b, v1); in.Digest == first.Digest || in.SharedErr != nil {
			t.Errorf("after Forget: %v, alone: %v, want the new content", in.Digest, in.SharedErr)
		}
	}
}

// A recorded yank stays after its object is removed from the bucket, also for a host that never had the release.
func TestSeenYankPersists(t *testing.T) {
	server, b := startBucket(t)
	m := publish(t, b, v1, map[string]string{"run*": "bad"})
	shared := &sharedStore{seen: map[release.SeenKey]release.Seen{}}
	c := openShared(t, shared)
	if _, err := release.Yank(t.Context(), b, v1, linux, release.Yanked{Why: "it is wrong", At: today}); err != nil {
		t.Fatal(err)
	}
	for _, there := range []bool{true, false} {
		if !there {
			removeObject(t, server, m, "yanked.json")
		}
		if err := refusal(t, c, b, v1); !errors.Is(err, release.ErrYanked) {
			t.Errorf("yanked: %v", err)
		}
		if err := refusal(t, openShared(t, shared), b, v1); !errors.Is(err, release.ErrYanked) {
			t.Errorf("yanked, on a new host: %v", err)
		}
	}
}

// If the shared store is unavailable, the host's own records count, and the result reports it.
func TestSharedStoreUnavailable(t *testing.T) {
	server, b := startBucket(t)
	m := publish(t, b, v1, map[string]string{"run*": "good"})
	away := errors.New("away")
	c := openShared(t, &sharedStore{away: away})
	for range 2 {
		if in, _ := mustFetch(t, c, b, v1); !errors.Is(in.SharedErr, away) {
			t.Errorf("alone: %v, want %v", in.SharedErr, away)
		}
	}
	removeObject(t, server, m, "manifest.json")
	craft(t, b, v1, []entry{{name: "run", body: "replaced", kind: '0'}}, nil)
	if err := refusal(t, c, b, v1); !errors.Is(err, release.ErrChanged) {
		t.Errorf("replaced: %v, want ErrChanged", err)
	}
}

// A damaged record does not permit a fetch.
func TestDamagedSeenRecordRejected(t *testing.T) {
	_, b := startBucket(t)
	publish(t, b, v1, map[string]string{"run*": "good"})
	dir := t.TempDir()
	c := openCache(t, dir)
	mustFetch(t, c, b, v1)
	files, err := filepath.Glob(filepath.Join(dir, "seen", "*", v1.Namespace, v1.Name, v1.Version, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("seen: %v, %v", files, err)
	}
	if err := os.WriteFile(files[0], []byte(`{"sha256":"0`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := refusal(t, c, b, v1); !errors.Is(err, release.ErrCorrupt) || !strings.Contains(err.Error(), `"weir release forget shop/RequestsPerSecond@v1.4.0"`) {
		t.Errorf("damaged: %v, want ErrCorrupt, and what to do", err)
	}
}
