package bootstrap_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
)

// countingBucket counts the downloads of archives.
type countingBucket struct {
	release.Bucket
	downloads atomic.Int32
}

func (b *countingBucket) Get(ctx context.Context, key string, from int64) (io.ReadCloser, error) {
	if strings.HasSuffix(key, ".tar.gz") {
		b.downloads.Add(1)
	}
	return b.Bucket.Get(ctx, key, from)
}

func TestReleaseOfTwoApps(t *testing.T) {
	plan := planOf("twoapps",
		bootstrap.SignalPlan{App: "web", Name: "rps", Version: version},
		bootstrap.SignalPlan{App: "api", Name: "rps", Version: version})
	s := newStore(t, plan)
	counting := &countingBucket{Bucket: s.bucket}
	s.bucket = counting
	p := start(t, plan, s, long)
	a := p.arrivals.next(t)
	for _, app := range []string{"web", "api"} {
		if err := request(t, a.awaitEntry(t, app, "up", runs(version)).Address); err != nil {
			t.Errorf("signal of app %s: %v", app, err)
		}
	}
	if n := counting.downloads.Load(); n != 1 {
		t.Errorf("%d downloads, want 1 for both apps", n)
	}
	s.fail(release.ErrUnavailable)
	third := plan
	third.Signals = append(plan.Signals[:3:3], bootstrap.NewSignalPlan("cron", plan.Signals[1].Namespace, "rps", version))
	update(t, p, third)
	a.awaitEntry(t, "cron", "up without a fetch", runs(version))
}

// clustermanFetcher is a Fetcher of a bucket in Clusterman's layout.
type clustermanFetcher struct {
	cache  *release.Cache
	bucket release.Bucket
}

func (f clustermanFetcher) Fetch(ctx context.Context, ref release.Ref) (release.Installed, error) {
	return f.cache.FetchClusterman(ctx, f.bucket, "jammy", ref)
}

// A tarball's entry starts in its folder, with the entry's path as its first argument, by which an interpreter finds
// its libraries.
func TestReleaseInTheLayoutOfClusterman(t *testing.T) {
	plan := released("tarball")
	s := newStore(t, plan)
	tarball := tarred(t, map[string]string{
		"./prodenv/bin/python":             clustermanProgram,
		"./prodenv/lib/x.py":               "pass\n",
		"./clusterman_signals/run.py":      "pass\n",
		"./clusterman_signals/__init__.py": "",
	})
	if err := s.bucket.Put(t.Context(), "jammy/clusterman_signals_"+version+".tar.gz", bytes.NewReader(tarball), int64(len(tarball))); err != nil {
		t.Fatal(err)
	}
	p := start(t, plan, clustermanFetcher{s.cache, s.bucket}, long)
	e := p.arrivals.next(t).awaitEntry(t, "web", "up", runs(version))
	if err := request(t, e.Address); err != nil {
		t.Error(err)
	}
	tail, err := p.Logs("web")
	if err != nil {
		t.Fatal(err)
	}
	var said string
	lines, _ := tail.Since(0)
	for _, line := range lines {
		if strings.HasPrefix(line.Text, "in ") {
			said = line.Text
		}
	}
	dirs, err := filepath.Glob(filepath.Join(s.dir, "sha256-*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("the cache holds %q, %v: want one folder", dirs, err)
	}
	if want := "in " + dirs[0] + ": -B -m clusterman_signals.run " + plan.Signals[1].Namespace + " rps web"; said != want {
		t.Errorf("the program printed %q, want %q", said, want)
	}
}

// clustermanProgram replaces the interpreter: it prints its folder and arguments, and executes this binary.
const clustermanProgram = `#!/bin/sh
echo "in $PWD: $*"
shift 3
exec "$` + selfVariable + `" ` + asSignal + ` "$@"
`

// tarred returns an archive of executable files.
func tarred(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	gz := gzip.NewWriter(&out)
	w := tar.NewWriter(gz)
	for name, text := range files {
		err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(text))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), gz.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
