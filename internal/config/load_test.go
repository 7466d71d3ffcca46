package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	both := map[string]string{"weir.yaml": "", "prod/default.yaml": goodPool}
	for _, c := range []struct {
		name          string
		files         map[string]string
		cluster, pool string
		want          string
	}{
		{"both files", both, "prod", "default", ""},
		{"no service file", map[string]string{"prod/default.yaml": goodPool}, "prod", "default", ""},
		{"no such pool", map[string]string{"prod/b.yaml": "", "prod/a.yaml": "", "prod/notes.txt": "", "prod/c.yaml.next": ""}, "prod", "defualt",
			"open DIR/prod/defualt.yaml: no such file or directory: name a file that exists; pools of cluster prod: a, b"},
		{"cluster without a pool", map[string]string{"prod/notes.txt": ""}, "prod", "default",
			"open DIR/prod/default.yaml: no such file or directory: name a file that exists; cluster prod has no pool in DIR"},
		{"no such cluster", both, "test", "default",
			`open DIR/test/default.yaml: no such file or directory: name a file that exists; DIR has no cluster "test": give --config-dir, --cluster and --pool`},
		{"pool that climbs", both, "prod", "../prod/default", `pool name "../prod/default": ` + nameHint},
		{"cluster that climbs, and pool", both, "..", "..", `cluster name "..": ` + nameHint},
		{"both files are wrong", map[string]string{
			"weir.yaml":         "nats: {user: 5}\naws: {bucket: x}\n",
			"prod/default.yaml": goodPool + "autoscaling: {setpoint: 2}\n",
		}, "prod", "default",
			"DIR/weir.yaml:1: nats.user: is 5: want a text: write \"5\"\n" +
				"DIR/weir.yaml:2: aws.bucket: no such key (allowed: access_key_file, endpoint_url, path_style, region, signals_bucket, signals_prefix, warning_queue_url)\n" +
				"DIR/prod/default.yaml:4: autoscaling.setpoint: is 2: want above 0 and at most 1"},
		{"a folder for a file", map[string]string{"weir.yaml": "", "prod/default.yaml/x": ""}, "prod", "default",
			"read DIR/prod/default.yaml: is a folder: name a file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range c.files {
				writeFile(t, filepath.Join(dir, name), text)
			}
			_, _, err := Load(dir, c.cluster, c.pool)
			expectError(t, replaceText(err, dir, "DIR"), c.want)
		})
	}
}

// A named pipe without a writer is refused at once. A pipe with a writer is read.
func TestLoadFromAPipe(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "weir.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadService(dir); err == nil || !strings.Contains(err.Error(), "a pipe to which no process writes") {
		t.Errorf("without a writer: %v", err)
	}
	end, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	_, err = writer.WriteString("autoscaling: {tick: 3s}\n")
	if err = errors.Join(err, writer.Close(), os.Remove(path), os.Symlink(fmt.Sprintf("/proc/self/fd/%d", end.Fd()), path)); err != nil {
		t.Fatal(err)
	}
	if s, err := LoadService(dir); err != nil || s.Autoscaling.Tick != 3*time.Second {
		t.Errorf("with a writer: tick %v, %v, want 3s", s.Autoscaling.Tick, err)
	}
}

