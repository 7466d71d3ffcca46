package release_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

const soon = time.Hour

func web(version string) release.Ref {
	return release.Ref{Namespace: "shop", Name: "web", Version: version}
}

func collect(t *testing.T, c *release.Cache, after, olderThan time.Duration, keep ...release.Ref) release.Collected {
	t.Helper()
	done, err := c.Collect(t.Context(), keep, time.Now().Add(after), olderThan)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestCollect(t *testing.T) {
	server, b := startBucket(t)
	dir := t.TempDir()
	c := openCache(t, dir)
	fetched := map[string]release.Installed{}
	for _, version := range []string{"planned", "kept", "idle"} {
		publish(t, b, web(version), map[string]string{"run*": "content of " + version})
		fetched[version], _ = mustFetch(t, c, b, web(version))
	}
	publish(t, b, web("twin"), map[string]string{"run*": "content of planned"}) // the same archive
	mustFetch(t, c, b, web("twin"))
	put(t, b, tarballKey("planned"), tarred(t, venvOf("planned")))
	put(t, b, tarballKey("idle"), tarred(t, venvOf("idle")))
	for _, version := range []string{"planned", "idle"} {
		in, err := c.FetchClusterman(t.Context(), b, "jammy", web(version))
		if err != nil {
			t.Fatal(err)
		}
		fetched["tarball "+version] = in
	}
	if err := c.Use(t.Context(), "prod/default", []release.Ref{web("planned")}); err != nil {
		t.Fatal(err)
	}
	if done := collect(t, c, soon, 2*soon); len(done.Releases) > 0 {
		t.Errorf("Collect of what is young = %v, want nothing", done)
	}

	other := openCache(t, dir) // of another pool, which runs none of the releases
	if err := other.Use(t.Context(), "prod/other", nil); err != nil {
		t.Fatal(err)
	}
	done := collect(t, other, soon, 0, web("kept"))
	if len(done.Releases) != 2 || done.Bytes < int64(len("content of idle")) {
		t.Errorf("Collect = %+v, want the two idle ones", done)
	}
	for name, in := range fetched {
		_, err := os.Stat(in.Dir)
		if gone := os.IsNotExist(err); gone != strings.HasSuffix(name, "idle") {
			t.Errorf("%s is gone: %v", name, gone)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "refs", "*", "shop", "web", "*")); len(left) != 2 {
		t.Errorf("index has %v, want those of planned and kept", left)
	}
	if done := collect(t, c, soon, 0, web("kept")); len(done.Releases) > 0 {
		t.Errorf("Collect again = %v, want nothing", done)
	}
	mustFetch(t, c, b, web("idle"))

	server.Kill()
	if in, _ := mustFetch(t, openCache(t, dir), b, web("planned")); in.BucketErr == nil {
		t.Error("the planned one does not come from the cache")
	}
	if err := c.Use(t.Context(), "prod/default", nil); err != nil {
		t.Fatal(err)
	}
	collect(t, c, soon, 0)
	left := tree(t, dir)
	maps.DeleteFunc(left, func(path, _ string) bool { return strings.HasPrefix(path, "/seen/") })
	if len(left) != 1 {
		t.Errorf("without plans there is left: %v, want the lock, and what was first seen", left)
	}
}

func TestCollectRefuses(t *testing.T) {
	_, b := startBucket(t)
	dir := t.TempDir()
	c := openCache(t, dir)
	publish(t, b, v1, map[string]string{"run*": "x"})
	in, _ := mustFetch(t, c, b, v1)
	if err := c.Use(t.Context(), "../a/b", []release.Ref{v1}); err != nil {
		t.Fatal(err)
	}
	plans, err := filepath.Glob(filepath.Join(dir, "refs", "plans", "*"))
	if err != nil || len(plans) != 1 {
		t.Fatalf("plans = %v, %v, want one, inside", plans, err)
	}
	if err := os.WriteFile(plans[0], []byte(`{"owner"`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Collect(t.Context(), nil, time.Now().Add(soon), 0); err == nil || !strings.Contains(err.Error(), plans[0]) {
		t.Errorf("Collect with a damaged plan = %v, want an error that names it", err)
	}
	if _, err := os.Stat(in.Dir); err != nil {
		t.Errorf("release after that: %v", err)
	}
	if _, err := c.Collect(cancelled(t), nil, time.Now().Add(soon), 0); err == nil {
		t.Error("Collect, cancelled = nil, want an error")
	}
	for _, owner := range []string{"", strings.Repeat("x", 300)} {
		if err := c.Use(t.Context(), owner, nil); err == nil {
			t.Errorf("Use(%.10q) = nil, want an error", owner)
		}
	}
}

// Caches that share a folder fetch and collect concurrently. Planned releases stay; others are fetched again.
func TestCollectWhileOthersFetch(t *testing.T) {
	_, b := startBucket(t)
	const versions, rounds = 3, 8
	for i := range versions {
		publish(t, b, web(fmt.Sprint("v", i)), map[string]string{"run*": fmt.Sprint("content ", i)})
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var collectors, fetchers sync.WaitGroup
	for range 2 {
		c := openCache(t, dir)
		collectors.Go(func() {
			for ctx.Err() == nil {
				if _, err := c.Collect(ctx, nil, time.Now().Add(soon), 0); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
	}
	for i := range versions {
		c := openCache(t, dir)
		fetchers.Go(func() {
			ref := web(fmt.Sprint("v", i))
			owner := fmt.Sprint("pool/", i)
			for range rounds {
				if _, err := c.Fetch(ctx, b, ref); err != nil { // not planned: only Fetch must succeed
					t.Error(err)
				}
				if err := c.Use(t.Context(), owner, []release.Ref{ref}); err != nil {
					t.Error(err)
				}
				in, err := c.Fetch(ctx, b, ref)
				if err != nil {
					t.Error(err)
					return
				}
				for range 3 {
					if f, err := in.Open(in.Entry); err != nil {
						t.Errorf("planned, but: %v", err)
					} else {
						f.Close()
					}
				}
				if err := c.Use(t.Context(), owner, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	fetchers.Wait()
	cancel()
	collectors.Wait()
}
