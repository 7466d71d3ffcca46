package admin

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// reads waits until a path has that code and text.
func reads(t *testing.T, address, path string, code int, text string) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for limit := time.After(patience); ; {
		got, body := request{}.get(t, address, path)
		if got == code && strings.Contains(body, text) {
			return
		}
		select {
		case <-again.C:
		case <-limit:
			t.Fatalf("%s = %d %q, want %d %q", path, got, body, code, text)
		}
	}
}

// A daemon that waits for NATS serves why. After its start the same address serves its checks.
func TestWaitingDaemonReportsWhy(t *testing.T) {
	c := Config{Daemon: config.DaemonAgent, Flag: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}
	connection := bus.Config{
		NATS: bus.NATS{Servers: []string{"nats://127.0.0.1:1"}}, Name: "test", Wait: true, ReconnectWait: 10 * time.Millisecond, Log: c.Log,
	}
	s, err := Open(c, &connection)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer s.Close()
	ended := make(chan error, 1)
	parts := daemon.NewServices(t.Context())
	parts.Run("connection", func(ctx context.Context) error {
		_, err := bus.Find(ctx, connection)
		ended <- err
		return err
	})
	address := s.Given().String()
	reads(t, address, "/readyz?verbose", http.StatusServiceUnavailable, "[-] start: failed")
	reads(t, address, "/readyz?verbose", http.StatusServiceUnavailable, "connection refused")
	reads(t, address, "/healthz", http.StatusOK, "")
	if err := parts.Stop(nil); err != nil || <-ended == nil {
		t.Fatalf("the connection ends with %v", err)
	}

	started := daemon.NewServices(t.Context())
	c.Opened = s
	if err := Start(started, c, Content{Checks: []Check{fixed("bus", Result{State: OK})}}); err != nil {
		t.Fatal(err)
	}
	reads(t, address, "/readyz?verbose", http.StatusOK, "[+] bus: ok")
	if err := started.Stop(nil); err != nil {
		t.Error(err)
	}
}

// A server that is off reports nothing.
func TestOpenWithoutAddress(t *testing.T) {
	var connection bus.Config
	s, err := Open(Config{Daemon: config.DaemonAgent, Flag: config.AdminOff, Log: slog.New(slog.DiscardHandler)}, &connection)
	if s != nil || err != nil {
		t.Fatalf("Open = %v, %v, want no server", s, err)
	}
	connection.Waiting(errors.New("x"))
	s.Close()
}

// A role that lacks one subscription is not ready, and its readiness names the subject, the file and what to do.
func TestRejectedSubscriptionIsNotReady(t *testing.T) {
	s := bustest.Serve(t, server.Options{Users: []*server.User{{
		Username: "u", Password: "p", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"secret"}}},
	}}})
	file := t.TempDir() + "/password"
	if err := os.WriteFile(file, []byte("p"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := bus.Find(t.Context(), bus.Config{NATS: bus.NATS{Servers: []string{s.ClientURL()}, User: "u", PasswordFile: file}, Name: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if r := Bus(b).Read(t.Context()); r.State != OK {
		t.Errorf("before: %+v, want ok", r)
	}
	if _, err := b.Conn().SubscribeSync("secret"); err != nil {
		t.Fatal(err)
	}
	address := start(t, config.Admin{}, Content{Checks: []Check{Bus(b)}})
	reads(t, address, "/readyz", http.StatusServiceUnavailable, `subscribe to secret: NATS rejects it for user "u" of nats.user: give its role this permission`)
}
