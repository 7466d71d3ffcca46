package bootstrap_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/bootstrap/release/s3store"
	"github.com/weirkeeper/weirkeeper/internal/platform/s3gateway/s3test"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

const (
	bucketName   = "releases"
	version      = "v1.4.0"
	selfVariable = "WEIR_TEST_SELF"
)

// program is a signal's release: a script that runs this binary.
const program = `#!/bin/sh
exec "$` + selfVariable + `" ` + asSignal + ` "$@"
`

// behaving returns a program with the given behaviour.
func behaving(how string) string {
	return strings.Replace(program, "exec", behaviourVariable+"="+how+" exec", 1)
}

// store is a real bucket, with the release of one plan's signal of app "web", and a cache. It is the Fetcher of that
// plan.
type store struct {
	server *s3test.Server
	bucket release.Bucket
	cache  *release.Cache
	dir    string // folder of the cache
	object string // the archive in the server's storage

	mu  sync.Mutex
	err error // returned instead of a fetch, if set
}

func newStore(t testing.TB, plan bootstrap.Plan) *store {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(selfVariable, testprograms.Plain("bootstrap", executable))
	s := &store{server: s3test.Start(t, bucketName), dir: t.TempDir()}
	s.bucket, err = s3store.Open(t.Context(), s3store.Config{Bucket: bucketName, Region: "us-east-1", Endpoint: s.server.Endpoint, PathStyle: true})
	if err != nil {
		t.Fatal(err)
	}
	if s.cache, err = release.OpenCache(t.Context(), release.Config{Dir: s.dir, RetryTimeout: 5 * time.Second}); err != nil {
		t.Fatal(err)
	}
	s.object = s.publish(t, plan.Signals[1].Ref(), program)
	return s
}

// publish publishes a program, and returns the server's path of the archive.
func (s *store) publish(t testing.TB, ref release.Ref, program string) (object string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "signal")
	if err := os.WriteFile(path, []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	m, err := release.Publish(t.Context(), s.bucket, ref, release.Host(), release.Source{Path: path, Created: time.Unix(1_700_000_000, 0)})
	if err != nil {
		t.Fatal(err)
	}
	return s.server.Path(bucketName, strings.Join([]string{ref.Namespace, ref.Name, ref.Version, release.Host().String(), m.Object.Name}, "/"))
}

func (s *store) Fetch(ctx context.Context, ref release.Ref) (release.Installed, error) {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return release.Installed{}, fmt.Errorf("fetch %s: %w", ref, err)
	}
	return s.cache.Fetch(ctx, s.bucket, ref)
}

// fail makes every later fetch return err; nil ends that.
func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// rewrite changes a file's bytes, and returns a function that restores them.
func rewrite(t testing.TB, path string, change func([]byte) []byte) (undo func()) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) {
		if err := os.WriteFile(path, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(change(append([]byte(nil), before...)))
	return func() { write(before) }
}

func flip(data []byte) []byte {
	data[len(data)/2] ^= 1
	return data
}

func halve(data []byte) []byte { return data[:len(data)/2] }

func released(namespace string) bootstrap.Plan {
	return planOf(namespace, bootstrap.SignalPlan{App: "web", Name: "rps", Version: version})
}

func TestReleaseRuns(t *testing.T) {
	plan := released("run")
	s := newStore(t, plan)
	p := start(t, plan, s, long)
	a := p.arrivals.next(t)
	if e := a.awaitEntry(t, "web", "up", up); e.Version != version {
		t.Errorf("the entry is %+v, want version %s", e, version)
	}
	if now := p.process("web"); now.Version != version || now.Wanted != version || now.Why != "" || now.State != "running" {
		t.Errorf("the signal is %+v, want it to run %s", now, version)
	}
	if err := request(t, plan.Signals[1].Address); err != nil {
		t.Error(err)
	}
}

func TestReleaseThatDiffersFromManifest(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func([]byte) []byte
		why    string
	}{
		{"other bytes", flip, "checksum did not match"},
		{"truncated", halve, "truncated"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := released("corrupt" + strings.Fields(c.name)[0])
			s := newStore(t, plan)
			restoreAll := rewrite(t, s.object, c.change)
			p := start(t, plan, s, 500*time.Millisecond)
			a := p.arrivals.next(t)
			a.awaitEntry(t, sigproto.DefaultApp, "up", up)
			now := p.awaitProcess(t, "web", "not fetched", func(p api.Process) bool { return p.State == "not fetched" })
			for _, part := range []string{"fetch " + plan.Signals[1].Ref().String(), s.bucket.URL(""), "corrupt release", c.why} {
				if !strings.Contains(now.Why, part) {
					t.Errorf("why %q does not name %q", now.Why, part)
				}
			}
			if now.Version != "" || now.Wanted != version || now.PID != 0 {
				t.Errorf("the signal is %+v, want no version, and %s wanted", now, version)
			}
			a.awaitEntry(t, "web", "down, with the reason", func(e bootstrap.Entry) bool { return e.Down == "the signal is not fetched: "+now.Why })
			if kept, err := filepath.Glob(filepath.Join(s.dir, "sha256-*")); err != nil || kept != nil {
				t.Errorf("the cache holds %q, %v: want nothing", kept, err)
			}
			restoreAll()
			a.awaitEntry(t, "web", "up", up)
		})
	}
}

