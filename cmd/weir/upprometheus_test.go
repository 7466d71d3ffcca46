package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/promtest"
	"github.com/weirkeeper/weirkeeper/pools/aws/awsfake"
	"github.com/weirkeeper/weirkeeper/pools/aws/awstest"
)

// prometheusPool is a pool whose app needs a core for each 50 requests in a second, by an expression of Prometheus.
const prometheusPool = `resource_groups:
  - local: {name: blue, min: 1, max: 8, machine: {cpus: 1, mem: 1024}}
scaling_limits: {min_capacity: 1, max_capacity: 8, max_weight_to_add: 8, max_weight_to_remove: 8}
autoscaling: {tick: 1s, setpoint: 0.8, configuration_grace: 0s}
autoscale_signals:
  - app: shop
    kind: builtin
    name: default
    period: 1s
    required_metrics:
      - {name: cpus_allocated, source: prometheus, query: 'sum(rate(http_requests_total{app="$app"}[15s])) / 50', range: 10s, step: 1s, max_age: 5s}
`

// traffic is an exporter of a counter of requests with a rate that can be set.
type traffic struct {
	mu    sync.Mutex
	rate  float64 // in a second
	total float64
	since time.Time
}

func (x *traffic) set(rate float64) float64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := time.Now()
	x.total += x.rate * now.Sub(x.since).Seconds()
	x.since = now
	if rate >= 0 {
		x.rate = rate
	}
	return x.total
}

// ServeHTTP answers a scrape.
func (x *traffic) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, "# TYPE http_requests_total counter\nhttp_requests_total{app=\"shop\"} %f\n", x.set(-1))
}

// least requires a pool of at least that size.
func least(n float64) func(api.PoolStatus) error {
	return func(s api.PoolStatus) error {
		if now := s.LastTick.Snapshot; now.Target < n || now.Joined < n {
			return fmt.Errorf("target %v, joined %v: want %v or more of each", now.Target, now.Joined, n)
		}
		return nil
	}
}

// A pool follows an expression of a real Prometheus. While Prometheus is away the need is unknown: the pool says so and
// does not shrink, though the load has ended. When Prometheus is back, the pool goes on. The ticks are written to the same Prometheus.
func TestPoolFollowsPrometheus(t *testing.T) {
	t.Parallel()
	load := &traffic{since: time.Now()}
	exporter := httptest.NewServer(load)
	t.Cleanup(exporter.Close)
	prometheus := promtest.Scrape(t, exporter.URL, 500*time.Millisecond)
	dir := t.TempDir()
	file, blocks := filepath.Join(dir, "pool.yaml"), filepath.Join(dir, "blocks.yaml")
	telemetry := fmt.Sprintf("sources: {prometheus: {prometheus: {url: %q}}}\ntelemetry: {remote_write: {url: %q}}\n", prometheus.URL, prometheus.URL+"/api/v1/write")
	if err := errors.Join(daemon.WriteFile(file, []byte(prometheusPool)), daemon.WriteFile(blocks, []byte(telemetry))); err != nil {
		t.Fatal(err)
	}
	written := func(target float64) error {
		values := prometheus.Points(`weir_autoscaler_groups_capacity{cluster="local",pool="default"}[1m]`, time.Now())
		if len(values) == 0 || values[len(values)-1] != fmt.Sprint(target) {
			return fmt.Errorf("the targets in Prometheus are %v, want %v at last", values, target)
		}
		return nil
	}
	load.set(180)
	u := startUp(t, t.TempDir(), "--pool-file", file, "--sources", blocks)
	// A late scrape makes a rate look higher, so the pool may have more.
	u.pool(t, "five machines or more for 180 requests in a second", least(5))
	u.pool(t, "the target in Prometheus", func(s api.PoolStatus) error { return written(s.LastTick.Snapshot.Target) })

	prometheus.Kill()
	load.set(10)
	heldWithout(t, u, "prometheus", 5)

	prometheus.Restart()
	u.pool(t, "one machine for 10 requests in a second", sized(1))
	u.pool(t, "the target in Prometheus again", func(api.PoolStatus) error { return written(1) })
}

// heldWithout requires that the need of the app is unknown because of a source, and that the pool keeps n machines for 20 ticks.
func heldWithout(t *testing.T, u *upProcess, source string, n float64) {
	t.Helper()
	u.pool(t, "a need that is unknown because of the source", func(s api.PoolStatus) error {
		for _, r := range s.LastTick.Detail.Apps {
			if r.App == "shop" && r.Source != api.FromSignal && strings.Contains(r.Why, "source "+source) {
				return nil
			}
		}
		return fmt.Errorf("apps %+v, want one that names the source", s.LastTick.Detail.Apps)
	})
	const ticks = 20
	seen := map[time.Time]bool{}
	u.pool(t, "ticks without the source", func(s api.PoolStatus) error {
		if err := least(n)(s); err != nil {
			t.Errorf("without the source: %v", err)
		}
		if seen[s.LastTick.At] = true; len(seen) < ticks {
			return fmt.Errorf("%d ticks of %d", len(seen), ticks)
		}
		return nil
	})
}

// shopKeys are the keys of the AWS of a test.
const shopKeys = `{"accessKeyId": "AKIATEST", "secretAccessKey": "secret"}`

// A pool follows a metric of CloudWatch. While the process may not read it the need is unknown: the status names it, and the pool does not
// shrink, though the load has ended. When it may again, the pool goes on.
func TestPoolFollowsCloudWatch(t *testing.T) {
	t.Parallel()
	cloud := awstest.New(t, awsfake.Config{Region: "eu-west-1", Start: time.Now()})
	var clock sync.WaitGroup
	ended := make(chan struct{})
	clock.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(100 * time.Millisecond):
				cloud.Advance(max(0, time.Since(cloud.Now())))
			}
		}
	})
	t.Cleanup(func() { close(ended); clock.Wait() })
	dir := t.TempDir()
	for name, text := range map[string]string{
		"keys.json":    shopKeys,
		"sources.yaml": fmt.Sprintf("sources: {cw: {cloudwatch: {region: eu-west-1, endpoint_url: %q, access_key_file: %s}}}\n", cloud.URL(), filepath.Join(dir, "keys.json")),
		"pool.yaml": strings.Replace(prometheusPool, `source: prometheus, query: 'sum(rate(http_requests_total{app="$app"}[15s])) / 50', range: 10s, step: 1s`,
			`source: cw, metric: {namespace: Shop, name: Backlog, dimensions: {App: $app}, stat: Maximum}, range: 10s, period: 1s, lag: 0s`, 1),
	} {
		if err := daemon.WriteFile(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	backlog := awsfake.Metric{Namespace: "Shop", Name: "Backlog", Dimensions: map[string]string{"App": "shop"}}
	cloud.SetLevel(backlog, 3.6)
	u := startUp(t, t.TempDir(), "--pool-file", filepath.Join(dir, "pool.yaml"), "--sources", filepath.Join(dir, "sources.yaml"))
	u.pool(t, "five machines for 3.6 cores", sized(5))
	cloud.Deny("GetMetricData", "")
	cloud.SetLevel(backlog, 0.2)
	heldWithout(t, u, "cw", 5)
	cloud.Allow()
	u.pool(t, "one machine for 0.2 cores", sized(1))
}
