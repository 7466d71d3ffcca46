package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
)

// withSources returns the problems of a service file with these sources, and of a pool file with one metric.
func withSources(sources, metric string) (Service, Pool, error) {
	pool := "resource_groups: [{local: {name: blue, min: 1, max: 3, machine: {cpus: 1, mem: 1024}}}]\n" +
		"scaling_limits: {min_capacity: 1, max_capacity: 3, max_weight_to_add: 3, max_weight_to_remove: 3, max_tasks_to_kill: inf}\n" +
		"autoscale_signals:\n  - {app: shop, name: requests, version: v1, required_metrics: [" + metric + "]}\n"
	return Files{
		Cluster: "c", Pool: "web", Service: File{Path: "/etc/weir/weir.yaml", Text: []byte(sources)}, PoolIn: File{Path: "/etc/weir/c/web.yaml", Text: []byte(pool)},
	}.Decode()
}

const prom = `sources: {prom: {prometheus: {url: "http://127.0.0.1:9090", bearer_token_file: keys/prom}}}`

func TestWindowsOfSources(t *testing.T) {
	s, p, err := withSources(prom, `{name: rps, source: prom, query: 'sum(rate(x{app="$app"}[1m]))', range: 20m, step: 30s, lag: 5s}`)
	if err != nil {
		t.Fatal(err)
	}
	want := ask.Window{Name: "rps", Source: "prom", Query: `sum(rate(x{app="$app"}[1m]))`, Range: 20 * time.Minute, MaxAge: 20 * time.Minute, Step: 30 * time.Second, Lag: 5 * time.Second}
	if got := Autoscaler(s, p).Apps[0].Windows[0]; got != want {
		t.Errorf("window %+v, want %+v", got, want)
	}
	if sources, err := s.OpenSources(); err != nil || sources["prom"] == nil {
		t.Errorf("sources %v, %v", sources, err)
	}
	if shown, err := json.Marshal(Show(s, p, Harmonizer{})); err != nil || !strings.Contains(string(shown), `"sources":{"prom":{"prometheus":{"url":"http://127.0.0.1:9090","bearer_token_file":"/etc/weir/keys/prom"`) {
		t.Errorf("shown as %s, %v", shown, err)
	}
}

const watch = `sources: {cw: {cloudwatch: {region: eu-west-1}}}`

func TestMetricsOfCloudWatch(t *testing.T) {
	s, p, err := withSources(watch, `{name: queue, source: cw, metric: {namespace: AWS/SQS, name: N, dimensions: {QueueName: orders}, stat: Maximum}, range: 30m, lag: 2m}`)
	if err != nil {
		t.Fatal(err)
	}
	want := ask.Window{Name: "queue", Source: "cw", Query: `{"namespace":"AWS/SQS","name":"N","dimensions":{"QueueName":"orders"},"stat":"Maximum"}`,
		Range: 30 * time.Minute, MaxAge: 30 * time.Minute, Step: time.Minute, Lag: 3 * time.Minute}
	if got := Autoscaler(s, p).Apps[0].Windows[0]; got != want {
		t.Errorf("window %+v, want %+v", got, want)
	}
	if sources, err := s.OpenSources(); err != nil || sources["cw"] == nil {
		t.Errorf("sources %v, %v", sources, err)
	}
}

