package bulkapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/bulkapi/bulktest"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is the time limit of a test that waits.
const patience = await.Patience

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// credentialsServer returns credentials.
type credentialsServer struct {
	requested atomic.Int32

	mu  sync.Mutex
	now Login
	err error
}

func newCredentialsServer() *credentialsServer {
	return &credentialsServer{now: Login{User: "bulk", Password: "secret"}}
}

func (d *credentialsServer) requestCredentials(context.Context) (Login, error) {
	d.requested.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now, d.err
}

func (d *credentialsServer) set(c Login, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now, d.err = c, err
}

// world is a source and the API that it reads.
type world struct {
	api               *bulktest.API
	credentialsServer *credentialsServer
	source            *Source
}

// overHTTP returns a world with n apps whose API is on a socket.
func overHTTP(t testing.TB, cfg Config, n int) *world {
	api := bulktest.New("bulk", "secret")
	api.Set(fleet(n)...)
	server := httptest.NewServer(api)
	t.Cleanup(server.Close)
	cfg.Host = server.URL
	return newWorld(t, cfg, api)
}

// inProcess returns a world with n apps whose API is called without a socket, after a delay.
// So it works in virtual time.
func inProcess(t testing.TB, cfg Config, n int, delay time.Duration) *world {
	api := bulktest.New("bulk", "secret")
	api.Set(fleet(n)...)
	cfg.Host = "api.test"
	w := newWorld(t, cfg, api)
	w.source.api.http.Transport = direct{api, delay}
	return w
}

func newWorld(t testing.TB, cfg Config, api *bulktest.API) *world {
	t.Helper()
	if cfg.Pool == "" {
		cfg.Pool = "default"
	}
	d := newCredentialsServer()
	source, err := New(cfg, d.requestCredentials, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.api.http.CloseIdleConnections)
	return &world{api: api, credentialsServer: d, source: source}
}

func fleet(n int) []bulktest.Row {
	rows := make([]bulktest.Row, n)
	for i := range rows {
		rows[i] = bulktest.Row{ID: "app-" + strconv.Itoa(i), Instances: i%4 + 1}
	}
	return rows
}

func fleetIDs(n int) []string {
	var ids []string
	for _, r := range fleet(n) {
		ids = append(ids, r.ID)
	}
	return ids
}

// direct calls a handler. An aborted answer becomes a broken connection.
type direct struct {
	handler http.Handler
	delay   time.Duration
}

func (d direct) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	delay := time.NewTimer(d.delay)
	defer delay.Stop()
	select {
	case <-delay.C:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	defer func() {
		if problem := recover(); problem != nil {
			answer, err = nil, fmt.Errorf("%v: %w", problem, syscall.ECONNRESET)
		}
	}()
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// passResult is what a pass reported.
type passResult struct {
	began, ended time.Time
	rows         []api.App
	slices       []int // rows of each
	unreadable   []string
	complete     bool
	validFor     time.Duration
	why          string // reason of a failure
}

func (p passResult) ids() []string {
	var ids []string
	for _, a := range p.rows {
		ids = append(ids, a.Name)
	}
	return ids
}

// add adds an event, and reports whether it ends the pass.
func (p *passResult) add(ev apps.Event) (ended bool, err error) {
	if _, ok := ev.(apps.ExpectedBegin); ok != p.began.IsZero() {
		return true, fmt.Errorf("got %T in the wrong place", ev)
	}
	switch ev := ev.(type) {
	case apps.ExpectedBegin:
		p.began = time.Now()
	case apps.ExpectedRows:
		p.rows = append(p.rows, ev.Rows...)
		p.slices = append(p.slices, len(ev.Rows))
	case apps.ExpectedUnreadable:
		p.unreadable = append(p.unreadable, ev.Name)
	case apps.ExpectedComplete:
		p.complete, p.validFor, p.ended = true, ev.ValidFor, time.Now()
	case apps.ExpectedFailed:
		p.why, p.ended = ev.Why, time.Now()
	default:
		return true, fmt.Errorf("got %T", ev)
	}
	return !p.ended.IsZero(), nil
}

// passOnce makes one pass.
func (w *world) passOnce(ctx context.Context) (passResult, error) {
	var p passResult
	ended := false
	err := w.source.pass(ctx, time.Now(), func(_ context.Context, ev apps.Event) (err error) {
		if ended {
			return fmt.Errorf("got %T after the end", ev)
		}
		ended, err = p.add(ev)
		return err
	})
	if err == nil && !ended {
		err = io.ErrUnexpectedEOF
	}
	return p, err
}

// watch runs Watch until the test ends or stop is called. It returns its passes.
func (w *world) watch(t testing.TB) (passes <-chan passResult, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out := make(chan passResult)
	var wg sync.WaitGroup
	wg.Go(func() {
		var p passResult
		err := w.source.Watch(ctx, func(ctx context.Context, ev apps.Event) error {
			ended, err := p.add(ev)
			if err != nil {
				t.Error(err)
			}
			if ended {
				select {
				case out <- p:
				case <-ctx.Done():
				}
				p = passResult{}
			}
			return ctx.Err()
		})
		if err != nil {
			t.Errorf("Watch() = %v, want nil", err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	return out, stop
}

func next(t testing.TB, passes <-chan passResult) passResult {
	t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	select {
	case p := <-passes:
		return p
	case <-limit.C:
		t.Fatal("no pass ended in time")
		return passResult{}
	}
}

// tester is a test, or one draw of a property.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
}

// wantWhole checks that a pass reported exactly these apps, each once.
func wantWhole(t tester, p passResult, ids []string) {
	t.Helper()
	got := slices.Sorted(slices.Values(p.ids()))
	if want := slices.Sorted(slices.Values(ids)); !p.complete || !slices.Equal(got, want) {
		t.Errorf("pass reported %d apps, complete %v (%s), want %d", len(got), p.complete, p.why, len(want))
	}
}

// wantFailed checks that a pass reported only a failure.
func wantFailed(t tester, p passResult) {
	t.Helper()
	if p.complete || p.why == "" || len(p.rows)+len(p.unreadable) > 0 {
		t.Errorf("pass reported %d apps, complete %v, why %q; want that it failed", len(p.rows), p.complete, p.why)
	}
}

var errAway = errors.New("no answer")
