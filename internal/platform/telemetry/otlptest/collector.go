// Package otlptest has a collector of traces for tests, with the types of the OTLP module.
//
// A [Collector] is a real HTTP server. It accepts OTLP with protobuf, plain or gzip, and refuses all else. A test names it
// to the exporter by its URL:
//
//	c := otlptest.Start(t)
//	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
//
// Then [Collector.Received] returns the spans and the resource that arrived. A Collector may be used concurrently, and ends
// with the test.
package otlptest

import (
	"compress/gzip"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Received is what a collector has received.
type Received struct {
	Spans    map[string]*spans.Span // the last one of each name
	Resource map[string]string
	Token    string // last Authorization
}

// Collector is a running collector.
type Collector struct {
	URL string

	mu  sync.Mutex
	all Received
}

// Start runs a collector.
func Start(tb testing.TB) *Collector {
	c := &Collector{all: Received{Spans: map[string]*spans.Span{}, Resource: map[string]string{}}}
	server := httptest.NewServer(c)
	tb.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Received returns what has arrived until now.
func (c *Collector) Received() Received {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Received{maps.Clone(c.all.Spans), maps.Clone(c.all.Resource), c.all.Token}
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.Token = r.Header.Get("Authorization")
	for _, of := range request.GetResourceSpans() {
		for _, a := range of.GetResource().GetAttributes() {
			c.all.Resource[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.all.Spans[s.GetName()] = s
			}
		}
	}
	answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{}) // an empty message
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer) // fails only if the client is gone
}

// Attributes returns the attributes of a span that are texts.
func Attributes(s *spans.Span) map[string]string {
	out := map[string]string{}
	for _, a := range s.GetAttributes() {
		out[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return out
}
