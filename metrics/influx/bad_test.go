package influx_test

import (
	"bytes"
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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/influx"
)

// lines writes line protocol as an application does; replacements are pairs.
func lines(t testing.TB, c influx.Config, text string, replace ...string) {
	t.Helper()
	text = strings.NewReplacer(replace...).Replace(text)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL+"/api/v2/write?org=&bucket="+c.Bucket, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Token "+string(c.Token))
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() // only read
	if response.StatusCode != http.StatusNoContent {
		body, _ := io.ReadAll(response.Body)
		t.Fatalf("write: %s %s", response.Status, body)
	}
}

// TestRefusals: each mistake in the configuration has its own error and never returns an empty window.
func TestRefusals(t *testing.T) {
	t.Parallel()
	good := config(t)
	database, _, _ := strings.Cut(good.Bucket, "/")
	shared.Do(t, fmt.Sprintf("CREATE USER nobody%s WITH PASSWORD 'pw'", database))
	tests := map[string]struct {
		change func(*influx.Config)
		want   error
	}{
		"wrong token":         {func(c *influx.Config) { c.Token = "admin:other" }, influx.ErrUnauthorized},
		"unknown user":        {func(c *influx.Config) { c.Token = "who:s3cret" }, influx.ErrUnauthorized},
		"token of InfluxDB 2": {func(c *influx.Config) { c.Token = "c2VjcmV0" }, influx.ErrUnauthorized},
		"no token":            {func(c *influx.Config) { c.Token = "" }, influx.ErrUnauthorized},
		"user without rights": {func(c *influx.Config) { c.Token = influx.Token("nobody" + database + ":pw") }, influx.ErrUnauthorized},
		"missing database":    {func(c *influx.Config) { c.Bucket = "absent/autogen" }, influx.ErrNoBucket},
		"missing policy":      {func(c *influx.Config) { c.Bucket = database + "/absent" }, influx.ErrNoBucket},
		"nobody listens":      {func(c *influx.Config) { c.URL = "http://127.0.0.1:1" }, influx.ErrUnreachable},
		"another path":        {func(c *influx.Config) { c.URL += "/metrics" }, influx.ErrNoBucket},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := good
			tt.change(&c)
			store, at := open(t, c), now()
			for _, q := range []metrics.Query{hour(metrics.System, "m", at), {Type: metrics.App, Name: "m", Regex: true, From: at, To: at}} {
				if got, err := store.Window(t.Context(), q); !errors.Is(err, tt.want) || leaks(err, c.Token) {
					t.Errorf("Window = %v, %v, want %v", got, err, tt.want)
				}
			}
			if err := store.Write(t.Context(), []metrics.Sample{{Type: metrics.System, Name: "m", Time: at}}); !errors.Is(err, tt.want) || leaks(err, c.Token) {
				t.Errorf("Write = %v, want %v", err, tt.want)
			}
		})
	}
}

// leaks reports whether an error contains the token or its password.
func leaks(err error, token influx.Token) bool {
	_, password, _ := strings.Cut(string(token), ":")
	text := fmt.Sprintf("%v %+v %#v", err, err, err)
	return token != "" && strings.Contains(text, string(token)) || password != "" && strings.Contains(text, password)
}

func TestTokenIsNotShown(t *testing.T) {
	t.Parallel()
	c := influx.Config{URL: "http://127.0.0.1:8086", Bucket: "b", Token: "top-secret"}
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("config", "config", c, "token", c.Token)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("config", "config", c, "token", c.Token)
	text := fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c.Token, c.Token) + string(asJSON) + log.String()
	if strings.Contains(text, "top-secret") {
		t.Errorf("the token is in %s", text)
	}
}

func TestValidate(t *testing.T) {
	good := influx.Config{URL: "http://h:8086/influx", Bucket: "b", Token: "t"}
	tests := map[string]struct {
		change func(*influx.Config)
		want   []string // of the error; empty: no error
	}{
		"good":            {func(*influx.Config) {}, nil},
		"everything":      {func(c *influx.Config) { *c = influx.Config{} }, []string{"URL", "bucket"}},
		"no scheme":       {func(c *influx.Config) { c.URL = "localhost:8086" }, []string{"http://HOST:PORT"}},
		"another scheme":  {func(c *influx.Config) { c.URL = "ftp://h" }, []string{"http://HOST:PORT"}},
		"a user":          {func(c *influx.Config) { c.URL = "http://u:hidden@h" }, []string{"as the token"}},
		"a bad user":      {func(c *influx.Config) { c.URL = "http://u:hidden%zz@h" }, []string{"URL"}},
		"a query":         {func(c *influx.Config) { c.URL += "?q=hidden" }, []string{"more than a path"}},
		"a line break":    {func(c *influx.Config) { c.Token = "hidden\n" }, []string{"line break"}},
		"negative bounds": {func(c *influx.Config) { c.Timeout, c.MaxBytes, c.MaxPoints, c.MaxSeries = -1, -1, -1, -1 }, []string{"timeout", "max_bytes", "max_points", "max_series"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := good
			tt.change(&c)
			_, err := influx.New(c)
			if (err != nil) != (tt.want != nil) || strings.Contains(fmt.Sprint(err), "hidden") {
				t.Errorf("New = %v, want an error with %q", err, tt.want)
			}
			for _, want := range tt.want {
				if !strings.Contains(fmt.Sprint(err), want) {
					t.Errorf("New = %v, want %q in it", err, want)
				}
			}
		})
	}
}

