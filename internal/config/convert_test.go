package config

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/ask"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/pools/drain"
	"github.com/weirkeeper/weirkeeper/pools/rotate"
	"github.com/weirkeeper/weirkeeper/resource"
)

// byEquality compares requests by ==.
var byEquality = cmpopts.EquateComparable(resource.Request{})

// load decodes both files from these texts.
func load(t testing.TB, service, pool string) (Service, Pool) {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "weir.yaml"), service)
	writeFile(t, filepath.Join(dir, "prod", "default.yaml"), pool)
	s, p, err := Load(dir, "prod", "default")
	if err != nil {
		t.Fatal(err)
	}
	return s, p
}

func TestAutoscalerOfTheShortestFiles(t *testing.T) {
	window := func(name string) ask.Window {
		return ask.Window{Name: name, Type: metrics.System, Range: 10 * time.Minute, MaxAge: 10 * time.Minute}
	}
	want := autoscaler.Config{
		Cluster: "prod", Pool: "default", Tick: 10 * time.Minute,
		Policy: api.DecisionPolicy{
			Setpoint: 0.7, MarginUp: 0.1, MarginDown: 0.1, Combine: api.CombineSum,
			Limits: api.TargetLimits{Min: 1, Max: 3, MaxAdd: 2, MaxRemove: 1}, Period: 10 * time.Minute,
		},
		Prune: api.PruneLimits{MaxWeight: 1},
		Drain: drain.Config{Threshold: 30 * time.Minute}, Drift: autoscaler.Obey, OrphansAfter: 30 * time.Minute, FailedBoots: 3, Rotation: rotation(20 * time.Minute), Grace: 5 * time.Minute,
		Default: ask.Signal{
			App: "__default__", Namespace: "weir", Name: "default", Period: 10 * time.Minute,
			Windows:  []ask.Window{window("cpus_allocated"), window("mem_allocated"), window("disk_allocated")},
			Setpoint: 0.7,
		},
	}
	got := Autoscaler(load(t, "", goodPool))
	if diff := cmp.Diff(want, got, byEquality); diff != "" {
		t.Errorf("autoscaler (-want +got):\n%s", diff)
	}
	if err := decide.ValidatePolicy(got.Policy); err != nil {
		t.Errorf("policy of valid files: %v", err)
	}
}

