package bus_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
)

// A daemon that starts before NATS waits for it, until its context ends. Rejected credentials are an error at once.
func TestOpenWaitsForNATS(t *testing.T) {
	port := bustest.Ports(t, 1)[0]
	c := bus.Config{NATS: bus.NATS{Servers: []string{fmt.Sprintf("nats://127.0.0.1:%d", port)}}, Log: slog.New(slog.DiscardHandler), Wait: true}
	ended, end := context.WithCancel(t.Context())
	end()
	if b, err := bus.Open(ended, c); err == nil {
		b.Close()
		t.Error("Open with an ended context succeeded")
	}
	opened := make(chan error, 1)
	go func() {
		b, err := bus.Open(t.Context(), c)
		if err == nil {
			b.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("Open without a server = %v, want it to wait", err)
	case <-time.After(time.Second): // two attempts
	}
	s := bustest.Serve(t, server.Options{Port: port})
	if err := <-opened; err != nil {
		t.Errorf("Open with a server = %v", err)
	}
	s.Shutdown()
	s.WaitForShutdown()
	bustest.Serve(t, server.Options{Port: port, Username: "weir", Password: "right"})
	if b, err := bus.Open(t.Context(), c); err == nil {
		b.Close()
		t.Error("Open without credentials succeeded")
	}
}

// A file of a daemon that is missing or wrong ends it at once.
func TestOpenDoesNotWaitForFiles(t *testing.T) {
	url := bustest.Serve(t, server.Options{}).ClientURL()
	missing := filepath.Join(t.TempDir(), "missing")
	for key, n := range map[string]bus.NATS{
		"nats.credentials_file " + missing: {CredentialsFile: missing},
		"nats.nkey_file " + missing:        {NKeyFile: missing},
		"nats.token_file " + missing:       {TokenFile: missing},
		"nats.tls.ca_file " + missing:      {TLS: bus.TLS{CAFile: missing}},
		"nats.nkey_file /dev/null":         {NKeyFile: "/dev/null"},
		"nats.tls.ca_file /dev/null":       {TLS: bus.TLS{CAFile: "/dev/null"}},
	} {
		ctx, end := context.WithCancel(t.Context())
		n.Servers = []string{url}
		_, err := bus.Open(ctx, bus.Config{
			NATS: n, Log: slog.New(slog.DiscardHandler), Wait: true,
			Waiting: func(err error) { t.Errorf("%s: Open waits after %v", key, err); end() },
		})
		end()
		if err == nil || !strings.Contains(err.Error(), key+": ") {
			t.Errorf("Open = %v, want an error with %q", err, key)
		}
	}
}