// small returns a window of a few points, and its query.
func small(t *testing.T) (influx.Config, metrics.Query, []metrics.Series) {
	t.Helper()
	c, at := config(t), now()
	store := open(t, c)
	for i := range 3 {
		write(t, store, metrics.Sample{
			Type: metrics.App, Name: "web,requests", Dimensions: metrics.Dimensions{"zone": fmt.Sprint(i)}, Time: at.Add(-time.Minute), Value: 1.5,
		})
	}
	q := hour(metrics.App, "web,requests", at)
	want, err := store.Window(t.Context(), q)
	if err != nil || len(want) != 3 {
		t.Fatalf("%d series, %v", len(want), err)
	}
	return c, q, want
}

// TestTruncatedResponse cuts the connection at every point of a response. The window is complete because the store repeats
// the request.
func TestTruncatedResponse(t *testing.T) {
	t.Parallel()
	c, q, want := small(t)
	measured := c
	p := through(t, &measured, whole)
	if _, err := open(t, measured).Window(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	size := int(p.answered.Load())
	var wg sync.WaitGroup
	turns := make(chan struct{}, 64)
	for n := 0; n < size; n += 3 {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			c := c
			through(t, &c, func(connection int, from io.Reader, to net.Conn) {
				if connection == 0 {
					from = io.LimitReader(from, int64(n))
				}
				_, _ = io.Copy(to, from)
			})
			store, err := influx.New(c)
			if err != nil {
				t.Error(err)
				return
			}
			defer store.Close()
			got, err := store.Window(t.Context(), q)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("cut behind %d of %d bytes: %v (-want +got):\n%s", n, size, err, diff)
			}
		})
	}
	wg.Wait()
}