func TestAutoscalerOfFullFiles(t *testing.T) {
	got := Autoscaler(load(t, `
autoscale_signal:
  period: 30s
  time_limit: 25s
  required_metrics: [{name: cpus_allocated, type: system_metrics, range: 2m, max_age: 1m}]
  parameters: {a: 1}
autoscaling: {default_signal_role: house, setpoint: 0.5, target_capacity_margin: 0.2}
`, `
resource_groups:
  - local: {name: blue, min: 1, max: 3, machine: {cpus: 1, mem: 1024}}
scaling_limits: {min_capacity: 1, max_capacity: 3, max_weight_to_add: 2, max_weight_to_remove: 1, max_tasks_to_kill: inf, min_node_scalein_uptime_seconds: 90}
machines: {blue: {cpus: 0.9, mem: 1000}}
autoscaling: {places: false, configuration_grace: 90s, combine: max, excluded_resources: [disk], cooldown: {up: 0s, down: 10m}, ignorance_max: 1h, drift: correct, budgets: [{direction: up, within: 1h, at_most: 50}], prevent_scale_down_after_capacity_loss: true, instance_loss_threshold: 2, orphan_instance_uptime_threshold_seconds: 0, failed_boots: 5, distribution: cheapest, max_share: 0.5, interrupted_work: 10m}
autoscale_signals:
  - app: web
    namespace: shop
    name: RequestsPerSecond
    branch_or_tag: v1.4.0
    period_minutes: 2
    required_metrics:
      - {name: cpus_allocated, type: system_metrics, minute_range: 20}
      - {name: instances_expected, type: instance_counts, minute_range: 10, app: web}
    parameters: [{headroom: 1.2, zone: a}, {zone: b}]
  - {app: api, name: rps, version: v2, hold_for: 7s, time_limit: 15s, max_request: {cpus: 40, mem: 1000000}, period: 20s, required_metrics: [{name: load, type: app_metrics, range: 1m, resolution: 30s}]}
  - app: idle
    raise:
      - {name: calendar, kind: builtin, period: 30s, max_request: {cpus: 40}, parameters: {time_zone: Europe/Berlin, periods: [{name: p, days: daily, from: "08:00", for: 1h, at_least: {cpus: 4}}]}}
      - {namespace: shop, name: forecast, version: v3, period: 1m, required_metrics: [{name: load, type: app_metrics, range: 1m}], shadow: {version: v4}}
`))
	want := autoscaler.Config{
		Cluster: "prod", Pool: "default", Tick: 20 * time.Second,
		Policy: api.DecisionPolicy{
			Setpoint: 0.5, MarginUp: 0.2, MarginDown: 0.2, Combine: api.CombineMax, Excluded: []resource.Kind{resource.Disk},
			Limits: api.TargetLimits{Min: 1, Max: 3, MaxAdd: 2, MaxRemove: 1}, Period: 20 * time.Second,
			Cooldown: api.Cooldown{Down: 10 * time.Minute}, UnknownNeedMax: time.Hour,
			Budgets:   []api.ChangeBudget{{Direction: api.DirectionUp, Within: time.Hour, Weight: 50}},
			LossLimit: true, LossThreshold: 2, Distribution: api.DistributeCheapest, MaxShare: 0.5, InterruptedWork: 10 * time.Minute,
		},
		Prune: api.PruneLimits{MaxWeight: 1, MaxTasks: api.Unbounded, MinUptime: 90 * time.Second},
		Drain: drain.Config{Threshold: 30 * time.Minute}, Drift: autoscaler.Correct, FailedBoots: 5, Rotation: rotation(30 * time.Minute), IgnorePlaces: true, Grace: 90 * time.Second,
		Machines: map[string]resource.Vector{"blue": {resource.CPUs: 0.9, resource.Mem: 1000}},
		Default: ask.Signal{
			App: "__default__", Namespace: "house", Name: "default", Period: 30 * time.Second, TimeLimit: 25 * time.Second,
			Windows:    []ask.Window{{Name: "cpus_allocated", Type: metrics.System, Range: 2 * time.Minute, MaxAge: time.Minute}},
			Parameters: map[string]any{"a": uint64(1)}, Setpoint: 0.5,
		},
		Apps: []ask.Signal{
			{
				App: "web", Namespace: "shop", Name: "RequestsPerSecond", Version: "v1.4.0", Period: 2 * time.Minute, HoldFor: 6 * time.Minute,
				Windows: []ask.Window{
					{Name: "cpus_allocated", Type: metrics.System, Range: 20 * time.Minute, MaxAge: 20 * time.Minute},
					{Name: "instances_expected", Type: metrics.InstanceCounts, App: "web", Range: 10 * time.Minute, MaxAge: 10 * time.Minute},
				},
				Parameters: map[string]any{"headroom": 1.2, "zone": "b"}, Setpoint: 0.5,
			},
			{
				App: "api", Namespace: "default", Name: "rps", Version: "v2", Period: 20 * time.Second, TimeLimit: 15 * time.Second, HoldFor: 7 * time.Second,
				MaxRequest: resource.Request{}.With(resource.CPUs, 40).With(resource.Mem, 1e6),
				Windows:    []ask.Window{{Name: "load", Type: metrics.App, Range: time.Minute, MaxAge: time.Minute, Resolution: 30 * time.Second}},
				Setpoint:   0.5,
			},
			{
				App: "idle", Namespace: "default", Period: 30 * time.Second, HoldFor: 90 * time.Second, Setpoint: 0.5,
				Raise: []ask.Signal{
					{
						App: "idle~calendar", Namespace: "default", Name: "calendar", Period: 30 * time.Second, HoldFor: time.Minute,
						MaxRequest: resource.Request{}.With(resource.CPUs, 40), Setpoint: 0.5, Parameters: map[string]any{
							"time_zone": "Europe/Berlin", "periods": []any{map[string]any{
								"name": "p", "days": "daily", "from": "08:00", "for": "1h", "at_least": map[string]any{"cpus": uint64(4)},
							}},
						},
					},
					{
						App: "idle~forecast", Namespace: "shop", Name: "forecast", Version: "v3", Period: time.Minute, HoldFor: 2 * time.Minute,
						Windows: []ask.Window{{Name: "load", Type: metrics.App, Range: time.Minute, MaxAge: time.Minute}}, Setpoint: 0.5,
					},
				},
			},
		},
	}
	if diff := cmp.Diff(want, got, byEquality); diff != "" {
		t.Errorf("autoscaler (-want +got):\n%s", diff)
	}
}

