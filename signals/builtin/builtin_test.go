package builtin_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/builtin"
)

func window(values ...float64) signals.Series {
	return signals.Series{Times: make([]int64, len(values)), Values: values}
}

type windows = map[string]signals.Series

// test is one request to a signal.
type test struct {
	name       string
	metrics    windows
	parameters signals.Parameters
	want       resource.Request
	wrong      string // part of the error; empty: no error
	why        string // part of the explanation
}

func request(cpus, mem float64) resource.Request {
	return resource.Request{}.With(resource.CPUs, cpus).With(resource.Mem, mem)
}

// run calls the signal. No opinion is the error ErrNoOpinion.
func run(t *testing.T, s signals.Signal, tests []test) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, explanation := signals.WithExplanation(t.Context())
			got, err := s.Value(ctx, signals.Input{App: "web", Metrics: tt.metrics, Parameters: tt.parameters})
			if tt.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wrong) || errors.Is(err, signals.ErrNoOpinion) != strings.Contains(tt.wrong, "no opinion") {
					t.Errorf("Value = %v, %v, want an error with %q", got, err, tt.wrong)
				}
				return
			}
			if err != nil || got != tt.want {
				t.Errorf("Value = %v, %v; want %v", got, err, tt.want)
			}
			if why := explanation(); why == "" || !strings.Contains(why, tt.why) {
				t.Errorf("explanation %q, want %q in it", why, tt.why)
			}
		})
	}
}

func TestDefault(t *testing.T) {
	allocated := windows{
		"cpus_allocated": window(4, 10, 2), "mem_allocated": window(0), "disk_allocated": window(),
		"gpus_allocated": window(8), "cpus_expected": window(99), "cpus_allocated|app=web": window(99),
	}
	run(t, builtin.Default{}, []test{
		{name: "the largest of each window", metrics: allocated, want: request(10, 0), why: "cpus 10: 1 * max(cpus_allocated) = 10; mem 0: 1 * max(mem_allocated) = 0; disk unknown"},
		{name: "headroom", metrics: allocated, parameters: signals.Parameters{"headroom": 1.5}, want: request(15, 0), why: "cpus 15: 1.5 * max"},
		{name: "no windows", wrong: "cpus unknown, mem unknown, disk unknown: no opinion"},
		{name: "headroom is a string", metrics: allocated, parameters: signals.Parameters{"headroom": "2"}, wrong: `"headroom"`},
		{name: "headroom is zero", parameters: signals.Parameters{"headroom": 0.0}, wrong: `"headroom"`},
	})
}

func TestInstanceCount(t *testing.T) {
	expected := windows{
		"cpus_expected": window(4, 10, 2), "mem_expected": window(512, 0), "disk_expected": window(),
		"cpus_expected|app=web": window(99, 1), "mem_expected|app=web": window(256), "cpus_expected|app=shop": window(7),
		"cpus_allocated": window(99), "gpus_expected": window(1),
	}
	web := windows{"cpus_expected|app=web": window(3), "mem_expected|app=web": window(100)}
	parameters := func(name string, value any) signals.Parameters { return signals.Parameters{name: value} }
	run(t, builtin.InstanceCount{}, []test{
		{name: "the pool's last", metrics: expected, want: request(2, 0), why: "cpus 2: 1 * last(cpus_expected) = 2; mem 0"},
		{name: "headroom", metrics: expected, parameters: parameters("headroom", 2.0), want: request(4, 0)},
		{name: "one app", metrics: expected, parameters: parameters("app", "web"), want: request(1, 256), why: "last(cpus_expected|app=web) = 1"},
		{name: "windows of one app", metrics: web, want: request(3, 100)},
		{name: "an app without windows", metrics: expected, parameters: parameters("app", "other"), wrong: "no opinion"},
		{name: "windows of several apps", metrics: windows{"cpus_expected|app=a": window(1), "cpus_expected|app=b": window(1)}, wrong: `name an app in the parameter "app"`},
		{name: "no windows", wrong: "no opinion"},
		{name: "at least", metrics: expected, parameters: parameters("min_mem", 64.0), want: request(2, 64), why: "mem 64: 1 * last(mem_expected) = 0, at least 64"},
		{name: "more than at least", metrics: expected, parameters: parameters("min_cpus", 1.0), want: request(2, 0)},
		{name: "at least of what is unknown", metrics: expected, parameters: parameters("min_disk", 5.0), want: request(2, 0), why: "disk unknown"},
		{name: "at least is negative", metrics: expected, parameters: parameters("min_cpus", -1.0), wrong: `"min_cpus"`},
		{name: "at least is a string", metrics: expected, parameters: parameters("min_cpus", "1"), wrong: `"min_cpus"`},
		{name: "app is a number", metrics: expected, parameters: parameters("app", 1.0), wrong: `"app"`},
		{name: "headroom is negative", metrics: expected, parameters: parameters("headroom", -1.0), wrong: `"headroom"`},
	})
}

