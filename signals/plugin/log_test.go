package plugin

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"
)

func TestLogSpeaksHCLog(t *testing.T) {
	var out bytes.Buffer
	log := newLog(&out).With("app", "web")
	for _, test := range []struct {
		level slog.Level
		want  string
	}{
		{slog.LevelDebug - 1, "trace"}, {slog.LevelDebug, "debug"}, {slog.LevelInfo, "info"}, {slog.LevelInfo + 2, "info"},
		{slog.LevelWarn, "warn"}, {slog.LevelError + 4, "error"},
	} {
		out.Reset()
		log.Log(t.Context(), test.level, "m", "level", "own", "took", 90*time.Second, slog.Group("g", "level", 1))
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%v: %s", err, &out)
		}
		at, _ := got["@timestamp"].(string)
		if _, err := time.Parse(hclog.TimeFormatJSON, at); err != nil {
			t.Errorf("timestamp: %v", err)
		}
		delete(got, "@timestamp")
		want := map[string]any{"@level": test.want, "@message": "m", "app": "web", "level": "own", "took": "1m30s", "g": map[string]any{"level": 1.0}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.level, diff)
		}
	}
}