func TestPoolFileWinsOverServiceFile(t *testing.T) {
	const service = "autoscaling: {default_signal_role: house, tick: 1m, setpoint: 0.5, target_capacity_margin: 0.2, margin_up: 0.3, margin_down: 0.4, excluded_resources: [disk], combine: max}\n"
	ofService := api.DecisionPolicy{Setpoint: 0.5, MarginUp: 0.3, MarginDown: 0.4, Excluded: []resource.Kind{resource.Disk}, Combine: api.CombineMax}
	with := func(change func(*api.DecisionPolicy)) api.DecisionPolicy {
		p := ofService
		change(&p)
		return p
	}
	for _, c := range []struct {
		name, keys string
		want       api.DecisionPolicy
		tick       time.Duration
		role       string
	}{
		{"nothing", "", ofService, time.Minute, "house"},
		{"setpoint", "setpoint: 0.9", with(func(p *api.DecisionPolicy) { p.Setpoint = 0.9 }), time.Minute, "house"},
		{"one margin", "margin_up: 0", with(func(p *api.DecisionPolicy) { p.MarginUp = 0 }), time.Minute, "house"},
		{"both margins stay", "target_capacity_margin: 0.9", ofService, time.Minute, "house"},
		{"excluded", "excluded_resources: [gpus, mem]", with(func(p *api.DecisionPolicy) { p.Excluded = []resource.Kind{resource.GPUs, resource.Mem} }), time.Minute, "house"},
		{"nothing excluded", "excluded_resources: []", with(func(p *api.DecisionPolicy) { p.Excluded = nil }), time.Minute, "house"},
		{"combine", "combine: sum", with(func(p *api.DecisionPolicy) { p.Combine = api.CombineSum }), time.Minute, "house"},
		{"tick", "tick: 3s", ofService, 3 * time.Second, "house"},
		{"role", "default_signal_role: mine", ofService, time.Minute, "mine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, p := load(t, service, goodPool+fmt.Sprintf("autoscaling: {%s}\n", c.keys))
			got := Autoscaler(s, p)
			got.Policy.Limits, got.Policy.Period = api.TargetLimits{}, 0
			if diff := cmp.Diff(c.want, got.Policy); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
			if got.Tick != c.tick || got.Default.Namespace != c.role || Bootstrap(s, p).Signals[0].Namespace != c.role {
				t.Errorf("tick %v, role %s, role of the process %s; want %v, %s", got.Tick, got.Default.Namespace, Bootstrap(s, p).Signals[0].Namespace, c.tick, c.role)
			}
		})
	}
}

