package builtin_test

import (
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
)

func window(values ...float64) signals.Series {
	return signals.Series{Times: make([]int64, len(values)), Values: values}
}

func TestSignals(t *testing.T) {
	allocated := map[string]signals.Series{
		"cpus_allocated": window(4, 10, 2), "mem_allocated": window(0), "disk_allocated": window(),
		"gpus_allocated": window(8), "cpus_expected": window(99), "cpus_allocated|app=web": window(99),
	}
	expected := map[string]signals.Series{
		"cpus_expected": window(4, 10, 2), "mem_expected": window(512, 0), "disk_expected": window(),
		"cpus_expected|app=web": window(99), "cpus_allocated": window(99), "gpus_expected": window(1),
	}
	for _, test := range []struct {
		name   string
		signal signals.Signal
		in     signals.Input
		want   resource.Request
		wrong  string
	}{
		{"default: the largest of each window", builtin.Default{}, signals.Input{Metrics: allocated},
			resource.Request{}.With(resource.CPUs, 10).With(resource.Mem, 0), ""},
		{"default: headroom", builtin.Default{}, signals.Input{Metrics: allocated, Parameters: signals.Parameters{"headroom": 1.5}},
			resource.Request{}.With(resource.CPUs, 15).With(resource.Mem, 0), ""},
		{"default: no windows, no opinion", builtin.Default{}, signals.Input{}, resource.Request{}, ""},
		{"instance count: the last of each window", builtin.InstanceCount{}, signals.Input{Metrics: expected},
			resource.Request{}.With(resource.CPUs, 2).With(resource.Mem, 0), ""},
		{"instance count: headroom", builtin.InstanceCount{}, signals.Input{Metrics: expected, Parameters: signals.Parameters{"headroom": 2.0}},
			resource.Request{}.With(resource.CPUs, 4).With(resource.Mem, 0), ""},
		{"instance count: no windows, no opinion", builtin.InstanceCount{}, signals.Input{}, resource.Request{}, ""},
		{"headroom is a string", builtin.Default{}, signals.Input{Parameters: signals.Parameters{"headroom": "2"}}, resource.Request{}, `"headroom"`},
		{"headroom is zero", builtin.InstanceCount{}, signals.Input{Parameters: signals.Parameters{"headroom": 0.0}}, resource.Request{}, `"headroom"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.signal.Value(t.Context(), test.in)
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) {
					t.Errorf("Value = %v, want an error with %q", err, test.wrong)
				}
				return
			}
			if err != nil || got != test.want {
				t.Errorf("Value = %v, %v; want %v", got, err, test.want)
			}
		})
	}
}
