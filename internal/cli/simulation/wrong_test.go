package simulation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/cli"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
)

// TestMain makes this binary a signal that hangs if its first argument is "hang".
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "hang" {
		os.Args = append(os.Args[:1], os.Args[2:]...)
		signals.Main(hangs{})
	}
	m.Run()
}

type hangs struct{}

func (hangs) Value(ctx context.Context, _ signals.Input) (resource.Request, error) {
	<-ctx.Done()
	return resource.Request{}, ctx.Err()
}

// A signal that hangs ends the run. Its result is not printed, because the speed of the host would count.
func TestSignalThatHangs(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := inputs(t, "s.yaml", "groups:", "signals: {web: {program: ["+self+", hang], metrics: metrics.csv, limit: 2s}}\ngroups:")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("configs/local/default.yaml", goodPool+`autoscale_signals:
  - {app: web, namespace: shop, name: queue, version: v1.0.0, period_minutes: 1, required_metrics: [{name: length, type: app_metrics, minute_range: 20}]}
`)
	write("metrics.csv", "time,length\n2026-03-01T00:00:00Z,4\n")
	var out, errs bytes.Buffer
	code := cli.Run([]string{"simulate", filepath.Join(dir, "s.yaml")}, nil, &out, &errs)
	const want = "simulate pool default at 2026-03-01T00:00:00Z: the run is not valid: signal of app web: no response within 2s: the program hangs, or signals.web.limit is too short for this host"
	if code != 1 || out.Len() > 0 || !strings.Contains(errs.String(), want) {
		t.Errorf("it ended with %d, and printed %q and\n%s\nwant 1, and %s", code, out.String(), errs.String(), want)
	}
}

