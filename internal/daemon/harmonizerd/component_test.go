package harmonizerd

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/bus"
	"github.com/weirkeeper/weirkeeper/internal/config"
)

// announcement is what collectors of the time read of a component.
type announcement struct {
	Type        string   `json:"type"`
	Index       int      `json:"index"`
	UUID        string   `json:"uuid"`
	Host        string   `json:"host"`
	Credentials []string `json:"credentials"`
}

// announced runs a harmonizer on a bus of its own, until the test ends, and returns what
// it announces.
func announced(t *testing.T, file config.Harmonizer) announcement {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	b, err := bus.Open(t.Context(), bus.Config{Data: t.TempDir(), Name: "test", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	sub, err := b.Conn().SubscribeSync("vcap.component.announce")
	if err != nil || b.Conn().Flush() != nil {
		t.Fatal(err)
	}
	p := Parts{Bus: b, File: file, Loop: file.Loop("test", []string{"default"}), Holder: "a", Log: log}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx, "127.0.0.1:0", io.Discard) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	m, err := sub.NextMsg(20 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var a announcement
	if err := json.Unmarshal(m.Data, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestIndexIsAnnounced runs a harmonizer of which the file gives the index.
func TestIndexIsAnnounced(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "health_manager.yml")
	if err := os.WriteFile(path, []byte("index: 2\nlease: 3s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, _, err := config.ReadHarmonizer(path)
	if err != nil {
		t.Fatal(err)
	}
	a := announced(t, file)
	if a.Type != "HealthManager" || a.Index != 2 || !strings.HasPrefix(a.UUID, "2-") {
		t.Errorf("announced %+v, want index 2", a)
	}
}
