package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/config"
)

const goodScenario = `
simulate: {pool: p.yaml, seeds: 5, delay: 1m}
demand: {series: {file: day.csv, between: linear, scale: {cpus: 0.5}}}
groups:
  blue:
    market: {type: m5.xlarge, zone: a}
    machine: {cpus: 4, mem: 16000}
    launch: {p50: 100s, p95: 240s, pending: 20s}
events:
  - {at: 5h, group: blue, stock: 4, for: 20m}
prices: {table: prices.csv}
`

func readScenario(t *testing.T, text string) (config.Simulation, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.ReadSimulation(path)
}

func TestReadSimulation(t *testing.T) {
	s, err := readScenario(t, goodScenario)
	if err != nil {
		t.Fatal(err)
	}
	g := s.Groups["blue"]
	if s.Run.Seeds != 5 || s.Run.Delay != time.Minute || s.Demand.Series.Scale["cpus"] != 0.5 || g.Machine.CPUs != 4 || g.Launch.P95 != 4*time.Minute ||
		len(s.Events) != 1 || *s.Events[0].Stock != 4 || s.Billing != nil || s.Prices.Table != "prices.csv" {
		t.Errorf("scenario %+v", s)
	}
}

func TestBadSimulations(t *testing.T) {
	tests := []struct{ old, text, want string }{
		{"pool: p.yaml, ", "", ":2: simulate.pool: is missing"},
		{"delay: 1m", "start: noon", ":2: simulate.start: is no time: want one as 2026-03-01T00:00:00Z"},
		{"seeds: 5", "seeds: 5000", ":2: simulate.seeds: or seed is out of range"},
		{"seeds: 5", "seeds: five", ":2: simulate.seeds: is \"five\": want"},
		{"between: linear", "between: curve", `:3: demand.series.between: is "curve": want linear or step`},
		{"series: {", "serie: {", ":3: demand.serie: no such key; did you mean series?"},
		{"{series: {file: day.csv, between: linear, scale: {cpus: 0.5}}}", "{}", "demand: want one of series and apps"},
		{"{series: {file: day.csv, between: linear, scale: {cpus: 0.5}}}", "{apps: [{name: web, cpus: 1}]}", "demand.apps[0]: want one of instances and file"},
		{"    machine: {cpus: 4, mem: 16000}\n", "", "groups.blue.machine: is missing"},
		{"p50: 100s", "p50: 100", "groups.blue.launch.p50: is 100: want a duration"},
		{"p50: 100s", "p50: -1s", ":8: groups.blue.launch: has a negative time"},
		{"    launch:", "    leave: -1s\n    launch:", ":8: groups.blue.leave: is negative"},
		{"    launch:", "    max: 3\n    min: 4\n    launch:", ":8: groups.blue.max: is 3: want at least min, which is 4, or 0 for no bound"},
		{"    launch:", "    max: 3\n    target: 4\n    launch:", ":9: groups.blue.target: is 4: want min to max, which is 3"},
		{"    launch:", "    interruptions: {per_hour: -1, warning: -2m}\n    launch:", ":8: groups.blue.interruptions.per_hour: is -1: want 0 to 1000"},
		{"at: 5h", "at: -5h", ":10: events[0]: has a negative time: at counts from the start"},
		{"stock: 4, ", "", ":10: events[0]: changes nothing: want stock, lost, signals_fail or order"},
		{"stock: 4", "stock: -4", ":10: events[0]: has a negative stock"},
		{"group: blue, stock", "group: red, stock", ":10: events[0]: is of group red, and the scenario has no such group"},
		{"group: blue, stock", "zone: b, stock", ":10: events[0]: is of zone b, and no group of the scenario is in it"},
		{"{table: prices.csv}", "{currency: EUR}", "prices: want a table or a spot_history"},
	}
	for _, test := range tests {
		text := strings.Replace(goodScenario, test.old, test.text, 1)
		if text == goodScenario {
			t.Fatalf("%q is not in the scenario", test.old)
		}
		if _, err := readScenario(t, text); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("with %q: %v, want %q", test.text, err, test.want)
		}
	}
}
