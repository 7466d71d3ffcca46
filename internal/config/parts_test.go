package config

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

const partsPool = `resource_groups:
  - local: {name: blue, min: 1, max: 10, machine: {cpus: 1, mem: 1024, disk: 10240}}
  - local: {name: green, min: 1, max: 10, machine: {cpus: 1, mem: 1024, disk: 10240}}
scaling_limits: {min_capacity: 1, max_capacity: 10, max_weight_to_add: 10, max_weight_to_remove: 5, max_tasks_to_kill: inf}
autoscaling: {tick: 1s, setpoint: 1}
health:
  mode: act
  detection:
    detection_modes:
      - {type: NODE_STATUS_POLLING}
draining: {draining_time_threshold_seconds: 60}
autoscale_signals:
  - app: web
    name: rps
    version: v1
    period: 1m
    required_metrics:
      - {name: requests, type: app_metrics, range: 20m}
      - {name: cpus_expected, type: instance_counts, range: 10m}
    parameters: {headroom: 1.2, api_token: hush}
  - app: mail
`

// Each change of a file differs in the parts that it names.
func TestPartsNameTheDifference(t *testing.T) {
	decoded := func(service, pool string) (map[string]string, error) {
		s, p, err := Files{Cluster: "here", Pool: "web", Service: File{Path: "weir.yaml", Text: []byte(service)}, PoolIn: File{Path: "web.yaml", Text: []byte(pool)}}.Decode()
		if err != nil {
			return nil, err
		}
		return Parts(s, p), nil
	}
	before, err := decoded("", partsPool)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range before {
		if strings.Contains(text, "hush") {
			t.Errorf("part %s has a secret: %s", name, text)
		}
	}
	for _, test := range []struct{ name, from, to, left, came, changed string }{
		{"nothing", "- app: mail", "- app: mail # a comment", "", "", ""},
		{"an app", "  - app: mail\n", "", "app mail", "", ""},
		{"an app and its signal", partsPool[strings.Index(partsPool, "autoscale_signals"):], "autoscale_signals:\n  - app: mail\n",
			"app web,metric cpus_expected of app web,metric requests of app web,signal of app web", "", ""},
		{"a metric", "      - {name: requests, type: app_metrics, range: 20m}\n", "", "metric requests of app web", "", ""},
		{"a release", "version: v1", "version: v2", "", "", "signal of app web web/rps@v1 -> web/rps@v2"},
		{"a parameter", "headroom: 1.2", "headroom: 1.1", "", "", "app web"},
		{"a group", "  - local: {name: green, min: 1, max: 10, machine: {cpus: 1, mem: 1024, disk: 10240}}\n", "", "group green", "", ""},
		{"a limit", "max_capacity: 10", "max_capacity: 1", "", "", "scaling_limits.max_capacity 10 -> 1"},
		{"the policy of node health", "mode: act", "mode: observe", "", "", "health.mode act -> observe"},
		{"a default", "draining: {draining_time_threshold_seconds: 60}\n", "", "", "", "draining.draining_time_threshold_seconds 60 -> 1800"},
	} {
		if !strings.Contains(partsPool, test.from) {
			t.Fatalf("%s: the file lacks it", test.name)
		}
		after, err := decoded("", strings.Replace(partsPool, test.from, test.to, 1))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		wantDifference(t, test.name, before, after, test.left, test.came, test.changed)
	}
	after, err := decoded("autoscale_signal: {parameters: {headroom: 2}}\nautoscaling: {cooldown: {down: 10m}}\naws: {region: eu-west-1}\nreleases: {keep: 1h}\n", partsPool)
	if err != nil {
		t.Fatal(err)
	}
	wantDifference(t, "weir.yaml", before, after, "", "autoscaling.cooldown.down", "the default signal")
}

func wantDifference(t *testing.T, name string, before, after map[string]string, left, came, changed string) {
	t.Helper()
	var gone, new, other []string
	for _, part := range slices.Sorted(maps.Keys(before)) {
		switch is, there := after[part]; {
		case !there:
			gone = append(gone, part)
		case is != before[part]:
			other = append(other, part+" "+before[part]+" -> "+is)
		}
	}
	for _, part := range slices.Sorted(maps.Keys(after)) {
		if _, there := before[part]; !there {
			new = append(new, part)
		}
	}
	if strings.Join(gone, ",") != left || strings.Join(new, ",") != came || !strings.HasPrefix(strings.Join(other, ","), changed) || (changed == "") != (other == nil) {
		t.Errorf("%s: left %q, came %q, changed %q; want %q, %q, %q", name, gone, new, other, left, came, changed)
	}
}
