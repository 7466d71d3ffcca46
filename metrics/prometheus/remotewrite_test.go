package prometheus_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/internal/platform/promtest"
	"github.com/weirkeeper/weirkeeper/metrics/prometheus"
)

// writer opens a writer to a URL, and runs it until the test ends.
func writer(t *testing.T, text string, run bool) *prometheus.Writer {
	t.Helper()
	var settings prometheus.RemoteWrite
	if err := yaml.Unmarshal([]byte(text), &settings); err != nil {
		t.Fatal(err)
	}
	if found := settings.Check(); len(found) > 0 {
		t.Fatal(found)
	}
	w := settings.Open(slog.New(slog.DiscardHandler))
	if run {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	return w
}

// sample returns a sample of a tick, with an exemplar.
func sample(value float64) []prometheus.Sample {
	return []prometheus.Sample{
		{Labels: [][2]string{{"__name__", "target"}, {"pool", "wéb"}}, Value: value, Exemplar: [][2]string{{"tick", "t1"}}},
		{Labels: [][2]string{{"__name__", "joined"}}, Value: -0.5},
	}
}

// The descriptions of Prometheus itself read what is sent.
func TestRemoteWriteIsReadByItsDescription(t *testing.T) {
	bodies := make(chan []byte, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- body
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	at := time.UnixMilli(1_700_000_000_123)
	writer(t, "url: "+server.URL, true).Add(at, sample(3))
	data, err := snappy.Decode(nil, <-bodies)
	if err != nil {
		t.Fatal(err)
	}
	var got prompb.WriteRequest
	if err := got.Unmarshal(data); err != nil {
		t.Fatal(err)
	}
	point := func(v float64) []prompb.Sample { return []prompb.Sample{{Value: v, Timestamp: at.UnixMilli()}} }
	want := prompb.WriteRequest{Timeseries: []prompb.TimeSeries{
		{Labels: []prompb.Label{{Name: "__name__", Value: "target"}, {Name: "pool", Value: "wéb"}}, Samples: point(3),
			Exemplars: []prompb.Exemplar{{Labels: []prompb.Label{{Name: "tick", Value: "t1"}}, Value: 3, Timestamp: at.UnixMilli()}}},
		{Labels: []prompb.Label{{Name: "__name__", Value: "joined"}}, Samples: point(-0.5)},
	}}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

// get returns the body of an answer with JSON.
func get(t *testing.T, address string, into any) {
	t.Helper()
	answer, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// Real servers store the samples, and Prometheus the exemplars.
func TestRealServersAcceptRemoteWrite(t *testing.T) {
	for name, server := range map[string]*promtest.Server{
		"prometheus": promtest.Storage(t, "--enable-feature=exemplar-storage"), "victoria-metrics": promtest.Victoria(t),
	} {
		t.Run(name, func(t *testing.T) {
			w := writer(t, "url: "+server.URL+"/api/v1/write", true)
			if err := w.Try(t.Context()); err != nil {
				t.Fatalf("without samples: %v", err)
			}
			now := time.Now()
			for i := range 3 {
				w.Add(now.Add(time.Duration(i-3)*time.Second), sample(float64(i)))
			}
			await.True(t, "three ticks", func() bool { return w.Status().Sent == 3 })
			server.Await("target", now)
			await.True(t, "the last value", func() bool {
				var found struct {
					Data struct{ Result []struct{ Value [2]any } }
				}
				get(t, fmt.Sprintf("%s/api/v1/query?query=target&time=%d", server.URL, now.Unix()), &found)
				return len(found.Data.Result) == 1 && found.Data.Result[0].Value[1] == "2"
			})
			if s := w.Status(); s.Sent != 3 || s.Queued != 0 || s.Err != nil || s.Dropped+s.Rejected != 0 {
				t.Errorf("status %+v, want 3 sent", s)
			}
			if name != "prometheus" {
				return // it stores no exemplars
			}
			var found struct {
				Data []struct {
					SeriesLabels map[string]string
					Exemplars    []struct {
						Labels map[string]string
						Value  string
					}
				}
			}
			get(t, server.URL+"/api/v1/query_exemplars?"+url.Values{
				"query": {"target"}, "start": {fmt.Sprint(now.Unix() - 60)}, "end": {fmt.Sprint(now.Unix() + 60)},
			}.Encode(), &found)
			if len(found.Data) != 1 || found.Data[0].SeriesLabels["pool"] != "wéb" || len(found.Data[0].Exemplars) != 3 || found.Data[0].Exemplars[2].Labels["tick"] != "t1" {
				t.Errorf("exemplars %+v, want one of each tick", found.Data)
			}
		})
	}
}

// A server that fails gets the same tick again, and one that refuses a tick does not.
func TestRemoteWriteFails(t *testing.T) {
	codes := make(chan int, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := http.StatusNoContent
		select {
		case code = <-codes:
		default:
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte("out of order sample"))
	}))
	t.Cleanup(server.Close)
	codes <- http.StatusServiceUnavailable
	codes <- http.StatusBadRequest
	w := writer(t, "url: "+server.URL, true)
	w.Add(time.Now(), sample(1))
	w.Add(time.Now().Add(time.Second), sample(2))
	await.True(t, "both ticks", func() bool { return w.Status().Queued == 0 })
	if s := w.Status(); s.Sent != 1 || s.Rejected != 1 || s.Dropped != 0 || s.Err != nil || !s.Since.IsZero() {
		t.Errorf("status %+v, want one rejected, then one sent", s)
	}
}

// The queue is bounded, whatever the server does, and Add does not wait.
func TestRemoteWriteDropsTheOldest(t *testing.T) {
	w := writer(t, "url: http://127.0.0.1:1/api/v1/write", false)
	for i := range 100 {
		w.Add(time.Unix(int64(i), 0), sample(1))
	}
	if s := w.Status(); s.Queued != 60 || s.Dropped != 40 {
		t.Errorf("status %+v, want 60 queued and 40 dropped", s)
	}
}

// Each answer that accepts nothing is an error that has what to do.
func TestRemoteWriteIsRefused(t *testing.T) {
	encrypted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(encrypted.Close)
	for name, test := range map[string]struct {
		code           int
		kind, location string
		want           string
	}{
		"redirect to a login": {302, "text/html", "https://login.example/sign-in?secret=1", `redirects to "https://login.example/sign-in": set url`},
		"page of a login":     {200, "text/html", "", "answers with a page"},
		"expired token":       {401, "text/plain", "", "rejects requests without a login: set bearer_token_file"},
		"no receiver":         {404, "text/plain", "", "--web.enable-remote-write-receiver"},
		"bad data":            {400, "text/plain", "", `answers 400: "some words"`},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", test.kind)
				if test.location != "" {
					w.Header().Set("Location", test.location)
				}
				w.WriteHeader(test.code)
				_, _ = w.Write([]byte("some words"))
			}))
			t.Cleanup(server.Close)
			if err := writer(t, "url: "+server.URL, false).Try(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v, want an error with %q", err, test.want)
			}
		})
	}
	for address, want := range map[string]string{
		"http://127.0.0.1:1": "connection refused", strings.Replace(encrypted.URL, "https", "http", 1): "HTTP request to an HTTPS server", encrypted.URL: "certificate",
	} {
		if err := writer(t, "url: "+address, false).Try(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", address, err, want)
		}
	}
	for _, text := range []string{"tls: {ca_file: /no/such}", "bearer_token_file: /no/such"} {
		if err := writer(t, "url: https://127.0.0.1:1\n"+text, false).Try(t.Context()); err == nil || !strings.Contains(err.Error(), "/no/such") {
			t.Errorf("%s: %v", text, err)
		}
	}
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // then the server notices that the client is gone
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	if err := writer(t, "timeout: 200ms\nurl: "+silent.URL, false).Try(t.Context()); err == nil || errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 200ms") {
		t.Errorf("a silent server: %v", err)
	}
}
