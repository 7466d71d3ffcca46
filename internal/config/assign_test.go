package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each key of the policy can have another value, in a list, in a missing block, and as a whole.
func TestOtherValues(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "default.yaml")
	const text = goodPool + `headroom: [{name: spare, resources: {cpus: 1, mem: 1}, count: 1}]
autoscale_signals:
  - app: web
    raise:
      - {name: forecast, kind: builtin, required_metrics: [{name: x, type: app_metrics, range: 672h, resolution: 5m}], parameters: {unit: {cpus: 1}, time_zone: UTC}}
rotation:
`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	read := func(values ...string) (Pool, error) {
		var all []Assignment
		for _, v := range values {
			key, value, _ := strings.Cut(v, "=")
			all = append(all, Assignment{Key: key, Value: value})
		}
		return ReadPoolWith(file, "here", "default", all)
	}
	p, err := read("headroom[0].count=2", "headroom[0].percent=10", "rotation.max_age=20d", "rotation.health_gate.wait=10m", "autoscaling.failed_boots=5",
		"windows=[{name: night, days: daily, from: \"22:00\", to: \"04:00\", time_zone: UTC, allow: [roll]}]", "windows[0].from=\"21:00\"", "windows[0].allow=[roll, rotate]",
		"autoscale_signals[0].raise[0].parameters.launch=15m", "autoscale_signals[0].raise[0].max_request.cpus=40", "scaling_limits.max_capacity=7")
	if err != nil {
		t.Fatal(err)
	}
	advisor := p.Signals[0].Raise[0]
	if h := p.Headroom[0]; h.Count != 2 || h.Percent != 10 || h.Name != "spare" {
		t.Errorf("headroom %+v", h)
	}
	if r := p.Rotation; time.Duration(r.MaxAge) != 480*time.Hour || *r.Gate.Wait != 10*time.Minute {
		t.Errorf("rotation %+v", r)
	}
	if w := p.Windows; len(w) != 1 || w[0].From != "21:00" || len(w[0].Allow) != 2 || *p.Autoscaling.FailedBoots != 5 || *p.Limits.Max != 7 {
		t.Errorf("windows %+v, autoscaling %+v, limits %+v", w, p.Autoscaling, p.Limits)
	}
	if advisor.Parameters["launch"] != "15m" || advisor.Parameters["time_zone"] != "UTC" || advisor.MaxRequest == (Amounts{}) {
		t.Errorf("advisor %+v", advisor)
	}
	for value, want := range map[string]string{
		"headroom[0].count=-1":            file + " with headroom[0].count=-1: headroom[0].count: is -1: want 0 to",
		"headroom[1].count=1":             `"headroom[1].count=1": the file has no entry [1]`,
		"headroom.count=1":                `the file has a value without keys above count`,
		"headrom[0].count=1":              "the key is not of the policy; did you mean headroom?",
		"resource_groups[0].x=1":          "want one below autoscale_signal, autoscale_signals, autoscaling, headroom, rotation, scaling_limits, windows",
		"rotation.max_ages=1d":            "max_ages: no such key",
		"rotation.max_age=soon":           `rotation.max_age: is "soon": want a duration such as 30d or 12h`,
		"scaling_limits.min_capacity=2 #": "on one line, without #",
		"scaling_limits.min_capacity=[":   "the value is not YAML",
		"scaling_limits.min_capacity":     "want KEY=VALUE",
	} {
		if _, err := read(value); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", value, err, want)
		}
	}
}
