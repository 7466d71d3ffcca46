package bulkapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry/bulkapi/bulktest"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// eager returns a configuration whose refreshes begin at once.
func eager() Config {
	return Config{BatchSize: 2, RefreshAfter: time.Millisecond, RefreshPause: time.Millisecond}
}

func TestPass(t *testing.T) {
	w := overHTTP(t, Config{
		BatchSize: 2, Footprint: Footprint{Pool: "default", CPUs: 1, Disk: 100},
		Apps: map[string]Footprint{"app-1": {Pool: "batch", CPUs: 4}},
	}, 3)
	passes, _ := w.watch(t)
	p := next(t, passes)

	row := func(name, pool string, instances int, cpus float64) api.App {
		return api.App{
			Name: name, Pool: pool, Instances: instances, Version: "v1", CPUs: cpus, Mem: 256, Disk: 100,
			State: api.AppStarted, Package: api.PackageStaged, Updated: time.Date(2012, 11, 16, 0, 0, 0, 0, time.UTC),
		}
	}
	want := []api.App{row("app-0", "default", 1, 1), row("app-1", "batch", 2, 4), row("app-2", "default", 3, 1)}
	if diff := cmp.Diff(want, p.rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if !p.complete || p.validFor > 180*time.Second || p.validFor < 150*time.Second {
		t.Errorf("complete %v, valid for %v, want true and about 180 s", p.complete, p.validFor)
	}
	request := func(token string) bulktest.Request {
		return bulktest.Request{Path: "/bulk/apps", Token: token, Batch: "2", User: "bulk"}
	}
	requests := []bulktest.Request{request(`{}`), request(`{"id":2}`), request(`{"id":3}`)}
	if diff := cmp.Diff(requests, w.api.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestSlices(t *testing.T) {
	w := overHTTP(t, Config{BatchSize: 400}, 1200)
	p, err := w.passOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantWhole(t, p, fleetIDs(1200))
	if diff := cmp.Diff([]int{500, 500, 200}, p.slices); diff != "" {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
}

// Five apps are four pages: 2, 2, 1, 0.
func TestTrouble(t *testing.T) {
	const pages = 4
	other := &atomic.Int32{}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { other.Add(1) }))
	defer elsewhere.Close()
	for _, tt := range []struct {
		name    string
		trouble bulktest.Trouble
		why     string // empty: the pass is still complete
		want    int    // requests
	}{
		{"well", bulktest.Trouble{}, "", pages},
		{"gone twice", bulktest.Trouble{Fault: bulktest.Gone, Times: 2}, "", pages + 2},
		{"500 in the middle", bulktest.Trouble{Fault: bulktest.Status, After: 1, Times: 1}, "", pages + 1},
		{"429", bulktest.Trouble{Fault: bulktest.Status, Status: 429, RetryAfter: "1", Times: 1}, "", pages + 1},
		{"cut page", bulktest.Trouble{Fault: bulktest.Cut, After: 1, Times: 1}, "", pages + 1},
		{"page that ends early", bulktest.Trouble{Fault: bulktest.Truncated, After: 1, Times: 1}, "", pages + 1},
		{"slow", bulktest.Trouble{Fault: bulktest.Held, After: 2, Times: 1}, "", pages + 1},
		{"201", bulktest.Trouble{Fault: bulktest.Status, Status: 201}, "status 201", 1},
		{"404 in the middle", bulktest.Trouble{Fault: bulktest.Status, Status: 404, After: 2}, "after 4 apps", 3},
		{"no JSON", bulktest.Trouble{Fault: bulktest.Garbage, After: 1}, "not have the form of a bulk API", 2},
		{"JSON of something else", bulktest.Trouble{Fault: bulktest.Foreign}, "no results", 1},
		{"JSON of something else at the end", bulktest.Trouble{Fault: bulktest.Foreign, After: 3}, "no results", 4},
		{"redirect", bulktest.Trouble{Fault: bulktest.Redirect, Location: elsewhere.URL}, "status 302", 1},
		{"huge", bulktest.Trouble{Fault: bulktest.Huge, After: 1}, "too large", 2},
		{"looping token", bulktest.Trouble{Fault: bulktest.Loop, After: 1}, "is repeated", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := eager()
			cfg.MaxBytes = 1 << 20
			if tt.trouble.Fault == bulktest.Held {
				cfg.RequestTimeout = 2 * time.Second
			}
			w := overHTTP(t, cfg, 5)
			w.api.Break(tt.trouble)
			passes, _ := w.watch(t)
			p := next(t, passes)
			if tt.why == "" {
				wantWhole(t, p, fleetIDs(5))
			} else if wantFailed(t, p); !strings.Contains(p.why, tt.why) {
				t.Errorf("why = %q, want %q in it", p.why, tt.why)
			}
			if got := w.api.Count(); got != tt.want {
				t.Errorf("%d requests, want %d", got, tt.want)
			}
			w.api.ClearFault()
			w.source.Refresh()
			wantWhole(t, next(t, passes), fleetIDs(5))
			if requested := w.credentialsServer.requested.Load(); requested != 1 {
				t.Errorf("asked for credentials %d times, want once", requested)
			}
			if n := other.Load(); n > 0 {
				t.Errorf("followed a redirect")
			}
		})
	}
}

// TestRefused: connections are refused until the pass is too old.
func TestRefused(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	w := newWorld(t, Config{Host: server.URL, ExpectedStateUpdate: time.Second, ExpectedStateLost: 2 * time.Second}, bulktest.New("", ""))
	p, err := w.passOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantFailed(t, p)
	for _, words := range []string{"longer than expected_state_lost (2s)", "connection refused"} {
		if !strings.Contains(p.why, words) {
			t.Errorf("why = %q, want %q in it", p.why, words)
		}
	}
}

func TestPasswordChanges(t *testing.T) {
	w := overHTTP(t, eager(), 5)
	passes, _ := w.watch(t)
	wantWhole(t, next(t, passes), fleetIDs(5))

	w.api.SetCredentials("bulk", "new")
	w.credentialsServer.set(Login{User: "bulk", Password: "new"}, nil)
	w.source.Refresh()
	wantWhole(t, next(t, passes), fleetIDs(5))
	if requested := w.credentialsServer.requested.Load(); requested != 2 {
		t.Errorf("asked for credentials %d times, want twice", requested)
	}

	w.api.SetCredentials("bulk", "newer")
	before := w.api.Count()
	w.source.Refresh()
	p := next(t, passes)
	wantFailed(t, p)
	if n := w.api.Count() - before; n != 2 || !strings.Contains(p.why, "rejects the credentials: status 401") {
		t.Errorf("%d requests, why %q; want 2 and a status of 401", n, p.why)
	}
	if strings.Contains(p.why, "new") {
		t.Errorf("why = %q has the password in it", p.why)
	}
}

func TestOwnCredentials(t *testing.T) {
	cfg := eager()
	cfg.User, cfg.Password = "bulk", "old"
	w := overHTTP(t, cfg, 5)
	p, err := w.passOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantFailed(t, p)
	if w.api.Count() != 1 || w.credentialsServer.requested.Load() != 0 {
		t.Errorf("%d requests, asked %d times; want 1 and none", w.api.Count(), w.credentialsServer.requested.Load())
	}
	w.api.SetCredentials("bulk", "old")
	if p, err = w.passOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantWhole(t, p, fleetIDs(5))
}

// TestUnreadableRows: an unreadable row is reported as such, and the pass is complete for the
// others.
func TestUnreadableRows(t *testing.T) {
	w := overHTTP(t, eager(), 3)
	w.api.Set(
		bulktest.Row{ID: "app-1", JSON: `{"id": "app-1", "instances": 1}`},
		bulktest.Row{ID: "17", JSON: `{"id": 17, "instances": -1, "state": "STARTED", "package_state": "STAGED", "version": 3, "updated_at": 1}`},
		bulktest.Row{ID: "guid", JSON: `{"id": 18}`},
		bulktest.Row{ID: strings.Repeat("x", message.MaxID+1), JSON: `null`},
		bulktest.Row{ID: "", JSON: `[]`},
	)
	p, err := w.passOnce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantWhole(t, p, []string{"app-0", "app-2"})
	if diff := cmp.Diff([]string{"app-1", "17", "18", "guid"}, p.unreadable); diff != "" {
		t.Errorf("unreadable (-want +got):\n%s", diff)
	}
}

func TestStopsInTheMiddle(t *testing.T) {
	w := overHTTP(t, eager(), 5)
	w.api.Break(bulktest.Trouble{Fault: bulktest.Held, After: 2})
	_, stop := w.watch(t)
	if err := w.api.Await(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	stop()
}

func TestUsers(t *testing.T) {
	w := overHTTP(t, eager(), 5)
	w.api.SetUsers(42)
	if n, err := w.source.Users(t.Context()); n != 42 || err != nil {
		t.Errorf("Users() = %d, %v, want 42", n, err)
	}
	w.api.Break(bulktest.Trouble{Fault: bulktest.Foreign})
	if n, err := w.source.Users(t.Context()); err == nil {
		t.Errorf("Users() = %d, want an error", n)
	}
}
