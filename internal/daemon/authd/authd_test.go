package authd_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/admin"
	"github.com/weirkeeper/weirkeeper/internal/daemon/authd"
	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/identity"
)

func TestMain(m *testing.M) {
	if bustest.RunServer() {
		return
	}
	goleak.VerifyTestMain(m)
}

const patience = await.Patience

// output is the standard output of a daemon.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func pair(t *testing.T, create func() (nkeys.KeyPair, error)) (p nkeys.KeyPair, public, file string) {
	t.Helper()
	p, err := create()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = p.PublicKey(); err != nil {
		t.Fatal(err)
	}
	seed, err := p.Seed()
	if err != nil {
		t.Fatal(err)
	}
	return p, public, write(t, t.TempDir(), "seed", string(seed)+"\n")
}

func write(t *testing.T, dir, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	check := time.NewTicker(5 * time.Millisecond)
	defer check.Stop()
	for limit := time.After(patience); !holds(); {
		select {
		case <-check.C:
		case <-limit:
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// The configuration of both sides, as a person writes it, lets an agent in with the permissions of its role.
func TestConfiguredAgentConnectsThroughAuth(t *testing.T) {
	_, issuer, issuerFile := pair(t, nkeys.CreateAccount)
	_, xkey, xkeyFile := pair(t, nkeys.CreateCurveKeys)
	_, userKey, userFile := pair(t, nkeys.CreateUser)
	accounts := []*server.Account{server.NewAccount("AUTH"), server.NewAccount("AGENTS:prod:web")}
	s := bustest.Serve(t, server.Options{
		Accounts: accounts, AuthTimeout: 3, Nkeys: []*server.NkeyUser{{Nkey: userKey, Account: accounts[0]}},
		AuthCallout: &server.AuthCallout{Issuer: issuer, Account: "AUTH", XKey: xkey, AuthUsers: []string{userKey}},
	})
	dir, data := t.TempDir(), t.TempDir()
	secret := write(t, dir, "secrets", strings.Repeat("a", 40))
	write(t, dir, "weir.yaml", fmt.Sprintf("auth:\n  issuer_key_file: %s\n  xkey_file: %s\n  verifiers:\n    sharedsecret: {key_file: %s, pools: [web]}\n"+
		"identity:\n  sharedsecret: {key_file: %s}\n", issuerFile, xkeyFile, secret, secret))
	service, err := config.LoadService(dir)
	if err != nil {
		t.Fatal(err)
	}
	out, log := new(output), slog.New(slog.DiscardHandler)
	own, err := bus.Find(t.Context(), bus.Config{NATS: bus.NATS{Servers: []string{s.ClientURL()}, NKeyFile: userFile}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	runAuth(t, authd.Process{Bus: own, Config: service.Auth, Cluster: "prod", Log: log}, admin.Config{Daemon: config.DaemonAuth, Flag: "127.0.0.1:0", Out: out, Log: log})
	wait(t, "the address of the metrics", func() bool { return strings.Contains(out.String(), "/metrics\n") })
	_, address, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(out.String()), "/metrics"), "http://")
	wait(t, "health", func() bool { code, _ := get(t, address, "/readyz"); return code == http.StatusOK })

	agentOf := func(pool, node string) (*bus.Bus, error) {
		login, err := authd.Login(t.Context(), service.Identity, identity.Claim{Cluster: "prod", Pool: pool, Node: node}, data)
		if err != nil {
			t.Fatal(err)
		}
		return bus.Find(t.Context(), bus.Config{NATS: bus.NATS{Servers: []string{s.ClientURL()}}, Log: log, Login: func(o *nats.Options) error {
			err := login.Apply(o)
			o.RetryOnFailedConnect = false
			return err
		}})
	}
	b, err := agentOf("web", "i-01")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Conn().Publish("weir.prod.heartbeat.web.i-01", nil); err != nil || b.Conn().FlushTimeout(patience) != nil || b.Conn().LastError() != nil {
		t.Errorf("heartbeat = %v, %v", err, b.Conn().LastError())
	}
	if err := b.Conn().Publish("weir.prod.heartbeat.web.i-02", nil); err != nil || b.Conn().FlushTimeout(patience) != nil || b.Conn().LastError() == nil {
		t.Errorf("heartbeat of another node = %v, %v, want a violation", err, b.Conn().LastError())
	}
	if b, err := agentOf("db", "i-02"); err == nil {
		b.Close()
		t.Error("an agent of another pool connects")
	}
	refused(t, s.ClientURL(), service.Identity, data)
	_, metrics := get(t, address, "/metrics")
	for _, want := range []string{"weir_auth_accepted_total 1\n", `weir_auth_refused_total{reason="wrong_name"} `, `weir_auth_refused_total{reason="stolen"} 0` + "\n"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
	if _, varz := get(t, address, "/varz"); !strings.Contains(varz, `"accepted":1`) {
		t.Errorf("/varz = %s", varz)
	}
	own.Close()
	wait(t, "/readyz without NATS", func() bool { code, _ := get(t, address, "/readyz"); return code == http.StatusServiceUnavailable })
	if code, _ := get(t, address, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz without NATS = %d, want that of a process that lives", code)
	}
}

// refused requires that a refused agent names the server's word, the key in weir.yaml and what to do: in its log and in
// its readiness.
func refused(t *testing.T, url string, settings config.Identity, data string) {
	t.Helper()
	text := new(output)
	c := bus.Config{NATS: bus.NATS{Servers: []string{url}}, Data: data, Wait: true, Log: slog.New(slog.NewTextHandler(text, nil)), FilesEvery: 10 * time.Millisecond}
	if err := authd.Identify(t.Context(), &c, settings, identity.Claim{Cluster: "prod", Pool: "db", Node: "i-03"}); err != nil {
		t.Fatal(err)
	}
	apply := c.Login
	c.Login = func(o *nats.Options) error {
		err := apply(o)
		o.ReconnectWait, o.ReconnectJitter = 50*time.Millisecond, 0
		return err
	}
	b, err := bus.Find(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	const word, key, remedy = "Authorization Violation", "identity.sharedsecret", "its log has the reason"
	names := func(text string) bool {
		return strings.Contains(text, word) && strings.Contains(text, key) && strings.Contains(text, remedy)
	}
	wait(t, "the log names why", func() bool { return names(text.String()) })
	wait(t, "readiness names why", func() bool {
		r := admin.Bus(b).Read(t.Context())
		return r.State == admin.Failed && names(r.Detail)
	})
}

// runAuth runs the process until the test ends.
func runAuth(t *testing.T, p authd.Process, c admin.Config) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx, c); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
}

func get(t *testing.T, address, path string) (code int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// Each wrong key file is named with its key in the configuration.
func TestWrongKeysOfAuthAreNamed(t *testing.T) {
	_, _, userFile := pair(t, nkeys.CreateUser)
	_, _, accountFile := pair(t, nkeys.CreateAccount)
	for name, tc := range map[string]struct {
		config config.Auth
		want   string
	}{
		"missing issuer":     {config.Auth{IssuerKeyFile: "/nonexistent"}, "auth.issuer_key_file"},
		"issuer of a user":   {config.Auth{IssuerKeyFile: userFile}, "begins with SA"},
		"xkey of an account": {config.Auth{IssuerKeyFile: accountFile, XKeyFile: accountFile}, "auth.xkey_file"},
	} {
		t.Run(name, func(t *testing.T) {
			err := authd.Process{Config: tc.config, Cluster: "prod", Log: slog.New(slog.DiscardHandler)}.Run(t.Context(), admin.Config{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run = %v, want %q", err, tc.want)
			}
		})
	}
}