func TestBootstrap(t *testing.T) {
	got := Bootstrap(load(t, "", goodPool+signals(", parameters: {headroom: 2, zones: [a, b]}")+"  - {app: idle}\n"))
	asked, err := DecodeRequestSpec(got.Signals[1].RequestConfig)
	if err != nil {
		t.Fatal(err)
	}
	question := &ask.RequestSpec{
		Windows:    []ask.Window{{Name: "m", Type: metrics.System, Range: time.Minute, MaxAge: time.Minute}},
		Parameters: map[string]any{"headroom": 2.0, "zones": []any{"a", "b"}}, Setpoint: 0.7,
	}
	if diff := cmp.Diff(question, asked); diff != "" {
		t.Errorf("the request spec of web's signal (-want +got):\n%s", diff)
	}
	for i := range got.Signals {
		if got.Signals[i].RequestConfig == "" {
			t.Errorf("signal of %s has no question", got.Signals[i].App)
		}
		got.Signals[i].RequestConfig = ""
	}
	usual := Process{}.limits()
	want := bootstrap.Plan{Cluster: "prod", Pool: "default", Tick: 10 * time.Minute, Signals: []bootstrap.SignalPlan{
		{App: "__default__", Namespace: "weir", Name: "default", Address: "weir-default-__default__-socket", Kind: api.KindPlugin, Limits: usual},
		{App: "web", Namespace: "shop", Name: "rps", Version: "v1.4.0", Address: "shop-rps-web-socket", Limits: usual},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestDrain(t *testing.T) {
	for _, c := range []struct {
		text string
		want drain.Config
	}{
		{goodPool, drain.Config{Threshold: 30 * time.Minute}},
		{goodPool + "draining: {draining_time_threshold_seconds: 90, force_terminate: true}\n", drain.Config{Threshold: 90 * time.Second, Force: true}},
	} {
		if got := drainConfig(mustReadPool(t, c.text)); got != c.want {
			t.Errorf("Drain = %+v, want %+v", got, c.want)
		}
	}
}

// Clusterman's pool files have one signal for the whole pool.
func TestSignalForWholePool(t *testing.T) {
	const one = "autoscale_signal:\n  name: rps\n  branch_or_tag: v1\n  period_minutes: 5\n  required_metrics: [{name: m, type: system_metrics, minute_range: 10}]\n"
	p := mustReadPool(t, goodPool+one)
	want := []Signal{{
		App: "default", Program: Program{
			Namespace: "default", Name: "rps", BranchOrTag: "v1", PeriodMin: 5,
			Metrics: []Metric{{Name: "m", Type: "system_metrics", RangeMin: 10}},
		},
	}}
	if diff := cmp.Diff(want, p.Signals); diff != "" || p.Signal != nil {
		t.Errorf("signals, with %v beside them (-want +got):\n%s", p.Signal, diff)
	}
	for _, c := range []struct{ name, text, want string }{
		{"a mistake in it", goodPool + one + "  hold_for: -1s\n", "FILE:9: autoscale_signal.hold_for: is -1s: want 100ms to 8760h"},
		{"beside the list", goodPool + one + signals(""), "FILE:4: autoscale_signal: conflicts with autoscale_signals: keep one"},
		{"beside an empty list", goodPool + one + "autoscale_signals: []\n", "FILE:4: autoscale_signal: conflicts with autoscale_signals: keep one"},
		{"without content", goodPool + "autoscale_signal:\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readPool(t, c.text)
			expectError(t, err, c.want)
		})
	}
}

func TestDecodeRequestSpec(t *testing.T) {
	if q, err := DecodeRequestSpec(""); q != nil || err != nil {
		t.Errorf("DecodeRequestSpec of nothing = %v, %v; want nil: the files count", q, err)
	}
	if q, err := DecodeRequestSpec("{"); err == nil {
		t.Errorf("DecodeRequestSpec of half a text = %v, want an error", q)
	}
}

// rotation is that of a file without a rotation.
func rotation(within time.Duration) autoscaler.Rotation {
	return autoscaler.Rotation{Policy: rotate.Policy{Gate: rotate.Gate{Wait: 2 * time.Minute, Within: within}}}
}