func TestLoadServiceAlone(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no file", "", ""},
		{"default signal of another name", "autoscale_signal:\n  name: rps\n", `DIR/weir.yaml:2: autoscale_signal.name: is "rps": weir ships calendar, default, forecast, instance_count, pending; of a release, the version is missing`},
		{"a calendar", "autoscale_signal:\n  name: calendar\n", "DIR/weir.yaml:2: autoscale_signal.name: is calendar, which has no opinion outside of its periods, so the pool would never shrink: list it in raise of an app"},
		{"a forecast", "autoscale_signal:\n  name: forecast\n", "DIR/weir.yaml:2: autoscale_signal.name: is forecast, which has no opinion without a season, so the pool would never shrink: list it in raise of an app"},
		{"its period", "autoscale_signal:\n  period: 1ms\n", "DIR/weir.yaml:2: autoscale_signal.period: is 1ms: want 100ms to 8760h"},
		{"its time limit", "autoscale_signal:\n  period: 1m\n  time_limit: 2m\n", "DIR/weir.yaml:3: autoscale_signal.time_limit: is 2m: want 500ms to the period of the signal, 1m"},
		{"its windows", "autoscale_signal:\n  required_metrics:\n  - {name: m, type: x, range: 1m}\n",
			`DIR/weir.yaml:3: autoscale_signal.required_metrics[0].type: is "x": want one of system_metrics, app_metrics, metadata, instance_counts`},
		{"store", "metrics: {influx: {url: 'http://127.0.0.1:8086', bucket: b}}\n", ""},
		{"no store", "metrics:\n", ""},
		{"the embedded store", "metrics: {embedded: {retention: 2160h}}\n", ""},
		{"short retention", "metrics:\n  embedded: {retention: 1h}\n", "DIR/weir.yaml:2: metrics.embedded.retention: is 1h0m0s: want at least 2h0m0s"},
		{"store that is incomplete", "metrics:\n  influx: {url: 'http://me:secret@host'}\n", "DIR/weir.yaml:2: metrics.influx.url: contains a password: put the token in token_file\n" +
			"DIR/weir.yaml:2: metrics.influx.bucket: is missing: want the bucket, of InfluxDB 1.8 database/retention policy"},
		{"unknown store", "metrics:\n  graphite: {}\n", "DIR/weir.yaml:2: metrics.graphite: no such key" + allowed(Metrics{}.options())},
		{"unknown key of a store", "metrics:\n  influx: {uri: x}\n", "DIR/weir.yaml:2: metrics.influx.uri: no such key; did you mean url? (allowed: bucket, org, token_file, url)\n" +
			"DIR/weir.yaml:2: metrics.influx.bucket: is missing: want the bucket, of InfluxDB 1.8 database/retention policy"},
		{"margins", "autoscaling: {margin_down: 1, margin_up: 1, target_capacity_margin: 1}\n",
			"DIR/weir.yaml:1: autoscaling.target_capacity_margin: is 1: want at least 0 and below 1\n" +
				"DIR/weir.yaml:1: autoscaling.margin_up: is 1: want at least 0 and below 1\n" +
				"DIR/weir.yaml:1: autoscaling.margin_down: is 1: want at least 0 and below 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if c.text != "" {
				writeFile(t, filepath.Join(dir, "weir.yaml"), c.text)
			}
			_, err := LoadService(dir)
			expectError(t, replaceText(err, dir, "DIR"), c.want)
		})
	}
}

func TestErrorsAreDistinct(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadPool(filepath.Join(dir, "none.yaml"), "prod", "default"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error of a missing file: %v, want fs.ErrNotExist", err)
	}
	writeFile(t, filepath.Join(dir, "weir.yaml"), "nats: {user: 5}\n")
	_, _, err := Load(dir, "prod", "default")
	p, ok := errors.AsType[*keyProblem](err)
	if !ok || p.Line != 1 || p.Key != "nats.user" || p.File != filepath.Join(dir, "weir.yaml") {
		t.Errorf("problem %+v of error %v, want that of nats.user on line 1", p, err)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist of the pool's file too", err)
	}
}

func TestValidateOfZeroValues(t *testing.T) {
	if err := (Service{}).Validate(); err == nil {
		t.Error("the zero service is valid, want an error")
	}
	if err := (Pool{}).Validate(); err == nil {
		t.Error("the zero pool is valid, want an error")
	}
}

func TestFileOf(t *testing.T) {
	if got := FileOf("prod", "default"); got != "prod/default.yaml" {
		t.Errorf("FileOf(prod, default) = %s, want prod/default.yaml", got)
	}
}
