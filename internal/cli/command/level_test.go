package command

import (
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
)

// A first SIGUSR1 adds debug lines, and a second one removes them.
func TestSignalChangesTheLevel(t *testing.T) {
	var out strings.Builder
	r := &Root{Stderr: &out, Settings: daemon.Settings{LogLevel: "warn", LogFormat: "json"}}
	log, err := r.Logger()
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan os.Signal, 1)
	signal.Notify(arrived, syscall.SIGUSR1) // after the logger, so it receives each signal last or at the same time
	defer signal.Stop(arrived)
	for _, want := range []bool{true, false, true} {
		if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
			t.Fatal(err)
		}
		<-arrived
		eventuallyEnabled(t, log, want)
		out.Reset()
		log.Debug("a detail")
		log.Info("a fact")
		if got := strings.Contains(out.String(), "a detail") && strings.Contains(out.String(), "a fact"); got != want {
			t.Errorf("debug lines: %t, want %t:\n%s", got, want, out.String())
		}
	}
}

// eventuallyEnabled waits until the logger has processed the signal. The test ends by its deadline otherwise.
func eventuallyEnabled(t *testing.T, log *slog.Logger, want bool) {
	t.Helper()
	for log.Enabled(t.Context(), slog.LevelDebug) != want {
		if t.Context().Err() != nil {
			t.Fatal(t.Context().Err())
		}
	}
}

// A level below debug stays.
func TestLevelNeverRises(t *testing.T) {
	l := &liveLevel{usual: slog.LevelDebug - 4, signals: make(chan os.Signal, 1)}
	l.signals <- syscall.SIGUSR1
	if got := l.Level(); got != slog.LevelDebug-4 {
		t.Errorf("level %v", got)
	}
}