// A file of sources alone has no other block.
func TestFileOfSources(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sources.yaml")
	for text, want := range map[string]string{
		watch: "", "telemetry: {remote_write: {url: \"http://127.0.0.1:9090/api/v1/write\"}}": "", watch + "\naws: {region: eu-west-1}": "sources.yaml:2: aws: is not for this file: want sources and telemetry only",
		"sources: {cw: {cloudwatch: {region: x}}}": `region: is "x"`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := SourcesOf(path); (err == nil) != (want == "") || err == nil && got != text || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := SourcesOf(path + "x"); err == nil {
		t.Error("a missing file is read")
	}
}

// The block telemetry has the checks of a source, and paths relative to its file.
func TestTelemetry(t *testing.T) {
	s, err := File{Path: "/etc/weir/weir.yaml", Text: []byte("telemetry: {remote_write: {url: 'http://p/api/v1/write', bearer_token_file: keys/p}}")}.service(nil)
	if err != nil || s.Telemetry.RemoteWrite.BearerTokenFile != "/etc/weir/keys/p" {
		t.Errorf("%+v, %v", s.Telemetry.RemoteWrite, err)
	}
	for text, want := range map[string]string{
		"{url: here}":                          `weir.yaml:1: telemetry.remote_write.url: is "here": want http(s)://host[:port]/path of the requests`,
		"{url: 'http://u:p@a/'}":               "url: contains a password",
		"{url: 'http://a', tls: {ca_file: x}}": "url: is without encryption, but tls is given",
		"{url: 'http://a', timeout: 2m}":       "timeout: is 2m0s: want at most 1m",
		"{address: x}":                         "telemetry.remote_write.address: no such key",
	} {
		if _, err := (File{Path: "/etc/weir/weir.yaml", Text: []byte("telemetry: {remote_write: " + text + "}")}).service(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestMistakesOfSources(t *testing.T) {
	for _, test := range []struct{ sources, metric, want string }{
		{prom, "{name: rps, source: prom, range: 20m}", "web.yaml:4: autoscale_signals[0].required_metrics[0].query: is missing: want an expression in PromQL"},
		{prom, "{name: rps, source: promm, query: up, range: 20m}", `source: is "promm": weir.yaml has prom`},
		{"", "{name: rps, source: prom, query: up, range: 20m}", `source: is "prom", but weir.yaml has no sources: add sources: {prom: {prometheus: {...}}}`},
		{prom, "{name: rps, query: up, range: 20m}", "source: is missing"},
		{prom, "{name: rps, source: prom, type: app_metrics, query: up, range: 20m}", "type: is for metrics of the pool's store: remove it, or source"},
		{prom, "{name: rps, source: prom, regex: true, query: up, range: 20m}", "regex: is for metrics of the pool's store"},
		{prom, "{name: rps, source: prom, query: 'up{a=$app}', range: 20m}", "outside of quotes"},
		{prom, "{name: rps, source: prom, query: up, range: 720h}", "want 3m56s or more"},
		{prom, "{name: rps, source: prom, query: up}", "range: is missing"},
		{"sources: {prom: {}}", "{name: rps, source: prom, query: up, range: 20m}", "weir.yaml:1: sources.prom: has no kind: want one of prometheus"},
		{"sources: {prom: {influxdb: {}}}", "{name: rps, source: prom, query: up, range: 20m}", "sources.prom.influxdb: no such key (allowed: cloudwatch, prometheus)"},
		{"sources: {prom: {prometheus: {url: here}}}", "{name: rps, source: prom, query: up, range: 20m}", "sources.prom.prometheus.url: is \"here\""},
		{watch, "{name: queue, source: cw, metric: {namespace: AWS/SQS, name: N, stat: Max}, range: 20m}", `web.yaml:4: autoscale_signals[0].required_metrics[0].metric.stat: is "Max"`},
		{watch, "{name: queue, source: cw, metric: {nmespace: AWS/SQS, name: N, stat: Sum}, range: 20m}", "metric.nmespace: no such key"},
		{watch, "{name: queue, source: cw, query: up, range: 20m}", "query: is not for a source of kind cloudwatch: use metric, period, lag"},
		{prom, "{name: queue, source: prom, query: up, period: 1m, range: 20m}", "period: is not for a source of kind prometheus: use query, step, lag"},
		{"sources: {cw: {cloudwatch: {}}}", "{name: rps, source: cw, query: up, range: 20m}", "sources.cw.cloudwatch.region: is \"\": want the region"},
		{"sources: {'p q': {prometheus: {url: 'http://a'}}}", "{name: rps, source: 'p q', query: up, range: 20m}", "sources.p q: is"},
	} {
		if _, _, err := withSources(test.sources, test.metric); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s, %s:\n%v\nwant %s", test.sources, test.metric, err, test.want)
		}
	}
	for url, want := range map[string]string{"http://127.0.0.1:9090": "", "127.0.0.1:9090": "want http(s)://", "http://a\"}}, x: {": "want http(s)://"} {
		if text, err := SourceAt("prometheus", url); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s, %v; want %q", url, text, err, want)
		}
	}
}
