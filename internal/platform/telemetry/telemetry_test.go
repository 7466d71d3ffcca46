package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	spans "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/weirkeeper/weirkeeper/internal/platform/telemetry/otlptest"
	"github.com/weirkeeper/weirkeeper/internal/platform/trace"
)

func TestStepsAreSpans(t *testing.T) {
	c := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer x")
	t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
	tracer, end, err := Open(t.Context(), "weir-autoscaler", slog.New(slog.DiscardHandler), "weir.cluster", "c", "weir.pool", "p")
	if err != nil {
		t.Fatal(err)
	}
	ctx, endTick := tracer.Begin(t.Context(), trace.Tick, "")
	_, endSignal := tracer.Begin(ctx, trace.Signal, "web\n\xff"+strings.Repeat("x", 1000))
	endSignal(errors.New("no answer\x1b[31m"))
	_, endWindow := tracer.Begin(ctx, trace.Window, "cpus_allocated")
	endWindow(nil)
	_, endCall := tracer.Begin(ctx, trace.SetTarget, "group-a")
	endCall(nil)
	endTick(nil)
	end()
	received := c.Received()
	if len(received.Spans) != 4 || received.Token != "Bearer x" {
		t.Fatalf("the collector received %+v", received)
	}
	for key, want := range map[string]string{"service.name": "weir-autoscaler", "weir.cluster": "c", "weir.pool": "p", "deployment.environment": "test"} {
		if received.Resource[key] != want {
			t.Errorf("resource %s = %q, want %q", key, received.Resource[key], want)
		}
	}
	tick := received.Spans["tick"]
	for _, name := range []string{"signal", "window", "provider set_target"} {
		s := received.Spans[name]
		if !bytes.Equal(s.GetParentSpanId(), tick.GetSpanId()) || !bytes.Equal(s.GetTraceId(), tick.GetTraceId()) {
			t.Errorf("span %s is not a child of the tick", name)
		}
	}
	if len(tick.GetParentSpanId()) > 0 {
		t.Error("the tick has a parent")
	}
	if a := otlptest.Attributes(received.Spans["window"])["weir.metric"]; a != "cpus_allocated" {
		t.Errorf("weir.metric = %q", a)
	}
	if a := otlptest.Attributes(received.Spans["provider set_target"])["weir.group"]; a != "group-a" {
		t.Errorf("weir.group = %q", a)
	}
	if a := otlptest.Attributes(received.Spans["signal"])["weir.app"]; !strings.HasPrefix(a, "web ") || len(a) > maxText || strings.Contains(a, "\n") || !utf8.ValidString(a) {
		t.Errorf("weir.app = %q", a)
	}
	if s := received.Spans["signal"].GetStatus(); s.GetCode() != spans.Status_STATUS_CODE_ERROR || s.GetMessage() != "no answer [31m" {
		t.Errorf("status %v", s)
	}
	if s := received.Spans["window"].GetStatus(); s.GetCode() == spans.Status_STATUS_CODE_ERROR {
		t.Errorf("status %v of a good step", s)
	}
}

// A collector that never answers delays no step, and the end of the process for a bounded time only.
func TestSilentCollector(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer server.Close()
	defer close(over)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", server.URL+"/v1/traces")
	var log strings.Builder
	tracer, end, err := Open(t.Context(), "weir-autoscaler", slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 10_000 { // more than the queue has room for
		_, endTick := tracer.Begin(t.Context(), trace.Tick, "")
		endTick(nil)
	}
	end()
	if !strings.Contains(log.String(), "last traces not exported") {
		t.Errorf("the log does not report the loss:\n%s", log.String())
	}
}

func TestTracesAreOff(t *testing.T) {
	for _, test := range []struct {
		name string
		env  map[string]string
		on   bool
	}{
		{"no variable", nil, false},
		{"endpoint", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, true},
		{"endpoint of traces", map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, true},
		{"disabled", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, false},
		{"no exporter", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, false},
	} {
		if on := isEnabled(func(name string) string { return test.env[name] }); on != test.on {
			t.Errorf("%s: enabled %t, want %t", test.name, on, test.on)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	if _, _, err := Open(t.Context(), "x", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "supports http/protobuf") {
		t.Errorf("err = %v, want one that names the supported protocol", err)
	}
}
