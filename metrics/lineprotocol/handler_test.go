package lineprotocol_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/weirkeeper/weirkeeper/internal/platform/await"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded/tsdbstore"
	"github.com/weirkeeper/weirkeeper/metrics/lineprotocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// serve serves a store until the test ends, and returns the URL for writes.
func serve(t *testing.T, store lineprotocol.Writer, c lineprotocol.Config) string {
	t.Helper()
	c.Log = discard()
	h, err := lineprotocol.New(store, c)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(lineprotocol.Path, h)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return server.URL + lineprotocol.Path
}

// refusal is the body of a response other than 204.
type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Line    int    `json:"line"`
}

// post returns the status, and the refusal if any.
func post(t *testing.T, url, body string, header ...string) (int, refusal) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var why refusal
	if answer.StatusCode != http.StatusNoContent {
		if err := json.NewDecoder(answer.Body).Decode(&why); err != nil {
			t.Errorf("status %d, and no refusal in JSON: %v", answer.StatusCode, err)
		}
	}
	return answer.StatusCode, why
}

// sink stores written samples, and can fail.
type sink struct {
	samples []metrics.Sample
	dropped int // number of samples to drop
	fail    error
}

func (s *sink) Put(_ context.Context, samples []metrics.Sample) (dropped int, err error) {
	if s.fail == nil {
		s.samples = append(s.samples, samples...)
	}
	return s.dropped, s.fail
}

// Dropped samples are not acknowledged. The response has InfluxDB's status and text.
func TestPartialWrite(t *testing.T) {
	status, why := post(t, serve(t, &sink{dropped: 1}, lineprotocol.Config{})+"?bucket=web", "m value=1\nn value=2\n")
	want := "partial write: dropped 1 of 2 points: older than the retention, or rewritten too often"
	if status != http.StatusUnprocessableEntity || why.Code != string(lineprotocol.CodePartial) || why.Message != want {
		t.Errorf("answer %d %+v, want 422 with %q", status, why, want)
	}
}