func TestReleaseAvailableLater(t *testing.T) {
	for _, reason := range []error{release.ErrUnavailable, release.ErrNotFound, release.ErrDenied} {
		t.Run(reason.Error(), func(t *testing.T) {
			plan := released("later")
			s := newStore(t, plan)
			s.fail(reason)
			p := start(t, plan, s, time.Millisecond)
			a := p.arrivals.next(t)
			a.awaitEntry(t, sigproto.DefaultApp, "up", up)
			want := fmt.Sprintf("the signal is not fetched: fetch %s: %v", plan.Signals[1].Ref(), reason)
			a.awaitEntry(t, "web", "down, with the reason", func(e bootstrap.Entry) bool { return e.Down == want })
			s.fail(nil)
			if e := a.awaitEntry(t, "web", "up", up); e.Version != version {
				t.Errorf("the entry is %+v, want version %s", e, version)
			}
			if now := p.process("web"); now.Why != "" || now.Restarts != 0 {
				t.Errorf("the signal is %+v, want no reason and no restart", now)
			}
		})
	}
}

func TestReleaseFromCacheWhileBucketUnavailable(t *testing.T) {
	plan := released("away")
	s := newStore(t, plan)
	if _, err := s.Fetch(t.Context(), plan.Signals[1].Ref()); err != nil {
		t.Fatal(err)
	}
	s.server.Kill()
	p := start(t, plan, s, long)
	now := p.awaitProcess(t, "web", "running", running)
	if !strings.HasPrefix(now.Why, "from the cache, because the bucket was unavailable") || !strings.Contains(now.Why, s.bucket.URL("")) || now.Version != version {
		t.Errorf("the signal is %+v, want %s from the cache, with the bucket's name", now, version)
	}
	if e := p.arrivals.next(t).awaitEntry(t, "web", "up", up); e.Version != version {
		t.Errorf("the entry is %+v, want version %s", e, version)
	}
}

func TestReleaseDamagedInTheCache(t *testing.T) {
	plan := released("damaged")
	s := newStore(t, plan)
	p := start(t, plan, s, long)
	a := p.arrivals.next(t)
	first := a.awaitEntry(t, "web", "up", up)
	files, err := filepath.Glob(filepath.Join(s.dir, "sha256-*", "signal"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the cache holds %q, %v: want one program", files, err)
	}
	if err := os.Chmod(files[0], 0o755); err != nil {
		t.Fatal(err)
	}
	rewrite(t, files[0], flip)
	s.fail(release.ErrUnavailable)
	kill(t, -first.Group)
	a.awaitEntry(t, "web", "up again, as what runs was verified before", func(e bootstrap.Entry) bool {
		return up(e) && e.Group != first.Group && e.Version == version
	})
}

// waiter is a Fetcher that blocks until ctx ends.
type waiter struct{}

func (waiter) Fetch(ctx context.Context, _ release.Ref) (release.Installed, error) {
	<-ctx.Done()
	return release.Installed{}, context.Cause(ctx)
}

func TestEndDuringAFetch(t *testing.T) {
	p := start(t, released("fetching"), waiter{}, time.Millisecond)
	a := p.arrivals.next(t)
	a.awaitEntry(t, "web", "fetching", func(e bootstrap.Entry) bool { return e.Down == "the signal is fetching" })
	if err := p.end(); err != nil {
		t.Errorf("bootstrap ended with %v, want nil", err)
	}
	if now := p.process("web"); now.State != "fetching" || now.Why != "" {
		t.Errorf("the signal is %+v, want no reason for what was not awaited", now)
	}
}

func TestReleaseOfManyFilesDamagedInTheCache(t *testing.T) {
	for _, file := range []string{"signal", "data"} { // the program, and the file that it reads
		t.Run(file, func(t *testing.T) { damageOneOfMany(t, file) })
	}
}

func damageOneOfMany(t *testing.T, file string) {
	plan := released("folder-" + file)
	s := newStore(t, plan)
	folder := t.TempDir()
	for name, mode := range map[string]os.FileMode{"signal": 0o755, "data": 0o644} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(program), mode); err != nil {
			t.Fatal(err)
		}
	}
	plan = pinned(plan, next)
	source := release.Source{Path: folder, Entry: "signal", Created: time.Unix(1_700_000_000, 0)}
	if _, err := release.Publish(t.Context(), s.bucket, plan.Signals[1].Ref(), release.Host(), source); err != nil {
		t.Fatal(err)
	}
	p := start(t, plan, s, long)
	a := p.arrivals.next(t)
	first := a.awaitEntry(t, "web", "up", up)
	files, err := filepath.Glob(filepath.Join(s.dir, "sha256-*", file))
	if err != nil || len(files) != 1 {
		t.Fatalf("the cache holds %q, %v: want one %s", files, err, file)
	}
	if err := os.Chmod(files[0], 0o755); err != nil {
		t.Fatal(err)
	}
	rewrite(t, files[0], flip)
	s.fail(release.ErrUnavailable)
	kill(t, -first.Group)
	a.awaitEntry(t, "web", "down, as nothing runs that is not verified", func(e bootstrap.Entry) bool {
		return strings.Contains(e.Down, "prepare start: fetch")
	})
	s.fail(nil)
	a.awaitEntry(t, "web", "up again", func(e bootstrap.Entry) bool { return up(e) && e.Group != first.Group })
	if data, err := os.ReadFile(files[0]); err != nil || string(data) != program {
		t.Errorf("the cache holds %q, %v: want it as it was published", data, err)
	}
}
