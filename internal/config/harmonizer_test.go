package config

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// healthManager has every key of the two generations of Cloud Foundry's health manager.
const healthManager = `---
mbus: nats://localhost:4222/
local_route: 127.0.0.1
index: 2
pid: /tmp/health_manager.pid
cc_partition: default
shadow_mode: enable
bulk_api:
  host: api.vcap.me
  batch_size: "500"
logging:
  level: debug
status: {port: 0, user: a, password: b}
known_state_provider: NatsBasedKnownStateProvider
expected_state_provider: BulkBasedExpectedStateProvider
number_of_droplets_analyzed_per_analysis_iteration: 200
black_box_test_mode: false
run_loop_interval: 2
intervals:
  desired_state_update: 60
  desired_state_lost: 180
  postpone_update: 30
  droplet_lost: 30
  droplets_analysis: 20
  analysis_delay: 5
  flapping_death: 3
  flapping_timeout: 500
  min_restart_delay: 60
  max_restart_delay: 480
  delay_time_noise: 10
  giveup_crash_number: 0
  request_queue: 1
  queue_batch_size: 40
  bulk_credentials_timeout: 5
  droplet_gc_grace_period: 240
  droplet_gc: 300
  max_droplets_in_varz: 0
  max_shadowing_delay: 10
  check_shadowing: 30
`

func TestHealthManagerFile(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "health_manager.yml"), healthManager)
	h, warnings, err := LoadHarmonizer(dir)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, w := range warnings {
		if w.Key == "legacy_deas" {
			continue // see TestLegacyDEAs
		}
		keys = append(keys, w.Key)
		if w.Line == 0 || !strings.HasPrefix(w.What, "is ignored") {
			t.Errorf("warning %v", w)
		}
	}
	want := []string{
		"local_route", "pid", "logging", "known_state_provider", "expected_state_provider",
		"number_of_droplets_analyzed_per_analysis_iteration", "black_box_test_mode", "run_loop_interval",
		"intervals.postpone_update", "intervals.droplets_analysis", "intervals.analysis_delay", "intervals.droplet_gc",
		"intervals.max_droplets_in_varz",
	}
	if diff := cmp.Diff(want, keys); diff != "" {
		t.Errorf("warned keys (-want +got):\n%s", diff)
	}
	if h.Status != (CollectorKeys{User: "a", Password: "b"}) || h.Status.Address() != "" {
		t.Errorf("status %+v at %q, want the user, the password and no address", h.Status, h.Status.Address())
	}
	if h.Index != 2 {
		t.Errorf("index %d, want 2", h.Index)
	}
	if !h.Shadows() || h.Starter != starterController || h.BulkAPI.BatchSize != 500 || !*h.FilterPartition {
		t.Errorf("shadow mode, starter, batch size or filter: %+v", h)
	}
	if in := h.Intervals; time.Duration(*in.ExpectedUpdate) != time.Minute || *in.GiveUp != 0 || *in.FlappingDeath != 3 ||
		time.Duration(*in.RequestTimeout) != 5*time.Second {
		t.Errorf("intervals: %+v", in)
	}
}