func TestLines(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	sample := func(name string, value float64, d metrics.Dimensions) metrics.Sample {
		return metrics.Sample{Type: metrics.App, Name: name, Dimensions: d, Time: at, Value: value}
	}
	tests := map[string]struct {
		query, body string
		want        []metrics.Sample
	}{
		"the app is the bucket":   {"?bucket=web&org=o", "requests value=1.5 1700000000000000000", []metrics.Sample{sample("web,requests", 1.5, nil)}},
		"the app is a tag":        {"?bucket=web", "requests,app=shop value=1 1700000000000000000\n", []metrics.Sample{sample("shop,requests", 1, nil)}},
		"tags are dimensions":     {"?bucket=web", "requests,zone=a,host=h\\ 1 value=1 1700000000000000000", []metrics.Sample{sample("web,requests", 1, metrics.Dimensions{"zone": "a", "host": "h 1"})}},
		"fields have names":       {"?bucket=web&precision=s", "http,zone=a value=1,errors=2 1700000000", []metrics.Sample{sample("web,http", 1, metrics.Dimensions{"zone": "a"}), sample("web,http_errors", 2, metrics.Dimensions{"zone": "a"})}},
		"kinds of values":         {"?bucket=web&precision=s", "m a=1i,b=2u,c=true,d=F,e=-1e3 1700000000", []metrics.Sample{sample("web,m_a", 1, nil), sample("web,m_b", 2, nil), sample("web,m_c", 1, nil), sample("web,m_d", 0, nil), sample("web,m_e", -1000, nil)}},
		"microseconds":            {"?bucket=web&precision=us", "m value=1 1700000000000000", []metrics.Sample{sample("web,m", 1, nil)}},
		"milliseconds":            {"?bucket=web&precision=ms", "m value=1 1700000000000", []metrics.Sample{sample("web,m", 1, nil)}},
		"nanoseconds":             {"?bucket=web&precision=ns", "m value=1 1700000000000000000", []metrics.Sample{sample("web,m", 1, nil)}},
		"empty lines, comments":   {"?bucket=web&precision=s", "\r\n# a comment\n\n  m value=1 1700000000\r\n\n", []metrics.Sample{sample("web,m", 1, nil)}},
		"nothing":                 {"?bucket=web", "", nil},
		"a comma in the name":     {"?bucket=web&precision=s", "a\\,b value=1 1700000000", []metrics.Sample{sample("web,a,b", 1, nil)}},
		"two lines of two apps":   {"?precision=s", "m,app=a value=1 1700000000\nm,app=b value=2 1700000000", []metrics.Sample{sample("a,m", 1, nil), sample("b,m", 2, nil)}},
		"before the epoch is one": {"?bucket=web&precision=s", "m value=1 1700000000\nn value=1 -5", []metrics.Sample{sample("web,m", 1, nil), {Type: metrics.App, Name: "web,n", Time: time.Unix(-5, 0), Value: 1}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			store := &sink{}
			if status, why := post(t, serve(t, store, lineprotocol.Config{})+tt.query, tt.body); status != http.StatusNoContent {
				t.Fatalf("status %d, %+v, want 204", status, why)
			}
			if diff := cmp.Diff(tt.want, store.samples); diff != "" {
				t.Errorf("samples (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoTimestampIsNow(t *testing.T) {
	store := &sink{}
	url := serve(t, store, lineprotocol.Config{})
	before := time.Now()
	if status, why := post(t, url+"?bucket=web&precision=ms", "m value=1"); status != http.StatusNoContent {
		t.Fatalf("status %d, %+v", status, why)
	}
	if got := store.samples[0].Time; got.Before(before.Truncate(time.Millisecond)) || got.After(time.Now()) {
		t.Errorf("time %v, want one since %v", got, before)
	}
}

func TestBadLines(t *testing.T) {
	const good = "m value=1 1700000000\n"
	tests := map[string]struct {
		body string
		line int
		want string
	}{
		"string":              {good + `m value="x" 1700000000`, 2, "a string is not a metric value"},
		"string of two lines": {good + good + "m value=\"x\ny\" 1700000000\n", 3, "closing quote"},
		"NaN":                 {"m value=NaN", 1, "unrecognized type"},
		"infinite":            {good + "\n# c\nm value=1e999", 4, "out of range"},
		"integer too large":   {"m value=9223372036854775808i", 1, "out of range"},
		"no field":            {good + "m,zone=a\n", 2, "field"},
		"no measurement":      {",zone=a value=1", 1, "measurement"},
		"tag without value":   {"m,zone= value=1", 1, "tag value"},
		"tag twice":           {"m,zone=a,zone=b value=1", 1, `duplicate tag "zone"`},
		"app twice":           {"m,app=a,app=b value=1", 1, `duplicate tag "app"`},
		"app with a comma":    {`m,app=a\,b value=1`, 1, "want letters, digits"},
		"app with a path":     {"m,app=../x value=1", 1, `app "../x": want letters, digits`},
		"time is no number":   {"m value=1 soon", 1, "timestamp"},
		"time overflows":      {"m value=1 9223372036854775807", 1, "out of range"},
		"two on a line":       {"m value=1 1700000000 m value=2", 1, "unexpected text"},
		"not UTF-8":           {"m\xff value=1", 1, "utf-8"},
		"control character":   {"m\x00 value=1", 1, "column 2"},
		"long line":           {good + "m value=1" + strings.Repeat(" ", 64<<10) + "1", 2, "at most 65536"},
		"in the future":       {good + "m value=1 4000000000", 2, "future"},
		"name too long":       {good + strings.Repeat("m", 1025) + " value=1", 2, "name of 1029 bytes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			store, err := tsdbstore.Open(t.TempDir(), tsdbstore.Config{Log: discard()})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			status, why := post(t, serve(t, store, lineprotocol.Config{})+"?bucket=web&precision=s", tt.body)
			if status != http.StatusBadRequest || why.Code != "invalid" || why.Line != tt.line || !strings.Contains(why.Message, tt.want) {
				t.Errorf("status %d, %+v, want 400, line %d with %q", status, why, tt.line, tt.want)
			}
			if !strings.Contains(why.Message, fmt.Sprintf("line %d: ", tt.line)) {
				t.Errorf("message %q does not name line %d", why.Message, tt.line)
			}
			got, err := store.Window(t.Context(), metrics.Query{Type: metrics.App, Name: ".", Regex: true, To: time.Now()})
			if err != nil || len(got) != 0 {
				t.Errorf("kept %v, %v, want nothing", got, err)
			}
		})
	}
}

func TestRefusedRequests(t *testing.T) {
	gzipped := func(size int) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(bytes.Repeat([]byte("\n"), size))
		_ = w.Close()
		return b.String()
	}
	const limit = 4000
	tests := map[string]struct {
		query, body string
		header      []string
		status      int
		code, want  string
	}{
		"precision":         {"?bucket=web&precision=h", "m value=1", nil, 400, "invalid", "precision"},
		"no app":            {"", "m value=1", nil, 400, "invalid", "app is missing"},
		"bucket with comma": {"?bucket=a,b", "m value=1", nil, 400, "invalid", "bucket"},
		"bucket of a path":  {"?bucket=../x", "m value=1", nil, 400, "invalid", `bucket`},
		"too long":          {"?bucket=web", strings.Repeat("\n", limit+1), nil, 413, "request too large", "4000 bytes"},
		"unpacks too long":  {"?bucket=web", gzipped(1 << 24), []string{"Content-Encoding", "gzip"}, 413, "request too large", "4000 bytes"},
		"not gzip":          {"?bucket=web", "requests value=1", []string{"Content-Encoding", "gzip"}, 400, "invalid", "gzip: invalid header"},
		"gzip cut short":    {"?bucket=web", gzipped(100)[:20], []string{"Content-Encoding", "gzip"}, 400, "invalid", "EOF"},
		"another encoding":  {"?bucket=web", "m value=1", []string{"Content-Encoding", "br"}, 415, "invalid", "br"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			store := &sink{}
			status, why := post(t, serve(t, store, lineprotocol.Config{MaxBody: limit})+tt.query, tt.body, tt.header...)
			if status != tt.status || why.Code != tt.code || !strings.Contains(why.Message, tt.want) || len(store.samples) > 0 {
				t.Errorf("status %d, %+v, %v; want %d, %q with %q, and nothing kept", status, why, store.samples, tt.status, tt.code, tt.want)
			}
		})
	}
	t.Run("too many values", func(t *testing.T) {
		body := strings.Repeat("m a=1,b=1,c=1,d=1\n", 25_001)
		if status, why := post(t, serve(t, &sink{}, lineprotocol.Config{})+"?bucket=web", body); status != 413 || why.Code != "request too large" {
			t.Errorf("status %d, %+v, want 413", status, why)
		}
	})
	t.Run("method", func(t *testing.T) {
		answer, err := http.Get(serve(t, &sink{}, lineprotocol.Config{}))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusMethodNotAllowed || answer.Header.Get("Allow") != "POST" {
			t.Errorf("status %d, Allow %q, want 405 and POST", answer.StatusCode, answer.Header.Get("Allow"))
		}
	})
}

func TestGzip(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, "m value=1 1\nm value=2 2\n")
	_ = w.Close()
	store := &sink{}
	status, why := post(t, serve(t, store, lineprotocol.Config{})+"?bucket=web&precision=s", b.String(), "Content-Encoding", "gzip")
	if status != http.StatusNoContent || len(store.samples) != 2 {
		t.Errorf("status %d, %+v, %d samples, want 204 and 2", status, why, len(store.samples))
	}
}

func TestToken(t *testing.T) {
	tests := map[string]struct {
		header []string
		status int
	}{
		"right":          {[]string{"Authorization", "Token s3cret"}, 204},
		"scheme is free": {[]string{"Authorization", "token  s3cret"}, 204},
		"none":           {nil, 401},
		"wrong":          {[]string{"Authorization", "Token s3creT"}, 401},
		"a part":         {[]string{"Authorization", "Token s3"}, 401},
		"other scheme":   {[]string{"Authorization", "Bearer s3cret"}, 401},
		"no scheme":      {[]string{"Authorization", "s3cret"}, 401},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			store := &sink{}
			status, why := post(t, serve(t, store, lineprotocol.Config{Token: "s3cret"})+"?bucket=web", "m value=1", tt.header...)
			if status != tt.status || (status == 401) != (why.Code == "unauthorized") || (status == 204) != (len(store.samples) == 1) {
				t.Errorf("status %d, %+v, %d samples, want %d", status, why, len(store.samples), tt.status)
			}
		})
	}
	if text := fmt.Sprintf("%v %+v", lineprotocol.Token("s3cret"), lineprotocol.Config{Token: "s3cret"}); strings.Contains(text, "s3cret") {
		t.Errorf("printed: %s", text)
	}
}

