package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/telemetry/otlptest"
)

// With --log-format json each line of the log of "weir up" is a JSON object: of each daemon, and of what their children
// print. The autoscaler exports the trace of its ticks to the collector that the environment of "weir up" names.
func TestUpLogsJSONAndExportsTraces(t *testing.T) {
	t.Parallel()
	c, data := otlptest.Start(t), t.TempDir()
	u := launchUpAs(t, 0, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL}, data, "--log-format", "json")
	u.waitFor(t, "ready in")
	u.weir(t, "app", "set", "web", "--instances", "2", "--cpus", "0.2", "--mem", "16", "--command", "echo plain text; exec sleep 100000")
	u.waitRunning(t, "web", 2)
	eventually(t, "the trace of a tick", func() error {
		got := c.Received()
		for _, span := range []string{"tick", "snapshot", "window", "signal", "decide", "apply", "record"} {
			if got.Spans[span] == nil {
				return fmt.Errorf("no span %s in %v", span, got.Spans)
			}
		}
		if got.Resource["service.name"] != "weir-autoscaler" || got.Resource["weir.pool"] != "default" {
			return fmt.Errorf("the resource is %v", got.Resource)
		}
		return nil
	})
	w := &faultWorld{T: t, data: data, u: u}
	killRole("autoscaler")(w)
	killRole("signal")(w)
	eventually(t, "lines of a killed child", func() error {
		if lines := logLines(t, data); lines["autoscaler"] == 0 || lines["bootstrap"] == 0 {
			return fmt.Errorf("lines by process: %v", lines)
		}
		return nil
	})
	u.end(t)
	t.Log(logLines(t, data))
}

// logLines counts the lines of the log of "weir up" by process. Each must be a JSON object with time, level and msg.
func logLines(t *testing.T, data string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(data, "weir.log"))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			continue // it is being written
		}
		var one struct{ Time, Level, Msg, Process string }
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Time == "" || one.Level == "" || one.Msg == "" {
			t.Fatal(errors.Join(err, fmt.Errorf("no JSON object with time, level and msg: %s", line)))
		}
		name, _, _ := strings.Cut(one.Process, " ")
		count[name]++
	}
	return count
}
