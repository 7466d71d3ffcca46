package release_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/s3store"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
)

var (
	v1    = release.Ref{Namespace: "shop", Name: "RequestsPerSecond", Version: "v1.4.0"}
	linux = release.Platform{OS: "linux", Arch: "amd64"}
	today = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
)

const bucketName = "releases"

// startBucket runs a real server and opens a bucket on it.
func startBucket(t *testing.T) (*s3test.Server, release.Bucket) {
	t.Helper()
	server := s3test.Start(t, bucketName)
	return server, openBucket(t, server.Endpoint, bucketName)
}

func openBucket(t *testing.T, endpoint, name string) release.Bucket {
	t.Helper()
	b, err := s3store.Open(t.Context(), s3store.Config{
		Bucket: name, Prefix: "some/prefix", Region: "us-east-1", Endpoint: endpoint, PathStyle: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func openCache(t *testing.T, dir string) *release.Cache {
	t.Helper()
	c, err := release.OpenCache(t.Context(), release.Config{Dir: dir, Platform: linux, RetryTimeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// writeFolder writes files and returns their folder. A name that ends with * is executable.
func writeFolder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		mode := os.FileMode(0o640)
		if before, ok := strings.CutSuffix(name, "*"); ok {
			name, mode = before, 0o750
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func publish(t *testing.T, b release.Bucket, ref release.Ref, files map[string]string) release.Manifest {
	t.Helper()
	m, err := release.Publish(t.Context(), b, ref, linux, release.Source{Path: writeFolder(t, files), Entry: "run", Created: today})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// entry is one header of a crafted archive, with its bytes.
type entry struct {
	name, body string
	kind       byte
	link       string
}

// craft publishes a crafted archive without the checks of Publish. The manifest matches the regular files with safe
// names; change may modify it.
func craft(t *testing.T, b release.Bucket, ref release.Ref, entries []entry, change func(*release.Manifest)) release.Manifest {
	t.Helper()
	var buf bytes.Buffer
	gz := gzip.NewWriter(&buf)
	w := tar.NewWriter(gz)
	m := release.Manifest{Format: 1, Ref: ref, Platform: linux, Created: today, Entry: "run"}
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Mode: 0o755, Size: int64(len(e.body))}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
		if e.kind == tar.TypeReg && fs.ValidPath(e.name) {
			m.Files = append(m.Files, release.File{
				Path: e.name, Size: h.Size, Mode: release.Executable, SHA256: sha256.Sum256([]byte(e.body)),
			})
		}
	}
	w.Close()
	gz.Close()
	slices.SortFunc(m.Files, func(a, b release.File) int { return strings.Compare(a.Path, b.Path) })
	putRaw(t, b, m, buf.Bytes(), change)
	return m
}

// putRaw writes an archive and a matching manifest, modified by change.
func putRaw(t *testing.T, b release.Bucket, m release.Manifest, archive []byte, change func(*release.Manifest)) {
	t.Helper()
	m.Object.Size, m.Object.SHA256 = int64(len(archive)), sha256.Sum256(archive)
	m.Object.Name = "sha256-" + m.Object.SHA256.String() + ".tar.gz"
	if change != nil {
		change(&m)
	}
	manifest, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	put(t, b, objectKey(m, m.Object.Name), archive)
	put(t, b, objectKey(m, "manifest.json"), manifest)
}

func put(t *testing.T, b release.Bucket, key string, data []byte) {
	t.Helper()
	if err := b.Put(t.Context(), key, bytes.NewReader(data), int64(len(data))); err != nil {
		t.Fatal(err)
	}
}

func objectKey(m release.Manifest, object string) string {
	return strings.Join([]string{m.Namespace, m.Name, m.Version, m.Platform.String(), object}, "/")
}

// tree returns every file below dir with its content, and every link.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if d.Type() == fs.ModeSymlink {
			target, err := os.Readlink(path)
			files[strings.TrimPrefix(path, dir)] = "-> " + target
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// mustFetch fetches a release and returns the content of its entry.
func mustFetch(t *testing.T, c *release.Cache, b release.Bucket, ref release.Ref) (release.Installed, string) {
	t.Helper()
	in, err := c.Fetch(t.Context(), b, ref)
	if err != nil {
		t.Fatal(err)
	}
	f, err := in.Open(in.Entry)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	content, err := os.ReadFile("/proc/self/fd/" + fdNumber(f))
	if err != nil {
		t.Fatal(err)
	}
	return in, string(content)
}

func diff(t *testing.T, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func refusal(t *testing.T, c *release.Cache, b release.Bucket, ref release.Ref) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Patience)
	defer cancel()
	in, err := c.Fetch(ctx, b, ref)
	if err == nil {
		t.Fatalf("Fetch(%s) = %v, want an error", ref, in.Dir)
	}
	t.Log(err)
	return err
}

func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