func TestStoreErrors(t *testing.T) {
	tests := map[string]struct {
		err    error
		status int
		code   string
		line   int
	}{
		"away":                  {errors.New("away"), 503, "unavailable", 0},
		"late":                  {context.DeadlineExceeded, 503, "unavailable", 0},
		"refused by the owner":  {fmt.Errorf("metrics store: %w", metrics.ErrFuture), 400, "invalid", 0},
		"one sample is refused": {fmt.Errorf("write: %w", &metrics.SampleError{Index: 1, Name: "web,n", Err: metrics.ErrMalformed}), 400, "invalid", 3},
		"an unknown sample":     {&metrics.SampleError{Index: 7, Name: "web,n", Err: metrics.ErrMalformed}, 400, "invalid", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			status, why := post(t, serve(t, &sink{fail: tt.err}, lineprotocol.Config{})+"?bucket=web", "m value=1\n\nn value=2\n")
			if status != tt.status || why.Code != tt.code || why.Line != tt.line || why.Message == "" {
				t.Errorf("status %d, %+v, want %d, %q, line %d", status, why, tt.status, tt.code, tt.line)
			}
		})
	}
}

// stall sends a request whose body does not come, on a connection of its own.
func stall(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), lineprotocol.Path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(await.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "POST %s?bucket=web HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", lineprotocol.Path); err != nil {
		t.Fatal(err)
	}
	// The server sends 100 when it starts to read, so the slot is in use.
	line := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(conn, line); err != nil || !strings.Contains(string(line), "100 Continue") {
		t.Fatalf("%q, %v", line, err)
	}
	return conn
}

