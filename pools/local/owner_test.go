package local_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/weirkeeper/weirkeeper/internal/platform/bus"
	"github.com/weirkeeper/weirkeeper/internal/platform/bus/bustest"
	"github.com/weirkeeper/weirkeeper/pools/local"
)

// The roles of a cluster permit no request for local machines. The error names the bus that has them, and no role.
func TestBusWithoutLocalMachines(t *testing.T) {
	s := bustest.Serve(t, server.Options{Users: []*server.User{
		{Username: "pool", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"weir.c.local.>"}}}},
	}})
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("p"), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err := bus.Open(t.Context(), bus.Config{
		NATS: bus.NATS{Servers: []string{s.ClientURL()}, User: "pool", PasswordFile: password}, Name: "test", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	_, err = local.NewPool(b.Conn(), "c", "p", "blue").OwnsRepair(t.Context())
	if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), `start "weir up --pool-file FILE"`) || strings.Contains(err.Error(), "role") {
		t.Errorf("OwnsRepair = %v, want where local machines are", err)
	}
}