// TestInvalidResponse: a response that is invalid each time is an error.
func TestInvalidResponse(t *testing.T) {
	t.Parallel()
	c, q, _ := small(t)
	garble := func(old, new string) func(int, io.Reader, net.Conn) {
		return func(_ int, from io.Reader, to net.Conn) {
			answer := make([]byte, 0, 64<<10)
			for len(answer) < cap(answer) {
				n, err := from.Read(answer[len(answer):cap(answer)])
				begin := len(answer)
				answer = answer[:begin+n]
				if _, err := to.Write(bytes.ReplaceAll(answer[begin:], []byte(old), []byte(new))); err != nil {
					return
				}
				if err != nil {
					return
				}
			}
		}
	}
	tests := map[string]struct {
		spoil func(int, io.Reader, net.Conn)
		want  error
	}{
		"cut in the middle":  {func(_ int, from io.Reader, to net.Conn) { _, _ = io.CopyN(to, from, 400) }, influx.ErrUnreachable},
		"closed at once":     {func(_ int, _ io.Reader, to net.Conn) {}, influx.ErrUnreachable},
		"not a number":       {garble(",1.5]", ",NaN]"), influx.ErrBadAnswer},
		"another century":    {garble(`"values":[[1`, `"values":[[9`), influx.ErrBadAnswer},
		"no columns":         {garble("columns", "colonns"), influx.ErrBadAnswer},
		"text":               {garble(",1.5]", `,"1"]`), influx.ErrBadAnswer},
		"a quote":            {garble(",1.5]", `,"1.]`), influx.ErrBadAnswer},
		"the end is missing": {garble("]]}]}]}", "]]}]}] "), influx.ErrUnreachable},
		"not HTTP":           {garble("HTTP/1.1 200", "SMTP/1.1 200"), influx.ErrUnreachable},
		"it answers 503":     {garble("200 OK", "503 NO"), nil},
		"no chunks":          {garble("Transfer-Encoding: chunked", "Transfer-Encodink: chunked"), influx.ErrBadAnswer},
		"another dimension":  {garble(`"zone"`, `"zine"`), influx.ErrBadAnswer},
		"of another metric":  {garble(`"requests"`, `"requestz"`), influx.ErrBadAnswer},
		"an endless dribble": {func(_ int, from io.Reader, to net.Conn) { dribble(from, to) }, context.DeadlineExceeded},
		"nothing comes":      {func(_ int, from io.Reader, _ net.Conn) { _, _ = io.Copy(io.Discard, from) }, context.DeadlineExceeded},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := c
			c.Timeout = 3 * time.Second
			plain(t, &c, tt.spoil)
			q := q
			q.Dimensions = metrics.Dimensions{"zone": "1"}
			got, err := open(t, c).Window(t.Context(), q)
			if err == nil || got != nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("Window = %v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

// dribble forwards one byte at a time.
func dribble(from io.Reader, to net.Conn) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	one := make([]byte, 1)
	for {
		if _, err := io.ReadFull(from, one); err != nil {
			return
		}
		<-tick.C
		if _, err := to.Write(one); err != nil {
			return
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	good, q, _ := small(t)
	regex := q
	regex.Name, regex.Regex = "no match", true
	tests := map[string]struct {
		change func(*influx.Config)
		q      metrics.Query
	}{
		"bytes":                {func(c *influx.Config) { c.MaxBytes = 100 }, q},
		"points":               {func(c *influx.Config) { c.MaxPoints = 2 }, q},
		"series":               {func(c *influx.Config) { c.MaxSeries = 2 }, q},
		"series of expression": {func(c *influx.Config) { c.MaxSeries = 2 }, regex},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := good
			tt.change(&c)
			if got, err := open(t, c).Window(t.Context(), tt.q); !errors.Is(err, influx.ErrTooLarge) {
				t.Errorf("Window = %v, %v, want ErrTooLarge", got, err)
			}
		})
	}
}

// TestRetries: only temporary errors are retried.
func TestRetries(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answers []func(http.ResponseWriter)
		tries   int64
		ok      bool
	}{
		"at once":            {nil, 1, true},
		"busy":               {[]func(http.ResponseWriter){respond(429, ""), respond(503, "")}, 3, true},
		"asks to be left":    {[]func(http.ResponseWriter){func(w http.ResponseWriter) { w.Header().Set("Retry-After", "1"); w.WriteHeader(429) }}, 2, true},
		"a timeout":          {[]func(http.ResponseWriter){respond(500, "timeout")}, 2, true},
		"all the time":       {[]func(http.ResponseWriter){respond(502, ""), respond(502, ""), respond(502, ""), respond(502, "")}, 4, false},
		"bad request":        {[]func(http.ResponseWriter){respond(400, "unable to parse")}, 1, false},
		"wrong token":        {[]func(http.ResponseWriter){respond(401, "who is t0ken?")}, 1, false},
		"no bucket":          {[]func(http.ResponseWriter){respond(500, "no database")}, 1, false},
		"redirect":           {[]func(http.ResponseWriter){func(w http.ResponseWriter) { w.Header().Set("Location", "http://127.0.0.1:1/"); w.WriteHeader(307) }}, 1, false},
		"no InfluxDB":        {[]func(http.ResponseWriter){respond(200, "welcome")}, 1, false},
		"a lie about itself": {[]func(http.ResponseWriter){respond(418, `{"StatusCode": 0, "Header": null}`)}, 2, true},
		"a very long error":  {[]func(http.ResponseWriter){respond(400, strings.Repeat("t0ken ", 1<<20))}, 1, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tried atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if n := int(tried.Add(1)); n <= len(tt.answers) {
					tt.answers[n-1](w)
					return
				}
				w.WriteHeader(http.StatusNoContent)
			}))
			defer server.Close()
			store := open(t, influx.Config{URL: server.URL, Bucket: "b", Token: "t0ken"})
			defer store.Close()
			err := store.Write(t.Context(), []metrics.Sample{{Type: metrics.System, Name: "m", Time: time.Now()}})
			if (err == nil) != tt.ok || tried.Load() != tt.tries || leaks(err, "t0ken") || len(fmt.Sprint(err)) > 2000 {
				t.Errorf("Write = %v after %d tries, want %d", err, tried.Load(), tt.tries)
			}
		})
	}
}

// respond responds with a status and a text.
func respond(status int, text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if strings.HasPrefix(text, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
}

// TestCancel: a canceled caller does not wait.
func TestCancel(t *testing.T) {
	t.Parallel()
	query, release := make(chan struct{}, 8), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		query <- struct{}{}
		<-release
	}))
	defer server.Close()
	defer close(release)
	store := open(t, influx.Config{URL: server.URL, Bucket: "b"})
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error)
	go func() {
		_, err := store.Window(ctx, hour(metrics.System, "m", now()))
		failed <- err
	}()
	<-query
	cancel(gone)
	if err := <-failed; !errors.Is(err, context.Canceled) && !errors.Is(err, gone) {
		t.Errorf("Window = %v, want what it was canceled for", err)
	}
}

// TestManyRequests: a large write takes several bounded requests. If one fails, the error has the number of stored
// samples.
func TestManyRequests(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1) > 2 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	store := open(t, influx.Config{URL: server.URL, Bucket: "b"})
	samples := make([]metrics.Sample, 25_000)
	for i := range samples {
		samples[i] = metrics.Sample{Type: metrics.System, Name: "m", Time: time.Now()}
	}
	write(t, store, samples[:20_000]...)
	if got := requests.Load(); got != 2 {
		t.Errorf("20000 samples in %d requests, want 2", got)
	}
	requests.Store(0)
	err := store.Write(t.Context(), samples)
	if e, ok := errors.AsType[*influx.WriteError](err); !ok || e.Kept != 20_000 || e.Samples != 25_000 {
		t.Errorf("Write = %v, want a WriteError with 20000 kept", err)
	}
	store.Close()
}
