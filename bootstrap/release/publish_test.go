package release_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

// incompressible returns bytes that cannot be compressed.
func incompressible(n int) string {
	data := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(data)
	return string(data)
}

func TestPublishIsImmutable(t *testing.T) {
	_, b := startBucket(t)
	dir := writeFolder(t, map[string]string{"run*": "one", "a.txt": "a", "a/b": "b"})
	src := release.Source{Path: dir, Entry: "run", Created: today}
	first, err := release.Publish(t.Context(), b, v1, linux, src)
	if err != nil {
		t.Fatal(err)
	}

	src.Created = today.Add(time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "run"), today, today); err != nil {
		t.Fatal(err)
	}
	again, err := release.Publish(t.Context(), b, v1, linux, src)
	if err != nil {
		t.Fatalf("the same files again: %v", err)
	}
	diff(t, "manifest of the same files", again, first)

	if err := os.WriteFile(filepath.Join(dir, "run"), []byte("two"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = release.Publish(t.Context(), b, v1, linux, src)
	if !errors.Is(err, release.ErrExists) || !strings.Contains(err.Error(), "s3://releases/some/prefix/shop/RequestsPerSecond/v1.4.0/linux-amd64/manifest.json") {
		t.Errorf("other files = %v, want ErrExists with the URL", err)
	}
	arm := release.Platform{OS: "linux", Arch: "arm64"}
	if _, err := release.Publish(t.Context(), b, v1, arm, src); err != nil {
		t.Errorf("another platform: %v", err)
	}
	if got, err := release.ReadManifest(t.Context(), b, v1, linux); err != nil {
		t.Error(err)
	} else {
		diff(t, "manifest after all", got, first)
	}
}

func TestPublishRace(t *testing.T) {
	_, b := startBucket(t)
	var wg sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		src := release.Source{Path: writeFolder(t, map[string]string{"run*": string(rune('a' + i))}), Entry: "run", Created: today}
		wg.Go(func() { _, errs[i] = release.Publish(t.Context(), b, v1, linux, src) })
	}
	wg.Wait()
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won >= 0:
			t.Errorf("publishers %d and %d both won", won, i)
		case err == nil:
			won = i
		case !errors.Is(err, release.ErrExists):
			t.Errorf("publisher %d: %v, want ErrExists", i, err)
		}
	}
	if _, entry := mustFetch(t, openCache(t, t.TempDir()), b, v1); won < 0 || entry != string(rune('a'+won)) {
		t.Errorf("published is %q, winner is %d", entry, won)
	}
}

func TestPublishRefuses(t *testing.T) {
	_, b := startBucket(t)
	withLink := writeFolder(t, map[string]string{"run*": "x"})
	if err := os.Symlink("/etc/passwd", filepath.Join(withLink, "link")); err != nil {
		t.Fatal(err)
	}
	plain := writeFolder(t, map[string]string{"run": "x", "other*": "y"})
	for _, tc := range []struct {
		name string
		ref  release.Ref
		src  release.Source
		want error
	}{
		{"link", v1, release.Source{Path: withLink, Entry: "run"}, release.ErrUnsafe},
		{"no entry", v1, release.Source{Path: plain}, nil},
		{"entry that is not executable", v1, release.Source{Path: plain, Entry: "run"}, nil},
		{"entry that is not there", v1, release.Source{Path: plain, Entry: "x"}, nil},
		{"file that is not executable", v1, release.Source{Path: filepath.Join(plain, "run")}, nil},
		{"empty folder", v1, release.Source{Path: t.TempDir(), Entry: "run"}, nil},
		{"nothing there", v1, release.Source{Path: filepath.Join(plain, "zzz")}, os.ErrNotExist},
		{"bad ref", release.Ref{Namespace: "a/b", Name: "n", Version: "v"}, release.Source{Path: plain, Entry: "other"}, nil},
		{"device", v1, release.Source{Path: "/dev/null"}, release.ErrUnsafe},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := release.Publish(t.Context(), b, tc.ref, linux, tc.src)
			if err == nil || (tc.want != nil && !errors.Is(err, tc.want)) {
				t.Errorf("Publish = %v, want %v", err, tc.want)
			}
			t.Log(err)
		})
	}
	if got, err := release.List(t.Context(), b, "", ""); err != nil || len(got) > 0 {
		t.Errorf("List = %v, %v, want nothing published", got, err)
	}
}

func TestList(t *testing.T) {
	_, b := startBucket(t)
	for _, ref := range []string{
		"shop/web@v1.9.0", "shop/web@v1.10.0", "shop/web@master", "shop/web@1.9.5", "shop/web@v2.0.0-rc.1",
		"shop/web@feature/x", "shop/cart@v1", "ops/web@v1.0.0",
	} {
		r, err := release.ParseRef(ref)
		if err != nil {
			t.Fatal(err)
		}
		publish(t, b, r, map[string]string{"run*": ref})
	}
	put(t, b, "shop/web/v9/linux-amd64/sha256-of-a-publisher-that-died.tar.gz", []byte("x"))
	put(t, b, "shop/web/odd/manifest.json", []byte("x"))
	for _, tc := range []struct {
		name, namespace, signal string
		want                    []string
	}{
		{"one signal", "shop", "web", []string{
			"shop/web@v2.0.0-rc.1", "shop/web@v1.10.0", "shop/web@1.9.5", "shop/web@v1.9.0", "shop/web@feature/x", "shop/web@master",
		}},
		{"namespace", "ops", "", []string{"ops/web@v1.0.0"}},
		{"nothing", "shop", "we", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found, err := release.List(t.Context(), b, tc.namespace, tc.signal)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range found {
				if p.Platform != linux {
					t.Errorf("%v is for %v", p.Ref, p.Platform)
				}
				got = append(got, p.Ref.String())
			}
			diff(t, "List", got, tc.want)
		})
	}
	if all, err := release.List(t.Context(), b, "", ""); err != nil || len(all) != 8 {
		t.Errorf("List of all = %d, %v, want 8", len(all), err)
	}
	if _, err := release.List(t.Context(), b, "", "web"); err == nil {
		t.Error("List of a name without its namespace = nil, want an error")
	}
	if _, entry := mustFetch(t, openCache(t, t.TempDir()), b, release.Ref{Namespace: "shop", Name: "web", Version: "feature/x"}); entry != "shop/web@feature/x" {
		t.Errorf("entry of a branch with a slash = %q", entry)
	}
}
