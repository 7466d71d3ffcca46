package telemetry

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/weirkeeper/weirkeeper/internal/trace"
)

// endpoint is a collector of OTLP over HTTP.
type endpoint struct {
	mu       sync.Mutex
	spans    map[string]*spans.Span // by name
	resource map[string]string
	token    string // last Authorization
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	data, err := io.ReadAll(body)
	var request collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(data, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not a request of OTLP", http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.token = r.Header.Get("Authorization")
	for _, of := range request.GetResourceSpans() {
		for _, a := range of.GetResource().GetAttributes() {
			e.resource[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				e.spans[s.GetName()] = s
			}
		}
	}
	answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{}) // an empty message
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer)
}

func attributes(s *spans.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.GetAttributes() {
		out[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return out
}

func TestStepsAreSpans(t *testing.T) {
	e := &endpoint{spans: map[string]*spans.Span{}, resource: map[string]string{}}
	server := httptest.NewServer(e)
	defer server.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
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
	if len(e.spans) != 4 || e.token != "Bearer x" {
		t.Fatalf("the collector received %v with token %q", e.spans, e.token)
	}
	for key, want := range map[string]string{"service.name": "weir-autoscaler", "weir.cluster": "c", "weir.pool": "p", "deployment.environment": "test"} {
		if e.resource[key] != want {
			t.Errorf("resource %s = %q, want %q", key, e.resource[key], want)
		}
	}
	tick := e.spans["tick"]
	for _, name := range []string{"signal", "window", "provider set_target"} {
		s := e.spans[name]
		if !bytes.Equal(s.GetParentSpanId(), tick.GetSpanId()) || !bytes.Equal(s.GetTraceId(), tick.GetTraceId()) {
			t.Errorf("span %s is not a child of the tick", name)
		}
	}
	if len(tick.GetParentSpanId()) > 0 {
		t.Error("the tick has a parent")
	}
	if a := attributes(e.spans["window"])["weir.metric"]; a != "cpus_allocated" {
		t.Errorf("weir.metric = %q", a)
	}
	if a := attributes(e.spans["provider set_target"])["weir.group"]; a != "group-a" {
		t.Errorf("weir.group = %q", a)
	}
	if a := attributes(e.spans["signal"])["weir.app"]; !strings.HasPrefix(a, "web ") || len(a) > maxText || strings.Contains(a, "\n") || !utf8.ValidString(a) {
		t.Errorf("weir.app = %q", a)
	}
	if s := e.spans["signal"].GetStatus(); s.GetCode() != spans.Status_STATUS_CODE_ERROR || s.GetMessage() != "no answer [31m" {
		t.Errorf("status %v", s)
	}
	if s := e.spans["window"].GetStatus(); s.GetCode() == spans.Status_STATUS_CODE_ERROR {
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
		if on := Enabled(func(name string) string { return test.env[name] }); on != test.on {
			t.Errorf("%s: enabled %t, want %t", test.name, on, test.on)
		}
	}
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://x")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	if _, _, err := Open(t.Context(), "x", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "supports http/protobuf") {
		t.Errorf("err = %v, want one that names the supported protocol", err)
	}
}
