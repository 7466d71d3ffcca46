package command

import (
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/daemon"
)

// TestDurationsInLogs writes a duration as text, and in JSON as seconds.
func TestDurationsInLogs(t *testing.T) {
	for format, want := range map[string]string{"text": " took=1m30.5s\n", "json": `"took":90.5}` + "\n"} {
		var out strings.Builder
		r := &Root{Stderr: &out, Settings: daemon.Settings{LogLevel: "info", LogFormat: format}}
		log, err := r.Logger()
		if err != nil {
			t.Fatal(err)
		}
		if log.Info("tick", "took", 90500*time.Millisecond); !strings.HasSuffix(out.String(), want) {
			t.Errorf("%s: %q, want an end of %q", format, out.String(), want)
		}
	}
}
