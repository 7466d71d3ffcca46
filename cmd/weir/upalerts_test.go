package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/daemon"
	"github.com/weirkeeper/weirkeeper/internal/platform/promtest"
)

// alertPool is a pool file. Its parameters are the maximum, and the pin of the signal of web.
const alertPool = `resource_groups:
  - local: {name: blue, min: 1, max: 6, machine: {cpus: 1, mem: 1024}}
scaling_limits: {min_capacity: 1, max_capacity: %d, max_weight_to_add: 6, max_weight_to_remove: 6}
autoscaling: {tick: 1s, lease: 6s, configuration_grace: 0s}
autoscale_signals:
  - {app: web, %s period: 1s,
     required_metrics: [{name: cpus_expected, type: instance_counts, range: 1m}]}
`

// alertMaximum is the usual maximum of alertPool.
const alertMaximum = 6

// alertWorld is a "weir up" whose bootstrap serves its metrics, on a bus that can be stopped.
type alertWorld struct {
	*faultWorld
	file string // the pool file
	bus  *convergeBus
}

// newAlertWorld starts "weir up" without a release in its pool file.
func newAlertWorld(t *testing.T) *alertWorld {
	t.Helper()
	w := &alertWorld{faultWorld: &faultWorld{T: t, data: t.TempDir()}, file: filepath.Join(t.TempDir(), "pool.yaml"), bus: startConvergeBus(t)}
	w.configure(alertMaximum, "")
	nats := fmt.Sprintf("nats://127.0.0.1:%d", w.bus.port)
	w.u = startUp(t, w.data, "--pool-file", w.file, "--nats", nats, "--admin-addr", "127.0.0.1:0")
	w.u.nats = nats
	return w
}

// configure writes the pool file. An empty version pins no release: web uses the default signal.
func (w *alertWorld) configure(most int, version string) {
	w.Helper()
	pin := ""
	if version != "" {
		pin = "namespace: shop, name: instance_count, version: " + version + ","
	}
	if err := daemon.WriteFile(w.file, fmt.Appendf(nil, alertPool, most, pin)); err != nil {
		w.Fatal(err)
	}
}

// metrics returns the URL of the admin server of bootstrap.
func (w *alertWorld) metrics() string {
	w.Helper()
	return regexp.MustCompile(`  prometheus (http://\S+)/metrics`).FindStringSubmatch(w.u.output())[1]
}

// publish publishes a release of the signal of web.
func (w *alertWorld) publish(version string) {
	w.Helper()
	w.u.weir(w.T, "release", "publish", "shop/instance_count@"+version, filepath.Join(os.Getenv("WEIR_SIGNALS_DIR"), "instance_count"))
}

// edit returns a fault that writes the pool file. Its end writes the usual one.
func (w *alertWorld) edit(most int, version string) func() (end func()) {
	return func() (end func()) {
		w.configure(most, version)
		return func() { w.configure(alertMaximum, "v1") }
	}
}

// pause pauses the pool. The end resumes it.
func (w *alertWorld) pause() (end func()) {
	w.u.weir(w.T, "pool", "pause", "--why", "test of alerts")
	return func() { w.u.weir(w.T, "pool", "resume") }
}

// halt returns a fault that halts a process of a role. Its end continues the process.
func (w *alertWorld) halt(role string) func() (end func()) {
	return func() (end func()) {
		haltRole(role)(w.faultWorld)
		return w.resume
	}
}

// lintPage requires that the linter of Prometheus accepts a page of metrics.
func lintPage(t *testing.T, url string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	for _, name := range []string{"weir_autoscaler_resources_bytes", "weir_bootstrap_autoscaler_running", "weir_harmonizer_running_instances", "weir_placer_nodes"} {
		if err != nil || !strings.Contains(string(page), "\n"+name+"{") {
			t.Fatalf("page of metrics without %s: %v\n%s", name, err, page)
		}
	}
	for _, problem := range promtest.Lint(t, string(page)) {
		t.Error(problem)
	}
}

// A real Prometheus makes each alert about a pool fire and end, from the metrics of running processes.
func TestPoolAlertsFireAndEnd(t *testing.T) {
	t.Parallel()
	w := newAlertWorld(t)
	url := w.metrics()
	rules := filepath.Join("..", "..", "deploy", "prometheus", "weir-alerts.yml")
	quick := promtest.Start(t, url, rules, 250*time.Millisecond)
	// Bootstrap waits 2 s for the metrics of an autoscaler that hangs.
	slow := promtest.Start(t, url, rules, 2500*time.Millisecond)
	for _, version := range []string{"v1", "yanked"} {
		w.publish(version)
	}
	w.u.weir(t, "release", "yank", "shop/instance_count@yanked", "--why", "counts twice")
	w.configure(alertMaximum, "v1")
	w.u.weir(t, "app", "set", "web", "--instances", "4", "--cpus", "0.5", "--mem", "16", "--command", "exec sleep 100000")
	w.u.pool(t, "a response of v1", func(s api.PoolStatus) error { return answeredIn(*s.LastTick) })
	w.u.pool(t, "a pool of 3", sized(3))

	lintPage(t, url+"/metrics")
	// A local group never refuses, and the pool has no repairs. The tests of the rules alone make these fire.
	fired := map[string]bool{
		"WeirGroupBackoff": true, "WeirMachinesNeverJoin": true, "WeirRotationStopped": true, "WeirPartUnknown": true, "WeirBreakerOpen": true, "WeirNodesUnhealthy": true, "WeirRepairsFail": true,
	}
	for _, fault := range []struct {
		name   string
		watch  *promtest.Server
		begin  func() (end func())
		alerts []string
	}{
		{"a maximum below the need", quick, w.edit(2, "v1"), []string{"WeirAtMaximum"}},
		{"signals that hang", quick, func() func() { return w.hang("signal") }, []string{"WeirSignalFailed", "WeirFallbackTooLong"}},
		{"a silent node", quick, w.halt("agent"), []string{"WeirScaleInBlockedTooLong"}},
		{"a pin of a release that is not published", quick, w.edit(alertMaximum, "missing"), []string{"WeirReleaseRejected"}},
		{"a pin of a yanked release", quick, w.edit(alertMaximum, "yanked"), []string{"WeirReleaseRejected"}},
		{"a pause", quick, w.pause, []string{"WeirPausedTooLong"}},
		{"an autoscaler that hangs", slow, w.halt("autoscaler"), []string{"WeirNoTick"}},
		{"NATS down", slow, func() func() { w.bus.stop(); return w.bus.start }, []string{"WeirHarmonizerCannotAct", "WeirLeaseLost", "WeirNoTick"}},
	} {
		fault.watch.Expect("before " + fault.name)
		func() {
			defer fault.begin()() // also if the test ends here
			fault.watch.Expect("with "+fault.name, fault.alerts...)
		}()
		fault.watch.Expect("after " + fault.name)
		for _, alert := range fault.alerts {
			fired[alert] = true
		}
	}
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	ofPool, _, _ := strings.Cut(string(text), "name: weir-harmonizer")
	for line := range strings.Lines(ofPool) {
		if alert, ok := strings.CutPrefix(strings.TrimSpace(line), "- alert: "); ok && !fired[alert] {
			t.Errorf("no fault makes %s fire", alert)
		}
	}
}
