package bus_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/natsserver"
	"github.com/weirkeeper/weirkeeper/internal/platform/flock"
)

func TestOpenErrors(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	blocked := func(t *testing.T, names ...string) string {
		t.Helper()
		path := filepath.Join(append([]string{t.TempDir()}, names...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := map[string]struct {
		ctx    context.Context
		change func(*testing.T, *bus.Config)
		want   string
	}{
		"nothing given": {t.Context(), func(_ *testing.T, c *bus.Config) { c.Data = "" }, "neither a data folder nor a NATS server"},
		"no logger":     {t.Context(), func(_ *testing.T, c *bus.Config) { c.Log = nil }, "no logger"},
		"cancelled":     {ended, func(*testing.T, *bus.Config) {}, "context canceled"},
		"folder cannot be made": {t.Context(), func(t *testing.T, c *bus.Config) {
			c.Data = filepath.Join(blocked(t, "file"), "data")
		}, "make the data folder"},
		"store cannot be made": {t.Context(), func(t *testing.T, c *bus.Config) {
			c.Data = filepath.Dir(filepath.Dir(blocked(t, "bus", "jetstream")))
		}, "Can't start JetStream"},
		"address cannot be removed": {t.Context(), func(t *testing.T, c *bus.Config) {
			c.Data = filepath.Dir(filepath.Dir(filepath.Dir(blocked(t, "bus", "address.json", "x"))))
		}, "remove the old address"},
		"no listener": {t.Context(), func(t *testing.T, c *bus.Config) {
			c.NATS.Servers = []string{"nats://user:hush@" + closedPort(t)}
		}, "connect: connection refused; start NATS there, or name another with --nats"},
		"user is missing": {t.Context(), func(t *testing.T, c *bus.Config) {
			c.NATS.Servers = []string{bustest.Serve(t, server.Options{Username: "weir", Password: "hush"}).ClientURL()}
		}, "Authorization Violation; set nats.credentials_file"},
		"cancelled before a url": {ended, func(t *testing.T, c *bus.Config) {
			c.NATS.Servers = []string{"nats://hush@" + closedPort(t)}
		}, "context canceled"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := config(t, t.TempDir())
			tt.change(t, &c)
			b, err := bus.Open(tt.ctx, c)
			if err == nil {
				b.Close()
				t.Fatalf("Open gave a bus, want an error with %q", tt.want)
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "\n") {
				t.Errorf("err = %v, want one line with %q and no secret", err, tt.want)
			}
			if pid, held, err := flock.Holder(filepath.Join(c.Data, "bus", "lock")); held {
				t.Errorf("the folder is still held by %d (%v)", pid, err)
			}
		})
	}
}

// closedPort returns an address without a listener.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func BenchmarkOpen(b *testing.B) {
	data := b.TempDir()
	for b.Loop() {
		opened, err := bus.Open(b.Context(), bus.Config{Data: data, Name: "bench", Log: slog.New(slog.DiscardHandler), Serve: natsserver.Serve})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		opened.Close()
		b.StartTimer()
	}
}
