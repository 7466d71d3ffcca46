package bus

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// The client library reports a renewed connection some time after it exists. Until then its state is as before the
// renewal, and the connection must not be renewed again.
func TestOneRenewalForEachChange(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, Users: []*server.User{
		{Username: "u", Password: "same"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	file := filepath.Join(t.TempDir(), "password")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("same")
	var log strings.Builder
	b, err := Open(t.Context(), Config{
		NATS: NATS{Servers: []string{s.ClientURL()}, User: "u", PasswordFile: file}, Name: "test",
		Log: slog.New(slog.NewTextHandler(&log, nil)), FilesEvery: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	b.Conn().SetReconnectHandler(func(*nats.Conn) {}) // the report of the renewed connection does not arrive

	write("same\n") // another content with the same password
	r := renewal{client: b.client}
	seen := time.Now()
	due := seen.Add(spread * r.config.wait())
	for _, now := range []time.Time{seen, due, due.Add(time.Millisecond)} {
		r.step(t.Context(), now)
	}
	if got := strings.Count(log.String(), "bus credentials renewed"); got != 1 {
		t.Errorf("%d renewals, want 1:\n%s", got, log.String())
	}
}
