package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/signals"
	"github.com/weirkeeper/weirkeeper/signals/signaltest"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// asProgram is the variable with which the test binary runs as the program.
const asProgram = "REQUESTS_PER_SECOND_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func window(values ...float64) map[string]signals.Series {
	s := signals.Series{Values: values}
	for i := range values {
		s.Times = append(s.Times, int64(1700000000+60*i))
	}
	return map[string]signals.Series{"requests_per_second": s}
}

func TestValue(t *testing.T) {
	none := resource.Request{}
	for _, test := range []struct {
		name       string
		parameters signals.Parameters
		metrics    map[string]signals.Series
		want       resource.Request
		err        string
	}{
		{"no metric", nil, nil, none, ""},
		{"no points", nil, window(), none, ""},
		{"the busiest moment counts", nil, window(90, 250, 10), none.With(resource.CPUs, 3).With(resource.Mem, 1536), ""},
		{"a whole number of instances", signals.Parameters{"headroom": 1.1}, window(1000), none.With(resource.CPUs, 11).With(resource.Mem, 5632), ""},
		{"no demand", nil, window(0), none.With(resource.CPUs, 0).With(resource.Mem, 0), ""},
		{"negative demand counts as zero", nil, window(-5), none.With(resource.CPUs, 0).With(resource.Mem, 0), ""},
		{"at least", signals.Parameters{"min_instances": 2.0}, window(1), none.With(resource.CPUs, 2).With(resource.Mem, 1024), ""},
		{"footprint", signals.Parameters{"cpus_per_instance": 0.5, "mem_per_instance": 0.0, "disk_per_instance": 10.0}, window(100),
			none.With(resource.CPUs, 1).With(resource.Disk, 20), ""},
		{"no text for a number", signals.Parameters{"headroom": "much"}, window(1), none, `parameter "headroom"`},
		{"nothing per instance", signals.Parameters{"requests_per_instance": 0.0}, window(1), none, "want the requests a second"},
		{"negative", signals.Parameters{"cpus_per_instance": -1.0}, window(1), none, `"cpus_per_instance" is -1`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := requestsPerSecond{}.Value(t.Context(), signals.Input{Parameters: test.parameters, Metrics: test.metrics})
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("error %v, want one with %q", err, test.err)
			}
			if diff := cmp.Diff(test.want.String(), got.String()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

// The description and the code have the same parameters and defaults.
func TestAbout(t *testing.T) {
	about := requestsPerSecond{}.About()
	if err := about.Validate(); err != nil {
		t.Fatal(err)
	}
	defaults := signals.Parameters{}
	for _, p := range about.Parameters {
		switch x := p.Default.(type) {
		case int:
			defaults[p.Name] = float64(x)
		default:
			defaults[p.Name] = x
		}
	}
	bare, errBare := newSettings(nil)
	given, errGiven := newSettings(defaults)
	if errBare != nil || errGiven != nil || bare != given || len(defaults) != 6 {
		t.Errorf("settings without parameters %+v, %v; with the described defaults %+v, %v", bare, errBare, given, errGiven)
	}
}

func TestConformance(t *testing.T) {
	signaltest.RunTarget(t, signaltest.Target{
		Path: os.Args[0], Env: []string{asProgram + "=1"},
		Sample: sigproto.Evaluation{Timestamp: 1700000120, Series: []sigproto.Series{
			{Name: "requests_per_second", Times: []int64{1700000000, 1700000060}, Values: []float64{90, 250}},
		}},
	})
}