func TestHarmonizerFile(t *testing.T) {
	for name, tc := range map[string]struct {
		text, want string
	}{
		"empty":              {"", ""},
		"at the top":         {"droplet_lost: 1m\ngiveup_crash_number: -1\n", ""},
		"twice the same":     {"droplet_lost: 60\nintervals: {heartbeat_deadline: 1m}\n", ""},
		"twice":              {"intervals: {droplet_lost: 60, heartbeat_deadline: 50}\n", "FILE:1: intervals.droplet_lost: is given twice, under two names or in two places, with two values: keep one"},
		"unknown":            {"intervals:\n  droplet_lots: 3\n", "FILE:2: intervals.droplet_lots: no such key; did you mean droplet_lost? (allowed: " + strings.Join(slices.Sorted(slices.Values(keysOf(reflect.TypeFor[Intervals]()))), ", ") + ")"},
		"negative":           {"intervals: {droplet_lost: -3}\n", `FILE:1: intervals.droplet_lost: is -3: want a number of seconds, or a duration such as "30s" or "10m"`},
		"words":              {"intervals: {droplet_lost: soon}\n", `FILE:1: intervals.droplet_lost: is "soon": want a number of seconds, or a duration such as "30s" or "10m"`},
		"shorter than beats": {"intervals: {droplet_lost: 10}\n", "FILE:1: intervals.droplet_lost: is 10s: want more than heartbeat_period, 10s"},
		"dialect":            {"dialect: classic\n", `FILE:1: dialect: is "classic": want health or cloudcontroller or both`},
		"index":              {"index: -1\n", "FILE:1: index: is -1: want a number of this harmonizer, at least 0"},
		"disruption limit":   {"disruption_limit: 30\n", "FILE:1: disruption_limit: is 30: want above 0 and at most 1, a share of the instances; 1 is off"},
		"two sources":        {"bulk_api: {host: h}\nexpected_state: {file: apps.yaml}\n", "FILE:2: expected_state.file: conflicts with bulk_api: keep one source of rows"},
		"no host":            {"bulk_api: {batch_size: 5}\n", "FILE:1: bulk_api.host: is missing: want the cloud controller's address"},
		"batch":              {"bulk_api: {host: h, batch_size: many}\n", `FILE:1: bulk_api.batch_size: is "many": want a whole number`},
		"page":               {"bulk_api: {host: h, request_timeout: 0}\n", "FILE:1: bulk_api.request_timeout: is 0s: want at least 100ms"},
		"half a login":       {"bulk_api: {host: h, user: u}\n", "FILE:1: bulk_api.user: needs password_file, and password_file needs user: give both, or neither to request them on the bus"},
		"apps without bulk":  {"apps: {web: {pool: blue}}\n", "FILE:1: apps: is only for bulk_api: rows of the bus and of a file have these fields"},
		"app":                {"bulk_api: {host: h}\napps:\n  '*': {pool: 'a b'}\n  web: {cpus: -1}\n", "FILE:3: apps.*.pool: is \"a b\": " + names.Rule + "\nFILE:4: apps.web.cpus: is -1: want cores, 0 to 1000000"},
	} {
		t.Run(name, func(t *testing.T) {
			file := writeFile(t, filepath.Join(t.TempDir(), "h.yaml"), tc.text)
			_, _, err := ReadHarmonizer(file)
			expectError(t, replaceText(err, file, "FILE"), tc.want)
		})
	}
}

// Without a file the defaults apply, and the source is the bucket on the bus.
func TestNoHarmonizerFile(t *testing.T) {
	h, warnings, err := LoadHarmonizer(t.TempDir())
	if err != nil || warnings != nil {
		t.Fatal(warnings, err)
	}
	if h.Starter != starterSelf || h.Dialect != dialectHealth || h.Shadows() || *h.FilterPartition || h.Lease != 0 {
		t.Errorf("defaults: %+v", h)
	}
}

// An explicit zero is not replaced by a default.
func TestExplicitZerosOfTheHarmonizer(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "h.yaml"),
		"disruption_limit_floor: 0\nintervals: {flapping_death: 0, droplet_gc_grace_period: 0, reset_grace: 0, delay_time_noise: 0, giveup_crash_number: 0}\n")
	h, _, err := ReadHarmonizer(file)
	if err != nil {
		t.Fatal(err)
	}
	c := h.Rules().WithDefaults()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if *c.DisruptionFloor != 0 || *c.FlappingDeath != 0 || *c.DropletGCGracePeriod != 0 || *c.ResetGrace != 0 || *c.DelayTimeNoise != 0 || *c.GiveupCrashNumber != 0 {
		t.Errorf("rules: %+v", c)
	}
	c = Harmonizer{}.Rules().WithDefaults()
	if *c.DisruptionFloor != 10 || *c.FlappingDeath != 1 || *c.DropletGCGracePeriod != 240*time.Second || *c.GiveupCrashNumber != 4 {
		t.Errorf("defaults: %+v", c)
	}
}