// Machines that fail are replaced by the health block of the pool's file, and the row has how many.
func TestFailuresAreRepaired(t *testing.T) {
	t.Parallel()
	dir := inputs(t, "s.yaml", "    target: 1\n", "    target: 1\n    leave: 1m\n    failures: {per_hour: 2}\n")
	health := goodPool + "health:\n  mode: act\n  detection: {detection_modes: [{type: AGENT_HEARTBEAT}]}\n  safety: {max_unhealthy: 100%, max_unhealthy_zone: 100%}\n"
	if err := os.WriteFile(filepath.Join(dir, "configs/local/default.yaml"), []byte(health), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	code := cli.Run([]string{"simulate", filepath.Join(dir, "s.yaml"), "--set", "autoscaling.setpoint=0.3"}, nil, &out, &errs)
	if !regexp.MustCompile(` [1-9][0-9]* machines failed, and [1-9][0-9]* were replaced\n`).MatchString(out.String()) || code != 0 || errs.Len() > 0 {
		t.Errorf("it ended with %d, and printed\n%s%s", code, &out, &errs)
	}
}

// The metrics of a store are a demand like a series, and what they lack is named.
func TestMetricsAsDemand(t *testing.T) {
	t.Parallel()
	const good = `{"type":"app_metrics","name":"web,rps","points":[[1772323200,8],[1772323800,16],[1772325600,8]]}` + "\n"
	const demand = "series: {file: day.jsonl, metrics: {cpus: rps}, scale: {cpus: 0.5}}"
	run := func(demand, lines string) (code int, out, errs bytes.Buffer) {
		dir := inputs(t, "s.yaml", "series: {file: day.csv}", demand)
		if err := os.WriteFile(filepath.Join(dir, "day.jsonl"), []byte(lines), 0o644); err != nil {
			t.Fatal(err)
		}
		code = cli.Run([]string{"simulate", filepath.Join(dir, "s.yaml"), "--output", "json"}, nil, &out, &errs)
		return code, out, errs
	}
	_, want, _ := run("series: {file: day.csv }", "")
	if code, out, errs := run(demand, good); code != 0 || want.Len() == 0 || out.String() != want.String() {
		t.Errorf("it ended with %d and printed\n%s%s\nthe series of the same numbers\n%s", code, &out, &errs, &want)
	}
	for _, test := range []struct{ demand, lines, want string }{
		{demand, good + strings.Replace(good, `"points"`, `"dimensions":{"host":"a"},"points"`, 1), "day.jsonl: metric rps of app web has two series: record one"},
		{strings.Replace(demand, "cpus: rps", "cpus: queue", 1), good, "day.jsonl: it has no sample of queue"},
		{strings.Replace(demand, "cpus: rps", "apples: rps", 1), good, "s.yaml:2: demand.series.metrics: has apples: want cpus, mem, disk or gpus"},
		{strings.Replace(demand, "cpus: 0.5", "mem: 0.5", 1), good, "s.yaml:2: demand.series.scale: has mem: want a kind of metrics"},
		{demand, "x\n", "want a line of \"weir metrics get --output json\""},
	} {
		if code, out, errs := run(test.demand, test.lines); code != 2 || out.Len() > 0 || !strings.Contains(errs.String(), test.want) {
			t.Errorf("it ended with %d and printed %s%s\nwant %s", code, &out, &errs, test.want)
		}
	}
}

// The files of a scenario that runs.
const (
	goodPool = `resource_groups:
  - local: {name: blue, min: 1, max: 20, machine: {cpus: 4, mem: 16000, disk: 100000}}
scaling_limits: {min_capacity: 1, max_capacity: 20, max_weight_to_add: 20, max_weight_to_remove: 20}
autoscaling: {setpoint: 0.8, tick: 1m}
`
	goodScenario = `simulate: {pool: configs/local/default.yaml}
demand: {series: {file: day.csv}}
groups:
  blue:
    market: {type: m5.xlarge, zone: z}
    machine: {cpus: 4, mem: 16000}
    min: 1
    max: 20
    target: 1
prices: {table: prices.csv}
`
	goodDay = `time,cpus
2026-03-01T00:00:00Z,4
2026-03-01T00:10:00Z,8
2026-03-01T00:20:00Z,8
2026-03-01T00:30:00Z,8
2026-03-01T00:40:00Z,4
`
)

// inputs returns the good files with one replacement. An empty file is removed.
func inputs(t *testing.T, file, before, after string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	files := map[string]string{"configs/local/default.yaml": goodPool, "s.yaml": goodScenario, "day.csv": goodDay, "prices.csv": "type,price\nm5.xlarge,0.192\n"}
	if file != "" {
		changed := strings.Replace(files[file], before, after, 1)
		if changed == files[file] {
			t.Fatalf("%s has no %q", file, before)
		}
		files[file] = changed
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Each wrong input is named with its file, its line and what to do. What only makes the result doubtful is a warning.
func TestWrongScenarios(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, before, after string
		code                      int
		want                      []string // of standard error
	}{
		{"good", "", "", "", 0, nil},
		{"a market without a price", "prices.csv", "m5", "c5", 2, []string{"s.yaml:5: groups.blue.market: no price of on-demand m5.xlarge in z: add it to ", `prices.csv, by hand or with "weir prices"`}},
		{"a price that is no number", "prices.csv", "0.192", "cheap", 2, []string{"prices.csv:2:", "cheap"}},
		{"a price below zero", "prices.csv", "0.192", "-1", 2, []string{"prices.csv:2:", "want 0 to 100000"}},
		{"time that runs backwards", "day.csv", "00:20:00Z", "00:05:00Z", 2, []string{"day.csv:4: time 2026-03-01T00:05:00Z of app all does not follow 2026-03-01T00:10:00Z: sort the rows, and remove repeated ones"}},
		{"a time twice", "day.csv", "00:20:00Z", "00:10:00Z", 2, []string{"day.csv:4: time 2026-03-01T00:10:00Z of app all does not follow 2026-03-01T00:10:00Z"}},
		{"no time", "day.csv", "2026-03-01T00:20:00Z", "yesterday", 2, []string{`day.csv:4: time is "yesterday": want a time as 2026-03-01T00:00:00Z`}},
		{"a demand below zero", "day.csv", ",8", ",-8", 2, []string{`day.csv:3: cpus is "-8": want a number of at least 0`}},
		{"a demand that is not a number", "day.csv", ",8", ",NaN", 2, []string{`day.csv:3: cpus is "NaN": want a number of at least 0`}},
		{"a row with too many cells", "day.csv", ",8", ",8,9", 2, []string{"day.csv", "line 3", "wrong number of fields"}},
		{"an unknown column", "day.csv", "cpus", "cpu", 2, []string{`day.csv:1: column "cpu" is unknown or given twice: want time,app,cpus`}},
		{"instances of a series", "day.csv", "time,cpus", "time,instances", 2, []string{"day.csv:1: column instances is of demand.apps, and the demand is a series: remove the column"}},
		{"no rows", "day.csv", goodDay[len("time,cpus\n"):], "", 2, []string{"day.csv:1: it has no point: add rows"}},
		{"failures below zero", "s.yaml", "    target: 1\n", "    target: 1\n    failures: {per_hour: -1}\n", 2, []string{"s.yaml:10: groups.blue.failures.per_hour: is -1: want 0 to 1000"}},
		{"failures without repairs", "s.yaml", "    target: 1\n", "    target: 1\n    failures: {per_hour: 0.001}\n", 0, []string{"machines fail, and the file of policy default repairs none: they stay to the end; add a health block with mode act"}},
		{"a gap", "day.csv", "00:40:00Z", "05:00:00Z", 0, []string{"weir: warning: day.csv:6: no point of app all for 4h30m before it: the demand keeps the earlier value there; add the points"}},
		{"a run beyond its points", "s.yaml", "default.yaml}", "default.yaml, duration: 3h}", 0, []string{"weir: warning: day.csv has points from 2026-03-01T00:00:00Z to 2026-03-01T00:40:00Z, and the run is from 2026-03-01T00:00:00Z to 2026-03-01T03:00:00Z"}},
		{"a minimum beyond all machines", "s.yaml", "max: 20", "max: 0.5", 2, []string{"s.yaml:8"}},
		{"a policy that cannot meet its minimum", "configs/local/default.yaml", "{min_capacity: 1, max_capacity: 20,", "{min_capacity: 30, max_capacity: 40,", 2,
			[]string{"s.yaml:3: groups: hold a weight of at most 20, and policy default has scaling_limits.min_capacity 30: raise a max, or lower the limit"}},
		{"a policy that cannot meet its maximum", "s.yaml", "    min: 1\n    max: 20\n    target: 1", "    min: 30\n    max: 40\n    target: 30", 2,
			[]string{"s.yaml:3: groups: hold a weight of at least 30, and policy default has scaling_limits.max_capacity 20: lower a min, or raise the limit"}},
		{"demand beyond the limits", "day.csv", ",8", ",100", 0, []string{"weir: warning: policy default: the demand reaches 100 cpus, and the pool offers at most 80 at its limits: raise scaling_limits.max_capacity"}},
		{"a group that the scenario lacks", "s.yaml", "  blue:", "  red:", 0, []string{"weir: warning: the pool's file has group blue, and the scenario has no machines for it: add it to groups"}},
		{"an app whose demand is of no signal", "configs/local/default.yaml", "autoscaling:", "autoscale_signals: [{app: mail, namespace: n, name: s, version: v1.0.0, period_minutes: 1, required_metrics: [{name: x, type: app_metrics, minute_range: 9}]}, {app: web, namespace: n, name: s, version: v1.0.0, period_minutes: 1, required_metrics: [{name: x, type: app_metrics, minute_range: 9}]}]\nautoscaling:", 0,
			[]string{"weir: warning: policy default: no signal reports the demand of app all, because the pool's file has signals of mail, web only: change column app of day.csv"}},
		{"rows of the only app", "configs/local/default.yaml", "autoscaling:", "autoscale_signals: [{app: web, namespace: n, name: s, version: v1.0.0, period_minutes: 1, required_metrics: [{name: x, type: app_metrics, minute_range: 9}]}]\nautoscaling:", 0, nil},
		{"an advisor of a release", "configs/local/default.yaml", "autoscaling:", "autoscale_signals: [{app: web, raise: [{name: crowd, namespace: shop, version: v1.0.0, required_metrics: [{name: x, type: app_metrics, range: 9m}]}]}]\nautoscaling:", 0,
			[]string{"weir: warning: policy default: advisor web~crowd is shop/crowd, which a simulation cannot run: it raises nothing here"}},
		{"more than ten years", "s.yaml", "default.yaml}", "default.yaml, duration: 90000h}", 2, []string{"s.yaml:1: simulate.duration: makes 5400000 ticks of 1m in policy default: want at most 5270400; shorten it, or give the pool a longer autoscaling.tick"}},
		{"no machines", "s.yaml", "{cpus: 4, mem: 16000}", "{}", 2, []string{"s.yaml:6: groups.blue.machine: is missing: want what one machine offers"}},
		{"a negative time", "s.yaml", "    min: 1", "    leave: -5s\n    min: 1", 2, []string{"s.yaml:7: groups.blue.leave: is negative"}},
		{"a program without metrics", "s.yaml", "groups:", "signals: {web: {program: [x]}}\ngroups:", 2, []string{"s.yaml:3: signals.web.metrics: is missing: want the path of a file"}},
		{"a metric of no window", "s.yaml", "groups:", "signals: {web: {program: [/bin/true], metrics: day.csv}}\ngroups:", 1, []string{"day.csv:1: metric cpus: no window of the signals in the pool's file reads it: remove its column"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := inputs(t, test.file, test.before, test.after)
			var out, errs bytes.Buffer
			if code := cli.Run([]string{"simulate", filepath.Join(dir, "s.yaml")}, nil, &out, &errs); code != test.code {
				t.Errorf("it ended with %d, want %d", code, test.code)
			}
			for _, part := range test.want {
				if !strings.Contains(errs.String(), part) {
					t.Errorf("it printed\n%s\nwant %q", errs.String(), part)
				}
			}
			if test.want == nil && errs.Len() > 0 {
				t.Errorf("it printed %s", errs.String())
			}
			if (out.Len() > 0) != (test.code == 0) {
				t.Errorf("with code %d it printed the result %q", test.code, out.String())
			}
		})
	}
}

// A forecast in the pool's file reads the demand before the start of the run.
func TestForecastOfAScenario(t *testing.T) {
	t.Parallel()
	dir := inputs(t, "s.yaml", "default.yaml}", "default.yaml, start: 2026-03-15T00:00:00Z}")
	var day strings.Builder
	day.WriteString("time,cpus\n")
	for hour := range 16 * 24 {
		cpus := 4
		if of := hour % 24; of >= 9 && of < 17 {
			cpus = 40 + of
		}
		day.WriteString(fmt.Sprintf("%s,%d\n", time.Date(2026, 3, 1, hour, 0, 0, 0, time.UTC).Format(time.RFC3339), cpus))
	}
	raise := "autoscale_signals: [{app: all, raise: [{name: forecast, kind: builtin, period: 1m, required_metrics: [{name: requests, type: app_metrics, range: 336h, resolution: 5m}], parameters: {unit: {cpus: 0.1}, launch: 15m, time_zone: UTC}}]}]\n"
	for name, text := range map[string]string{"day.csv": day.String(), "configs/local/forecast.yaml": goodPool + raise} {
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	scenario := filepath.Join(dir, "s.yaml")
	text, err := os.ReadFile(scenario)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("    target: 1"), []byte("    target: 1\n    launch: {p50: 14m}")), []byte("demand: {series: {file: day.csv}}"), []byte("demand: {series: {file: day.csv, between: linear}}"))
	if err := os.WriteFile(scenario, text, 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := cli.Run([]string{"simulate", scenario, "--with", filepath.Join(dir, "configs/local/forecast.yaml"), "--output", "json"}, nil, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("it ended with %d: %s", code, errs.String())
	}
	var rows []api.Simulated
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil || len(rows) != 2 {
		t.Fatalf("%v: %s", err, out.String())
	}
	if without, with := rows[0].Unmet.Mean, rows[1].Unmet.Mean; !(without > 1) || with > without/4 {
		t.Errorf("unmet cpu-hours: %v, with a forecast %v: want a quarter at most", without, with)
	}
}
