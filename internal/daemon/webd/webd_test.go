package webd

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/api"
	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/command"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/past"
	"github.com/weirkeeper/weirkeeper/internal/state"
)

const patience = 30 * time.Second

// The pages and the API of a real server show a pool, its new tick, and that the bus is away.
func TestPagesShowThePoolAndItsLoss(t *testing.T) {
	data := t.TempDir()
	b, err := bus.Open(t.Context(), bus.Config{Data: data, Name: "test", Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
	if err != nil {
		t.Fatal(err)
	}
	closeBus := sync.OnceFunc(b.Close)
	t.Cleanup(closeBus)
	c := state.LedgerConfig{Cluster: "here", Pool: "web"}
	_, err = state.CreateLedger(t.Context(), b.JetStream(), c)
	var summaries *state.Ledger
	if err == nil {
		summaries, err = state.NewSummaries(b.JetStream(), c)
	}
	if err == nil {
		err = summaries.Create(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	tick := func(target float64) {
		t.Helper()
		data, err := json.Marshal(past.Summary{Schema: past.Schema, Pool: "web", At: time.Now(), Every: time.Second, Before: &target, Target: &target, Wanted: &target, Joined: target})
		if err == nil {
			err = summaries.Append(t.Context(), data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tick(31)
	url := start(t, data)
	until(t, url+"/pools", "web", "31")
	tick(47)
	until(t, url+"/pools", "47")
	until(t, url+"/pools/here/web", "47")
	until(t, url+"/api/v1/pools", `"pool":`, "web")
	closeBus()
	until(t, url+"/pools", "does not answer since", "not live")
}

// start runs "weir web" and returns its address.
func start(t *testing.T, data string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	read, write := io.Pipe()
	p := Process{
		Settings: command.Settings{Data: data, Configs: t.TempDir(), Cluster: "here"}, Addr: "127.0.0.1:0", AdminAddr: config.AdminOff, Out: write,
		Log: slog.New(slog.DiscardHandler),
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx, config.Service{}); err != nil {
			t.Errorf("Run = %v", err)
		}
		write.Close()
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	lines := bufio.NewScanner(read)
	if !lines.Scan() {
		t.Fatal("no address")
	}
	go io.Copy(io.Discard, read)
	return strings.TrimSuffix(strings.TrimPrefix(lines.Text(), "dashboard: "), "/")
}

// until requests a page until it has all texts.
func until(t *testing.T, url string, texts ...string) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		got, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		got.Body.Close()
		missing := ""
		for _, text := range texts {
			if !strings.Contains(string(body), text) {
				missing = text
			}
		}
		if err == nil && missing == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: status %d without %q within %v:\n%.2000s", url, got.StatusCode, missing, patience, body)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// An address that other hosts reach needs a token, and a loopback one accepts no other host name.
func TestGuardOfThePages(t *testing.T) {
	tokens := func() ([]api.Token, error) {
		return []api.Token{{Role: api.Viewer, Name: "kim", Secret: "0123456789abcdef"}}, nil
	}
	outside := &net.TCPAddr{IP: net.IPv4zero, Port: 9480}
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9480}
	for name, test := range map[string]struct {
		own    net.Addr
		host   string
		secret string
		want   int
	}{
		"loopback":                {local, "127.0.0.1:9480", "", http.StatusOK},
		"another name":            {local, "evil.example:9480", "", http.StatusForbidden},
		"no token":                {outside, "10.0.0.1:9480", "", http.StatusUnauthorized},
		"wrong token":             {outside, "10.0.0.1:9480", "0123456789abcdeX", http.StatusUnauthorized},
		"token as basic password": {outside, "10.0.0.1:9480", "0123456789abcdef", http.StatusOK},
	} {
		r := httptest.NewRequest(http.MethodGet, "/pools", nil)
		r.Host = test.host
		if test.secret != "" {
			r.SetBasicAuth("any", test.secret)
		}
		w := httptest.NewRecorder()
		ok := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		guard{test.own, tokens, slog.New(slog.DiscardHandler)}.wrap(ok).ServeHTTP(w, r)
		if w.Code != test.want {
			t.Errorf("%s: status %d, want %d: %s", name, w.Code, test.want, w.Body)
		}
	}
	if _, err := (guard{outside, nil, nil}).permits(httptest.NewRequest(http.MethodGet, "/", nil)); err != nil {
		t.Errorf("without a token file: %v", err)
	}
}
