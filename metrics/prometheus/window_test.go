package prometheus_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/value"

	"github.com/weirkeeper/weirkeeper/internal/platform/promtest"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/prometheus"
	"github.com/weirkeeper/weirkeeper/metrics/source"
	"github.com/weirkeeper/weirkeeper/metrics/source/sourcetest"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
)

// step is the distance of the stored points and of those of the queries.
const step = 15 * time.Second

// open opens a source by the settings of a service file.
func open(t testing.TB, text string) source.Source {
	t.Helper()
	kind := prometheus.Kind()
	settings := kind.New()
	if err := yaml.Unmarshal([]byte(text), settings); err != nil {
		t.Fatal(err)
	}
	if found := settings.Check(); len(found) > 0 {
		t.Fatal(found)
	}
	s, err := kind.Open(source.Site{Name: "it", Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// query returns the compiled query of a text over a window that ends at a time.
func query(t testing.TB, text string, end time.Time, window time.Duration) metrics.Query {
	t.Helper()
	q, found := prometheus.Kind().Compile(source.Form{Query: text, Step: step}, window)
	if len(found) > 0 {
		t.Fatal(found)
	}
	return metrics.Query{
		Source: "prom", Text: q.Text, Step: q.Step, Lag: q.Lag, Whole: q.Whole, From: end.Add(-window), To: end,
		Dimensions: metrics.VariablesOf(text, map[string]string{"app": "shop", "pool": "web", "cluster": "c"}),
	}
}

// requests returns counters of two zones: one and three requests a second.
func requests(begin, end time.Time) (all []promtest.Series) {
	for zone, rate := range map[string]float64{"a": 1, "b": 3} {
		s := promtest.Series{Labels: map[string]string{"__name__": "requests_total", "app": "shop", "zone": zone}}
		for at := begin; !at.After(end); at = at.Add(step) {
			s.Times, s.Values = append(s.Times, at), append(s.Values, rate*at.Sub(begin).Seconds())
		}
		all = append(all, s)
	}
	return all
}

// servers starts the real servers.
func servers(t *testing.T) map[string]*promtest.Server {
	return map[string]*promtest.Server{"prometheus": promtest.Storage(t), "victoria-metrics": promtest.Victoria(t)}
}

// The windows of real servers have a series for each group of the answer, with points at multiples of the step.
func TestWindowsOfRealServers(t *testing.T) {
	for name, server := range servers(t) {
		t.Run(name, func(t *testing.T) {
			end := time.Now().Truncate(step)
			begin := end.Add(-time.Hour)
			server.Write(requests(begin, end)...)
			s := open(t, "url: "+server.URL)
			const text = `sum by (zone) (rate(requests_total{app="$app"}[1m]))`
			got, err := s.Window(t.Context(), query(t, text, end.Add(7*time.Second), 10*time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			var want []metrics.Series
			for _, zone := range []string{"a", "b"} {
				one := metrics.Series{Dimensions: metrics.Dimensions{"zone": zone}}
				for at := end.Add(-585 * time.Second); !at.After(end); at = at.Add(step) {
					one.Times, one.Values = append(one.Times, at.Unix()), append(one.Values, map[string]float64{"a": 1, "b": 3}[zone])
				}
				want = append(want, one)
			}
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-6 })
			if diff := cmp.Diff(want, got, near); diff != "" {
				t.Errorf("window (-want +got):\n%s", diff)
			}
			sourcetest.Run(t, sourcetest.Subject{
				Open: func() source.Source { return open(t, "url: "+server.URL) }, Gone: open(t, "url: http://127.0.0.1:1"),
				Query: func(empty bool, end time.Time, window time.Duration) metrics.Query {
					text := `sum by (zone) (rate(requests_total{zone=~"a|b"}[1m]))`
					if empty {
						text = "nosuch_total"
					}
					q := query(t, text, end, 20*step)
					q.From, q.Source = end.Add(-window), "it"
					return q
				},
				Step: step, End: end,
			})
		})
	}
}

// A forecast reads its slots from a real server, and raises the request before the load rises.
func TestForecastFromAServer(t *testing.T) {
	const slot = 5 * time.Minute
	end := time.Now().UTC().Truncate(24 * time.Hour).Add(8*time.Hour + 10*time.Minute)
	begin := end.Add(-14 * 24 * time.Hour).Truncate(24 * time.Hour)
	load := promtest.Series{Labels: map[string]string{"__name__": "load"}}
	for at := begin; at.Before(end); at = at.Add(slot) {
		hour := float64(at.Hour()) + float64(at.Minute())/60
		load.Times = append(load.Times, at)
		load.Values = append(load.Values, 200+800*min(max(hour-8, 0), 1, max(19-hour, 0))+float64(at.Minute()*7%11))
	}
	for name, server := range servers(t) {
		t.Run(name, func(t *testing.T) {
			server.Write(load)
			q := query(t, "sum(load)", end, 10*time.Minute)
			q.From, q.Step, q.Resolution, q.Lag = begin, slot, slot, 0
			got, err := open(t, "url: "+server.URL).Window(t.Context(), q)
			if err != nil || len(got) != 1 || len(got[0].Times) < 13*288 {
				t.Fatalf("%d series, %v", len(got), err)
			}
			ctx, why := signals.WithExplanation(t.Context())
			r, err := (&builtin.Forecast{}).Value(ctx, signals.Input{
				Now: end, Setpoint: 0.9, Metrics: map[string]signals.Series{"load": {Times: got[0].Times, Values: got[0].Values, Counts: got[0].Counts}},
				Parameters: signals.Parameters{"unit": map[string]any{"cpus": 0.01}, "launch": "15m", "time_zone": "UTC"},
			})
			// The load is 333 now, and 600 at 08:30.
			if cpus, _ := r.Get(resource.CPUs); err != nil || cpus < 4.8 || cpus > 7 {
				t.Errorf("%v, %v, want 5 to 7 cpus: %s", r, err, why())
			}
		})
	}
}

// A stale marker, which Prometheus stores when a target no longer has a series, ends the series at once.
func TestStaleMarkersEndASeries(t *testing.T) {
	end := time.Now().Truncate(step)
	of := func(name string, last float64) promtest.Series {
		s := promtest.Series{Labels: map[string]string{"__name__": name}}
		for i := range 8 {
			s.Times, s.Values = append(s.Times, end.Add(time.Duration(i-7)*step)), append(s.Values, 1)
		}
		s.Values[5], s.Values[6], s.Values[7] = last, last, last
		return s
	}
	for name, server := range servers(t) {
		t.Run(name, func(t *testing.T) {
			server.Write(of("gone", math.Float64frombits(value.StaleNaN)), of("there", 1))
			s := open(t, "url: "+server.URL)
			for metric, want := range map[string]time.Time{"gone": end.Add(-3 * step), "there": end} {
				got, err := s.Window(t.Context(), query(t, metric, end, 10*time.Minute))
				if err != nil || len(got) != 1 || got[0].Times[len(got[0].Times)-1] != want.Unix() {
					t.Errorf("%s: %v, %v; want a last point at %d", metric, got, err, want.Unix())
				}
			}
		})
	}
}

// An error of a query has the query and the words of the server.
func TestServersRefuse(t *testing.T) {
	now := time.Now().Truncate(step)
	for name, server := range map[string]*promtest.Server{
		"prometheus": promtest.Storage(t, "--query.max-samples=1000"), "victoria-metrics": promtest.Victoria(t),
	} {
		t.Run(name, func(t *testing.T) {
			server.Write(requests(now.Add(-20*time.Minute), now)...)
			s := open(t, "url: "+server.URL)
			refused := func(text string, step time.Duration, want string) {
				q := query(t, text, now, 15*time.Minute)
				q.Step = step
				series, err := s.Window(t.Context(), q)
				if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf("source it: query %q", text)) {
					t.Errorf("%s: %v, %v; want %q with the query", text, series, err, want)
				}
			}
			if name == "prometheus" {
				refused("sum(rate(requests_total[1m])", step, "is invalid: 1:29: parse error: unclosed left parenthesis")
				refused("rate(requests_total)", step, "is invalid: 1:6: parse error: expected type range vector")
				refused("requests_total", time.Second, "cannot be evaluated: query processing would load too many samples")
			} else {
				refused("sum(rate(requests_total[1m])", step, "is invalid: error when executing query")
				refused("requests_total + on() requests_total", step, "failed: error when executing query")
			}
			for _, text := range []string{"nosuch_total", "requests_total / 0"} {
				if series, err := s.Window(t.Context(), query(t, text, now, 15*time.Minute)); err != nil || len(series) > 0 {
					t.Errorf("%s: %v, %v; want no series", text, series, err)
				}
			}
		})
	}
}

// matrix returns an answer with one point in each of n series.
func matrix(n int, value string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`{"metric":{"i":"%d"},"values":[[%d,%q]]}`, i, time.Now().Unix(), value))
	}
	return `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(all, ",") + `]}}`
}

// An incomplete answer is an error with its cause, and never an empty window.
func TestAnswersThatAreNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	encrypted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(encrypted.Close)
	answer := func(code int, kind, body string, more ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			for i := 0; i+1 < len(more); i += 2 {
				w.Header().Set(more[i], more[i+1])
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}
	}
	const json = "application/json"
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		url     string
		want    string
	}{
		"redirect to a login": {handler: answer(302, "text/html", "", "Location", "https://login.example/sign-in?secret=1"), want: `redirects to "https://login.example/sign-in"`},
		"page of a login":     {handler: answer(200, "text/html", "<html>Sign in</html>"), want: `answers 200 with "text/html", not with JSON: "<html>Sign in</html>"`},
		"rejected token":      {handler: answer(401, "text/plain", "no"), want: "the token in " + file + ": replace it (401)"},
		"proxy without it":    {handler: answer(502, "text/html", "<html>Bad Gateway</html>"), want: "answers 502"},
		"http for https":      {url: "http://" + encrypted.Listener.Addr().String(), want: "Client sent an HTTP request to an HTTPS server"},
		"https for http":      {url: "https", want: "HTTP"},
		"warnings":            {handler: answer(200, json, `{"status":"success","warnings":["store-1 does not answer"],"data":{"resultType":"matrix","result":[]}}`), want: "may be partial: store-1 does not answer"},
		"vector":              {handler: answer(200, json, `{"status":"success","data":{"resultType":"vector","result":[]}}`), want: "the answer is a vector"},
		"many series":         {handler: answer(200, json, matrix(10_000, "1")), want: "has 10000 series, at most 2000"},
		"garbage":             {handler: answer(200, json, `{"status":`), want: "failed"},
		"overload":            {handler: answer(503, json, `{"status":"error","errorType":"timeout","error":"query timed out"}`), want: "takes too long: query timed out"},
		"unprocessable":       {handler: answer(422, json, `{"status":"error","errorType":"execution","error":"many-to-many matching"}`), want: "cannot be evaluated: many-to-many matching"},
		"behind":              {handler: answer(200, json, matrix(1, "1"), "Date", time.Now().Add(-5*time.Minute).UTC().Format(http.TimeFormat)), want: "the clock of the server differs by -5m"},
		"ahead":               {handler: answer(200, json, matrix(1, "1"), "Date", time.Now().Add(5*time.Minute).UTC().Format(http.TimeFormat)), want: "the clock of the server differs by "},
		"too long":            {handler: answer(200, json, `{"status":"success","data":{"resultType":"matrix","result":[`+strings.Repeat(" ", 65<<20)+`]}}`), want: "more than 64 MiB"},
		"silent": {handler: func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // then the server notices that the client is gone
			<-r.Context().Done()
		}, want: "no answer within 300ms"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			t.Cleanup(server.Close)
			url, timeout := server.URL, "20s"
			switch {
			case test.url == "https":
				url = "https" + strings.TrimPrefix(server.URL, "http")
			case test.url != "":
				url = test.url
			}
			if name == "silent" {
				timeout = "300ms"
			}
			s := open(t, fmt.Sprintf("url: %s\nbearer_token_file: %s\ntimeout: %s", url, file, timeout))
			series, err := s.Window(t.Context(), query(t, "up", time.Now(), 10*time.Minute))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, %v; want an error with %q", series, err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error has a secret: %v", err)
			}
		})
	}
}

// A value that is not finite is no point.
func TestValuesThatAreNotFinite(t *testing.T) {
	for _, value := range []string{"NaN", "+Inf", "-Inf"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(matrix(1, value)))
		}))
		defer server.Close()
		if got, err := open(t, "url: "+server.URL).Window(t.Context(), query(t, "up", time.Now(), 10*time.Minute)); err != nil || len(got) > 0 {
			t.Errorf("%s: %v, %v; want no series", value, got, err)
		}
	}
}

// The token goes with each request, read again, and to no other host.
func TestTokenIsReadForEachRequest(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	var seen atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Get("Authorization"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(matrix(1, "1")))
	}))
	defer server.Close()
	s := open(t, fmt.Sprintf("url: %s\nbearer_token_file: %s", server.URL, file))
	for _, token := range []string{"one", "two"} {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Window(t.Context(), query(t, "up", time.Now(), 10*time.Minute)); err != nil || seen.Load() != "Bearer "+token {
			t.Errorf("%v, %v; want token %s", seen.Load(), err, token)
		}
	}
}

// An encrypted server is trusted by the configured authority only.
func TestEncryptedServer(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(matrix(1, "1")))
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	q := query(t, "up", time.Now(), 10*time.Minute)
	if got, err := open(t, fmt.Sprintf("url: %s\ntls: {ca_file: %s, server_name: example.com}", server.URL, file)).Window(t.Context(), q); err != nil || len(got) != 1 {
		t.Errorf("with its authority: %v, %v", got, err)
	}
	if _, err := open(t, "url: "+server.URL).Window(t.Context(), q); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without its authority: %v", err)
	}
	for files, want := range map[string]string{"ca_file: " + file + "x": "no such file", "ca_file: /dev/null": "has no certificate"} {
		settings := prometheus.Kind().New()
		if err := yaml.Unmarshal(fmt.Appendf(nil, "url: %s\ntls: {%s}", server.URL, files), settings); err != nil {
			t.Fatal(err)
		}
		if _, err := prometheus.Kind().Open(source.Site{Name: "it", Settings: settings}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", files, err, want)
		}
	}
}

func TestSettingsAndQueriesAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"url: prometheus:9090":                                                "want http(s)://",
		"url: http://u:p@host":                                                "contains a password",
		"url: http://host/?x=1":                                               "has a query",
		"{url: http://host, tls: {ca_file: a}}":                               "without encryption",
		"{url: https://host, tls: {cert_file: a}}":                            "give both, or neither",
		"{url: http://host, user: a}":                                         "needs password_file",
		"{url: http://host, user: a, password_file: b, bearer_token_file: c}": "keep one way",
		"{url: http://host, timeout: 2m}":                                     "at most 1m",
	} {
		settings := prometheus.Kind().New()
		if err := yaml.Unmarshal([]byte(text), settings); err != nil {
			t.Fatal(err)
		}
		if found := fmt.Sprint(settings.Check()); !strings.Contains(found, want) {
			t.Errorf("%s: %s, want %q", text, found, want)
		}
	}
	for _, test := range []struct {
		form   source.Form
		window time.Duration
		want   string
	}{
		{source.Form{}, time.Hour, "query: is missing"},
		{source.Form{Query: "up{app=$app}"}, time.Hour, "outside of quotes"},
		{source.Form{Query: "up", Step: 1500 * time.Millisecond}, time.Hour, "whole seconds"},
		{source.Form{Query: "up", Step: 2 * time.Hour}, time.Hour, "has no two points"},
		{source.Form{Query: "up"}, 30 * 24 * time.Hour, "want 3m56s or more"},
		{source.Form{Query: "up", Lag: new(time.Hour)}, time.Hour, "less than the range"},
		{source.Form{Query: strings.Repeat("x", 20_000)}, time.Hour, "at most 16384"},
	} {
		_, found := prometheus.Kind().Compile(test.form, test.window)
		if !strings.Contains(fmt.Sprint(found), test.want) {
			t.Errorf("%+v: %v, want %q", test.form, found, test.want)
		}
	}
	for text, whole := range map[string]bool{"up": false, "up @ end()": true, "up @start ()": true, "start": false} {
		if q, _ := prometheus.Kind().Compile(source.Form{Query: text}, time.Hour); q.Whole != whole {
			t.Errorf("%s: whole is %v", text, q.Whole)
		}
	}
}