// The first cases are from Clusterman's own suite: two containers of 1.5 cpus, with 1500 and 3500 MB.
func TestPending(t *testing.T) {
	of := func(cpus, mem, disk, pendingCPUs, pendingMem, pendingDisk float64) windows {
		return windows{
			"cpus_allocated": window(1, cpus), "mem_allocated": window(1, mem), "disk_allocated": window(1, disk),
			"cpus_pending": window(9, pendingCPUs), "mem_pending": window(9, pendingMem), "disk_pending": window(9, pendingDisk),
			"gpus_allocated": window(0), "cpus_expected": window(99),
		}
	}
	without := func(in windows, keys ...string) windows {
		for _, k := range keys {
			in[k] = window()
		}
		return in
	}
	want := func(cpus, mem, disk float64) resource.Request { return request(cpus, mem).With(resource.Disk, disk) }
	run(t, builtin.Pending{}, []test{
		{name: "nothing waits", metrics: of(150, 300_000, 500_000, 0, 0, 0), want: want(150, 300_000, 500_000)},
		{name: "nothing is allocated", metrics: of(0, 0, 0, 3, 5000, 0), want: want(6, 10_000, 0)},
		{name: "both", metrics: of(150, 300_000, 500_000, 3, 5000, 0), want: want(156, 310_000, 500_000), why: "cpus 156: 1 * (150 allocated + 2 * 3 pending); mem 310000"},
		{name: "multiplier", metrics: of(0, 0, 0, 3, 5000, 0), parameters: signals.Parameters{"pending_multiplier": 20.0}, want: want(60, 100_000, 0)},
		{name: "the autoscaler's own case", metrics: of(56, 0, 0, 14, 0, 0), want: want(84, 0, 0)},
		{name: "headroom", metrics: of(10, 0, 0, 1, 0, 0), parameters: signals.Parameters{"headroom": 1.5}, want: want(18, 0, 0)},
		{name: "pending is unknown", metrics: without(of(10, 20, 30, 1, 1, 1), "mem_pending"), want: resource.Request{}.With(resource.CPUs, 12).With(resource.Disk, 32), why: "mem unknown"},
		{name: "allocation is unknown", metrics: without(of(10, 20, 30, 1, 1, 1), "cpus_allocated", "disk_allocated"), want: resource.Request{}.With(resource.Mem, 22)},
		{name: "no windows", wrong: "no opinion"},
		{name: "multiplier is zero", metrics: of(1, 1, 1, 1, 1, 1), parameters: signals.Parameters{"pending_multiplier": 0.0}, wrong: `"pending_multiplier"`},
		{name: "multiplier is a string", metrics: of(1, 1, 1, 1, 1, 1), parameters: signals.Parameters{"pending_multiplier": "2"}, wrong: `"pending_multiplier"`},
	})
}

func TestNamed(t *testing.T) {
	if !slices.IsSorted(builtin.Names()) {
		t.Errorf("names %v are not in order", builtin.Names())
	}
	for _, name := range builtin.Names() {
		if s, err := builtin.Named(name); err != nil || s == nil {
			t.Errorf("Named(%q) = %v, %v", name, s, err)
		}
	}
	if _, err := builtin.Named("other"); err == nil || !strings.Contains(err.Error(), "calendar, default, forecast, instance_count, pending") {
		t.Errorf("Named = %v, want an error with all names", err)
	}
}
