package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natscert"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds the waits of these tests.
const patience = await.Patience

// fixed is a check with that result.
func fixed(name string, r Result) Check {
	return Check{Name: name, Read: func(context.Context) Result { return r }}
}

// start runs a server on a free port until the test ends, and returns its address.
func start(t *testing.T, settings config.Admin, content Content) string {
	t.Helper()
	s, err := Listen(Config{Daemon: config.DaemonBootstrap, Settings: settings, Flag: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	parts := daemon.NewServices(t.Context())
	s.Serve(parts, content)
	t.Cleanup(func() {
		if err := parts.Stop(nil); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return s.Given().String()
}

// request is one GET.
type request struct{ host, token string }

func (r request) get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Host = r.host
	if r.token != "" {
		q.Header.Set("Authorization", "Bearer "+r.token)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func get(t *testing.T, address, path string) (int, string) {
	t.Helper()
	return request{}.get(t, address, path)
}

// A daemon is ready unless a check fails or is unknown. Only a dead loop ends health.
func TestPathsReportTheChecks(t *testing.T) {
	ok, standby := fixed("bus", Result{State: OK, Detail: "connected"}), fixed("lease", Result{State: Standby, Detail: "held by b"})
	degraded := fixed("signals", Result{State: Degraded, Detail: "app web\x1b[31m\nis stale", Remedy: "see \"weir status\""})
	failed := fixed("tick", Result{State: Failed, Detail: "last tick 3m0s ago", Remedy: "see the log"})
	dead := fixed("loop", Result{State: Failed, Dead: true, Detail: "hangs"})
	for _, tt := range []struct {
		name          string
		checks        []Check
		health, ready int
		text          string // in the verbose form
	}{
		{"all well", []Check{ok, standby, degraded}, 200, 200, "[+] signals: degraded since "},
		{"escaped", []Check{degraded}, 200, 200, `: app web\x1b[31m\nis stale; see "weir status"`},
		{"failed", []Check{ok, failed}, 200, 503, "[-] tick: failed since "},
		{"dead", []Check{dead}, 503, 503, "bootstrap is not ready\n"},
		{"unknown", []Check{fixed("lease", Result{})}, 200, 503, "[-] lease: unknown since "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			address := start(t, config.Admin{}, Content{Checks: tt.checks})
			if code, body := get(t, address, "/healthz"); code != tt.health {
				t.Errorf("/healthz = %d %q, want %d", code, body, tt.health)
			}
			if code, body := get(t, address, "/readyz"); code != tt.ready {
				t.Errorf("/readyz = %d %q, want %d", code, body, tt.ready)
			}
			code, body := get(t, address, "/readyz?verbose")
			if code != tt.ready || !strings.Contains(body, tt.text) || strings.Contains(body, "\x1b") {
				t.Errorf("/readyz?verbose = %d %q, want %d with %q", code, body, tt.ready, tt.text)
			}
			var list struct {
				Ready  bool
				Checks []struct{ Name, State string }
			}
			code, body = get(t, address, "/readyz?verbose&format=json")
			if err := json.Unmarshal([]byte(body), &list); err != nil || code != tt.ready || list.Ready != (tt.ready == 200) || len(list.Checks) != len(tt.checks) {
				t.Errorf("JSON = %d %q, %v", code, body, err)
			}
		})
	}
}

// The time of a state is that of its beginning, and a check that does not end fails.
func TestStateKeepsItsBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		state := make(chan State, 1)
		state <- OK
		c := newChecks([]Check{{Name: "x", Read: func(context.Context) Result {
			s := <-state
			state <- s
			return Result{State: s}
		}}})
		done := make(chan error)
		go func() { done <- c.run(ctx) }()
		synctest.Wait()
		began := time.Now()
		<-time.After(time.Minute)
		if s := c.now(ctx)[0]; s.State != OK || !s.Since.Equal(began) {
			t.Errorf("state = %+v, want ok since %v", s, began)
		}
		<-state
		state <- Failed
		changed := time.Now()
		if s := c.now(ctx)[0]; s.State != Failed || !s.Since.Equal(changed) {
			t.Errorf("state = %+v, want failed since %v", s, changed)
		}
		<-state
		state <- OK
		c.now(ctx)
		<-state // the next reading waits
		<-time.After(checkStuck + checkEvery)
		if s := c.now(ctx)[0]; s.State != Failed || !strings.Contains(s.Detail, "does not end") {
			t.Errorf("state of a check that does not end = %+v", s)
		}
		state <- OK
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A loop without a sign of life is unknown at first, and dead after the limit.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pulse
		check := p.Check("loop", time.Minute)
		expect := func(want State, dead bool) {
			t.Helper()
			if r := check.Read(t.Context()); r.State != want || r.Dead != dead {
				t.Errorf("after %v: %+v, want %v, dead %t", time.Now(), r, want, dead)
			}
		}
		expect(Unknown, false)
		<-time.After(2 * time.Minute)
		expect(Failed, true)
		p.Beat()
		expect(OK, false)
		<-time.After(2 * time.Minute)
		expect(Failed, true)
	})
}

// With a token, only the two probes work without it, and they have no details. A new token is in use at once.
func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	settings := config.Admin{TokenFile: file, Pprof: true}
	address := start(t, settings, Content{Checks: []Check{fixed("tick", Result{State: Failed, Detail: "private"})}})
	if code, body := get(t, address, "/readyz"); code != 503 || body != "tick: failed\n" {
		t.Errorf("/readyz without a token = %d %q", code, body)
	}
	for _, path := range []string{"/readyz?verbose", "/metrics", "/debug/pprof/", "/debug/pprof/heap"} {
		for token, want := range map[string]int{"": 401, "wrong": 401, "first": 200} {
			if path == "/readyz?verbose" && want == 200 {
				want = 503
			}
			if code, _ := (request{token: token}).get(t, address, path); code != want {
				t.Errorf("%s with token %q = %d, want %d", path, token, code, want)
			}
		}
	}
	write("second")
	if code, _ := (request{token: "second"}).get(t, address, "/metrics"); code != 200 {
		t.Errorf("/metrics with the new token = %d", code)
	}
	write("")
	if code, _ := get(t, address, "/metrics"); code != 401 {
		t.Errorf("/metrics with an empty token file = %d", code)
	}
}

