package autoscaler_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/platform/testprograms"
)

const reloadService = `aws:
  region: eu-west-1
autoscale_signal:
  name: default
  period: 1m
  required_metrics:
    - {name: cpus_allocated, type: system_metrics, range: 10m}
  parameters:
    headroom: 1.25
autoscaling:
  margin_up: 0.05
  margin_down: 0.15
  cooldown:
    down: 1m30s
  orphan_instance_uptime_threshold_seconds: 1800
`

const reloadPool = `resource_groups:
  - local: {name: blue, min: 1, max: 10, machine: {cpus: 4, mem: 1000, disk: 10240}}
  - local: {name: green, min: 1, max: 10, machine: {cpus: 4, mem: 1000, disk: 10240}}
draining:
  draining_time_threshold_seconds: 1800
  force_terminate: true
autoscale_signals:
  - app: web
    name: rps
    version: v1.4.0
    period: 1m
    required_metrics:
      - {name: requests, type: app_metrics, range: 20m}
      - {name: cpus_expected, type: instance_counts, range: 10m}
    parameters:
      headroom: 1.25
    max_request: {cpus: 400}
  - app: mail
    name: rps
    version: v1.4.0
    period: 1m
    required_metrics:
      - {name: queue, type: app_metrics, range: 20m}
machines:
  blue: {cpus: 4, mem: 1000}
health:
  mode: observe
  detection:
    detection_modes:
      - {type: NODE_STATUS_POLLING}
autoscaling:
  tick: 20s
  configuration_grace: 6m
  setpoint: 0.95
  budgets:
    - {direction: down, within: 1h, at_most: 90%}
scaling_limits:
  min_capacity: 1
  max_weight_to_add: 100
  max_weight_to_remove: 100
  max_tasks_to_kill: inf
  max_capacity: 10
`

// readFiles returns the configuration of two files, or why they are rejected.
func readFiles(service, pool string) (c autoscaler.Config, err error) {
	s, p, err := config.Files{
		Cluster: "here", Pool: "default",
		Service: config.File{Path: "weir.yaml", Text: []byte(service)}, PoolIn: config.File{Path: "default.yaml", Text: []byte(pool)},
	}.Decode()
	if err != nil {
		return autoscaler.Config{}, err
	}
	c = config.Autoscaler(s, p)
	c.Parts = config.Parts(s, p)
	return c, nil
}

// cuts returns all prefixes of a file, and the file without each of its blocks: a line with the deeper lines after it.
func cuts(text string) (out []string) {
	for i := range text {
		out = append(out, text[:i])
	}
	lines := strings.SplitAfter(text, "\n")
	deep := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	for i := range lines {
		end := i + 1
		for end < len(lines) && deep(lines[end]) > deep(lines[i]) {
			end++
		}
		out = append(out, strings.Join(slices.Concat(lines[:i], lines[end:]), ""))
	}
	return out
}

// reloads are the valid configurations that one cut of a file makes, by the text of the file.
func reloads() map[string]autoscaler.Config {
	out := map[string]autoscaler.Config{}
	for _, text := range cuts(reloadPool) {
		if c, err := readFiles(reloadService, text); err == nil {
			out["default.yaml:\n"+text] = c
		}
	}
	for _, text := range cuts(reloadService) {
		if c, err := readFiles(text, reloadPool); err == nil {
			out["weir.yaml:\n"+text] = c
		}
	}
	return out
}

// wantNamed checks that a change names exactly the parts that differ.
func wantNamed(t *testing.T, what string, before, after map[string]string, c *api.ConfigurationChange) {
	t.Helper()
	if maps.Equal(before, after) {
		if c != nil {
			t.Errorf("%s\nthe same parts are a change: %s", what, c)
		}
		return
	}
	if c == nil {
		t.Errorf("%s\nthe change has no event", what)
		return
	}
	named := map[string]string{}
	for _, name := range c.Left {
		named[name] = "left"
	}
	for _, one := range c.Changed {
		named[one.What] = one.From + " -> " + one.To
	}
	for _, name := range c.Came {
		named[name] = "came"
	}
	want := map[string]string{}
	for name, was := range before {
		if is, there := after[name]; !there {
			want[name] = "left"
		} else if is != was {
			want[name] = was + " -> " + is
		}
	}
	for name := range after {
		if _, there := before[name]; !there {
			want[name] = "came"
		}
	}
	if !maps.Equal(named, want) || c.Omitted > 0 {
		t.Errorf("%s\nthe event names %v, want %v", what, named, want)
	}
}

// Any prefix of a file and any deletion of a block ends no machine within the grace, in the same process and in a new one,
// and the event names the difference.
func TestNoCutOfAFileEndsAMachine(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "autoscaler") {
		return
	}
	whole, err := readFiles(reloadService, reloadPool)
	if err != nil {
		t.Fatal(err)
	}
	w, all := autoscaler.NewReloadWorld(t, whole), reloads()
	if len(all) < 30 {
		t.Fatalf("%d cuts are valid, want more", len(all))
	}
	for i, text := range slices.Sorted(maps.Keys(all)) {
		cut := all[text]
		w.Adopt(i%5 == 0, cut)
		held := false // a cut that adds a default does not hold the pool; to remove the default does
		for minute := range 5 {
			r := w.Tick(text)
			held = r.ConfigurationHold != nil
			if minute == 0 {
				wantNamed(t, text, whole.Parts, cut.Parts, r.Configuration)
			}
		}
		w.Adopt(i%7 == 0, whole)
		if r := w.Tick(text); held && r.ConfigurationHold != nil {
			t.Fatalf("%s\nthe whole file is there again, and the pool is held: %+v", text, r.ConfigurationHold)
		}
		for w.Tick(text).ConfigurationHold != nil {
		}
	}
}

// Any two saves between two ticks end no machine within the grace.
func TestNoTwoSavesEndAMachine(t *testing.T) {
	t.Parallel()
	if testprograms.WithoutRace(t, "autoscaler") {
		return
	}
	whole, err := readFiles(reloadService, reloadPool)
	if err != nil {
		t.Fatal(err)
	}
	w, all := autoscaler.NewReloadWorld(t, whole), reloads()
	texts := slices.Sorted(maps.Keys(all))
	rapid.Check(t, func(rt *rapid.T) {
		one, other := rapid.SampledFrom(texts).Draw(rt, "first"), rapid.SampledFrom(texts).Draw(rt, "second")
		process, between := rapid.Bool().Draw(rt, "process"), rapid.Bool().Draw(rt, "tick between")
		what := fmt.Sprintf("%s\nthen %s", one, other)
		before := whole.Parts
		w.Adopt(process, all[one])
		if between {
			w.Tick(what)
			w.Tick(what) // saves that the event is recorded
			before = all[one].Parts
		}
		w.Adopt(process, all[other])
		for minute := range 4 {
			if r := w.Tick(what); minute == 0 {
				wantNamed(t, what, before, all[other].Parts, r.Configuration)
			}
		}
		w.Adopt(process, whole)
		w.Tick(what)
		w.Tick(what)
	})
}