// The number of waiting bodies is bounded. A connection that ends makes room.
func TestTooManyWriters(t *testing.T) {
	url := serve(t, &sink{}, lineprotocol.Config{Timeout: await.Patience})
	var conns []net.Conn
	for range 8 {
		conns = append(conns, stall(t, url))
	}
	if status, why := post(t, url+"?bucket=web", "m value=1"); status != http.StatusTooManyRequests || why.Code != "too many requests" {
		t.Errorf("status %d, %+v, want 429", status, why)
	}
	for _, conn := range conns {
		conn.Close()
	}
	await.True(t, "a write is accepted", func() bool {
		status, _ := post(t, url+"?bucket=web", "m value=1")
		return status == http.StatusNoContent
	})
}

// A body that misses the deadline is refused.
func TestSlowWriter(t *testing.T) {
	conn := stall(t, serve(t, &sink{}, lineprotocol.Config{Timeout: 500 * time.Millisecond}))
	if answer, err := io.ReadAll(conn); err != nil || !strings.Contains(string(answer), "408 Request Timeout") {
		t.Errorf("answer %q, %v, want 408", answer, err)
	}
}

func TestConfig(t *testing.T) {
	_, err := lineprotocol.New(&sink{}, lineprotocol.Config{MaxBody: -1, Timeout: -1})
	for _, word := range []string{"bound", "timeout", "logger"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("New = %v, want an error that names the %s", err, word)
		}
	}
}