// A page of another host cannot read the server of this host through its browser, and profiles are off by default.
func TestBrowsersAndProfiles(t *testing.T) {
	address := start(t, config.Admin{}, Content{Collectors: []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_test"}, func() float64 { return 7 }),
	}})
	for host, want := range map[string]int{"": 200, "localhost": 200, "localhost:9463": 200, "[::1]:9463": 200, "evil.example": 403, "evil.example:9463": 403} {
		if code, _ := (request{host: host}).get(t, address, "/metrics"); code != want {
			t.Errorf("Host %q = %d, want %d", host, code, want)
		}
	}
	if _, body := get(t, address, "/metrics"); !strings.Contains(body, "weir_test 7\n") {
		t.Error("metrics lack the collector")
	}
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/other"} {
		if code, _ := get(t, address, path); code != 404 {
			t.Errorf("%s = %d, want 404", path, code)
		}
	}
}

// Thousands of connections that send nothing, or half a request, do not keep a probe out.
func TestSlowConnections(t *testing.T) {
	address := start(t, config.Admin{}, Content{Checks: []Check{fixed("x", Result{State: OK})}})
	const all = 10_000
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			conn.Close()
		}
	}()
	for i := range all {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: x") // the server may have closed it
		}
		if open = append(open, conn); len(open) > 1000 { // the limit of open files
			open[0].Close()
			open = open[1:]
		}
		if i%1000 == 0 {
			if code, _ := get(t, address, "/readyz"); code != 200 {
				t.Errorf("/readyz beside %d connections = %d", i, code)
			}
		}
	}
	if code, _ := get(t, address, "/healthz"); code != 200 {
		t.Errorf("/healthz beside slow connections = %d", code)
	}
}

// An address that other hosts reach needs a token. A default address that is in use turns the server off.
func TestListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	used := taken.Addr().String()
	for _, tt := range []struct {
		name string
		c    Config
		want string // in the error; "off": a nil server
	}{
		{"off", Config{Daemon: config.DaemonAgent, Flag: config.AdminOff}, "off"},
		{"child", Config{Daemon: config.DaemonAutoscaler}, "off"},
		{"all addresses", Config{Flag: ":0"}, "which other hosts reach: set admin.token_file"},
		{"another address", Config{Settings: config.Admin{Agent: "192.0.2.1:1"}, Daemon: config.DaemonAgent}, "which other hosts reach"},
		{"no port", Config{Flag: "127.0.0.1"}, "want HOST:PORT"},
		{"in use", Config{Flag: used}, "choose another address with --admin-addr"},
		{"configured and in use", Config{Settings: config.Admin{Agent: used}, Daemon: config.DaemonAgent}, "admin.agent"},
		{"no token file", Config{Flag: "127.0.0.1:0", Settings: config.Admin{TokenFile: "/nonexistent"}}, "admin.token_file"},
		{"no certificate", Config{Flag: "127.0.0.1:0", Settings: config.Admin{TLS: config.AdminTLS{CertFile: "/nonexistent", KeyFile: "/nonexistent"}}}, "admin.tls"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.c.Log = slog.New(slog.DiscardHandler)
			s, err := Listen(tt.c)
			t.Cleanup(s.Close)
			if tt.want == "off" {
				if s != nil || err != nil {
					t.Errorf("Listen = %v, %v, want no server", s, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Listen = %v, want %q", err, tt.want)
			}
		})
	}
}

// A server with a certificate speaks TLS only. A new certificate is in use at the next connection.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	settings := config.Admin{TLS: config.AdminTLS{CertFile: filepath.Join(dir, "crt"), KeyFile: filepath.Join(dir, "key")}}
	renew := func() *http.Client {
		t.Helper()
		ca, err := natscert.NewCA("test", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		cert, key, err := ca.Server("n1", []string{"127.0.0.1"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(settings.TLS.CertFile, cert, 0o600), os.WriteFile(settings.TLS.KeyFile, key, 0o600)); err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(ca.Cert)
		return &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	}
	first := renew()
	address := start(t, settings, Content{})
	get := func(client *http.Client, url string) (int, error) {
		answer, err := client.Get(url)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	if code, err := get(first, "https://"+address+"/healthz"); code != 200 || err != nil {
		t.Errorf("over TLS = %d, %v", code, err)
	}
	if code, _ := get(first, "http://"+address+"/healthz"); code != 400 {
		t.Errorf("without TLS = %d, want 400", code)
	}
	second := renew()
	if code, err := get(second, "https://"+address+"/healthz"); code != 200 || err != nil {
		t.Errorf("with the new certificate = %d, %v", code, err)
	}
}
