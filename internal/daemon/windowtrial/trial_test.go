package windowtrial_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/daemon/windowtrial"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

const pool = `resource_groups: [{local: {name: blue, min: 1, max: 3, machine: {cpus: 1, mem: 1024}}}]
scaling_limits: {min_capacity: 1, max_capacity: 3, max_weight_to_add: 3, max_weight_to_remove: 3}
autoscale_signals: [{app: shop}]
`

func TestUnknownAppIsNamed(t *testing.T) {
	s, p, err := config.Files{
		Cluster: "c", Pool: "web", Service: config.File{Path: "weir.yaml", Missing: true}, PoolIn: config.File{Path: "web.yaml", Text: []byte(pool)},
	}.Decode()
	if err != nil {
		t.Fatal(err)
	}
	_, err = windowtrial.New(s, p, "shp")
	if want := `pool web has no app "shp"; did you mean shop?; it has __default__, shop`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if _, err := windowtrial.New(s, p, "shop"); err != nil {
		t.Error(err)
	}
}

// The check of the files has the words of a source about a query, with the place. A source that does not answer, and a metric
// without points, are notes.
func TestCheckOfQueries(t *testing.T) {
	rejecting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"status":"error","errorType":"bad_data","error":"1:5: parse error: unclosed left parenthesis"}`))
	}))
	defer rejecting.Close()
	cloud := awstest.New(t, awsfake.Config{Region: "eu-west-1", Start: time.Now()})
	keys := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(keys, []byte(`{"accessKeyId": "AKIATEST", "secretAccessKey": "secret"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	sources := fmt.Sprintf("aws: {endpoint_url: %q, access_key_file: %s}\nsources: {bad: {prometheus: {url: %q}}, down: {prometheus: {url: 'http://127.0.0.1:1'}}, cw: {cloudwatch: {region: eu-west-1}}}\n", cloud.URL(), keys, rejecting.URL)
	check := func(metric string) ([]string, error) {
		t.Helper()
		text := strings.TrimSuffix(pool, "\nautoscale_signals: [{app: shop}]\n") + "\nautoscale_signals:\n  - {app: shop, name: requests, version: v1, required_metrics: [" + metric + "]}\n"
		s, p, err := config.Files{
			Cluster: "c", Pool: "web", Service: config.File{Path: "weir.yaml", Text: []byte(sources)}, PoolIn: config.File{Path: "web.yaml", Text: []byte(text)},
		}.Decode()
		if err != nil {
			t.Fatal(err)
		}
		return windowtrial.Check(t.Context(), s, p)
	}
	for metric, want := range map[string]struct{ note, mistake string }{
		"{name: a, source: bad, query: sum(, range: 10m}": {"", `web.yaml:4: autoscale_signals[0].required_metrics[0]: source bad: query "sum(": is invalid: 1:5: parse error: unclosed left parenthesis`},
		"{name: a, source: down, query: up, range: 10m}":  {`the window of a of shop is unknown or stale now: source down: query "up": `, ""},
		"{name: a, source: cw, metric: {namespace: N, name: M, stat: Sum}, range: 10m}": {
			`the window of a of shop is unknown or stale now: a has no point in the last 10m0s: source cw has none for {"namespace":"N","name":"M","stat":"Sum"}`, ""},
		"{name: a, source: cw, metric: {namespace: N, name: M, stat: IQM}, range: 10m}": {"", "Stat is not supported"},
	} {
		notes, err := check(metric)
		if (err == nil) != (want.mistake == "") || err != nil && !strings.Contains(err.Error(), want.mistake) {
			t.Errorf("%s: %v, want %q", metric, err, want.mistake)
		}
		if text := strings.Join(notes, "\n"); (text == "") != (want.note == "") || !strings.Contains(text, want.note) {
			t.Errorf("%s: notes %q, want %q", metric, text, want.note)
		}
	}
}
