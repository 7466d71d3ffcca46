package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/agent"
	"github.com/weirkeeper/weirkeeper/agent/wire"
	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/bootstrap/release"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/localtest"
	"github.com/weirkeeper/weirkeeper/resource"
)

// source supplies one folder as each release, or an error. While it is closed, a fetch waits.
type source struct {
	dir  string
	err  error
	open chan struct{}

	mu    sync.Mutex
	inUse []string // at the last fetch
}

func (s *source) Fetch(ctx context.Context, ref release.Ref, inUse func() []release.Ref) (string, error) {
	s.mu.Lock()
	s.inUse = nil
	for _, r := range inUse() {
		s.inUse = append(s.inUse, r.String())
	}
	s.mu.Unlock()
	select {
	case <-s.open:
		return s.dir, s.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// always is open.
func always() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// newSourceRig runs an agent with a source of releases, on the bus and in the folder of r.
func (r rig) runWith(t *testing.T, b localtest.Bus, s *source, keep bool) (stop func()) {
	t.Helper()
	a, err := agent.New(agent.Config{
		Cluster: "c", Pool: "p", Group: "g", ID: "n1", Resources: resource.Vector{2, 1000, 1000, 0}, Keep: keep,
		Heartbeat: 200 * time.Millisecond, StopGrace: 500 * time.Millisecond, DataDir: r.dir, Releases: s,
	}, b.Conn, localtest.NewLauncher(t), localtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	stop = localtest.Run(t, a.Run)
	if err := a.Alive(t.Context()); err != nil {
		t.Fatal(err)
	}
	return stop
}

func newSourceRig(t *testing.T, s *source, keep bool) (r rig, b localtest.Bus) {
	b = localtest.NewBus(t)
	r = rig{observer: observe(t, b.Conn), Client: wire.NewClient(b.Conn, "c", "p"), dir: t.TempDir()}
	r.stop = r.runWith(t, b, s, keep)
	return r, b
}

func released(instance, command string) wire.StartRequest {
	r := request(instance, command)
	r.Release = "shop/web@v1.2.0"
	return r
}

// The command of a copy finds the files of its release. Until they are here, the copy is STARTING and other requests are answered.
func TestCopyStartsWithItsRelease(t *testing.T) {
	s := &source{dir: t.TempDir(), open: make(chan struct{})}
	if err := os.WriteFile(filepath.Join(s.dir, "greeting"), []byte("hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, _ := newSourceRig(t, s, false)
	if err := r.Start(t.Context(), "n1", released("a", `echo $WEIR_RELEASE; cat $WEIR_RELEASE_DIR/greeting; exec sleep 1000`)); err != nil {
		t.Fatal(err)
	}
	r.until(t, "a=STARTING")
	if err := r.Start(t.Context(), "n1", released("a", "true")); err != nil {
		t.Errorf("a repeated request: %v", err)
	}
	close(s.open)
	r.until(t, "a=RUNNING")
	localtest.Until(t, "two lines", func() bool { return len(r.lines(t, wire.LogsRequest{App: "web"})) == 2 })
	if diff := cmp.Diff([]string{"shop/web@v1.2.0", "hello"}, r.lines(t, wire.LogsRequest{App: "web"})); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff([]string{"shop/web@v1.2.0"}, s.inUse); diff != "" {
		t.Errorf("releases in use (-want +got):\n%s", diff)
	}
}

// A release that cannot be fetched is a crash with its reason, in the message and in the output. A long text is cut between
// words.
func TestFailedFetchIsACrash(t *testing.T) {
	s := &source{err: errors.New("fetch shop/web@v1.2.0: the archive has another digest (https://" + strings.Repeat("x", pools.MaxConditionWhy) + ")"), open: always()}
	r, _ := newSourceRig(t, s, false)
	if err := r.Start(t.Context(), "n1", released("a", "sleep 1000")); err != nil {
		t.Fatal(err)
	}
	got := r.awaitExit(t, "a")
	if got.Reason != api.ExitCrashed || got.Status != nil || !strings.HasPrefix(got.Description, "release shop/web@v1.2.0 not started: ") || !strings.HasSuffix(got.Description, "another digest ...") {
		t.Errorf("exit = %+v, want a crash with the reason", got)
	}
	r.until(t, "")
	if lines := r.lines(t, wire.LogsRequest{App: "web"}); len(lines) != 1 || !strings.Contains(lines[0], "another digest") {
		t.Errorf("output %q, want the reason", lines)
	}
}

// An agent without a source rejects a start with a release, and a malformed one.
func TestReleaseWithoutASource(t *testing.T) {
	r := newRig(t)
	bad := released("a", "true")
	bad.Release = "shop/../x@v1"
	for _, request := range []wire.StartRequest{released("a", "true"), bad} {
		if err := r.Start(t.Context(), "n1", request); !errors.Is(err, wire.ErrInvalid) {
			t.Errorf("start with release %s: %v, want that it is invalid", request.Release, err)
		}
	}
	if r.states() != "" {
		t.Errorf("heartbeat %q, want no copy", r.states())
	}
}

// A stop ends a fetch: the copy is stopped, and never runs. So does the end of an agent whose copies do not outlive it.
func TestStopEndsAFetch(t *testing.T) {
	r, _ := newSourceRig(t, &source{open: make(chan struct{})}, false)
	for _, instance := range []string{"a", "b"} {
		if err := r.Start(t.Context(), "n1", released(instance, "sleep 1000")); err != nil {
			t.Fatal(err)
		}
	}
	r.until(t, "a=STARTING b=STARTING")
	if err := r.Stop(t.Context(), "n1", "a"); err != nil {
		t.Fatal(err)
	}
	if got := r.awaitExit(t, "a"); got.Reason != api.ExitStopped {
		t.Errorf("exit = %+v, want a stop", got)
	}
	r.stop()
	if got := r.awaitExit(t, "b"); got.Reason != api.ExitShutdown {
		t.Errorf("exit = %+v, want the end of the agent", got)
	}
}

// The next agent resumes the fetches of the agent before, except of copies that have to stop.
func TestNextAgentResumesAFetch(t *testing.T) {
	r, b := newSourceRig(t, &source{open: make(chan struct{})}, true)
	if err := r.Start(t.Context(), "n1", released("a", "exec sleep 1000")); err != nil {
		t.Fatal(err)
	}
	r.until(t, "a=STARTING")
	r.stop()
	if _, ended := r.exit("a"); ended {
		t.Error("the copy ended with its agent")
	}
	r.runWith(t, b, &source{dir: t.TempDir(), open: always()}, true)
	r.until(t, "a=RUNNING")
	if err := r.Stop(t.Context(), "n1", "a"); err != nil {
		t.Fatal(err)
	}
	if got := r.awaitExit(t, "a"); got.Reason != api.ExitStopped {
		t.Errorf("exit = %+v, want a stop", got)
	}
}
