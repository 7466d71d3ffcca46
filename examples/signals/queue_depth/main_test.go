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
const asProgram = "QUEUE_DEPTH_TEST_PROGRAM"

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
	return map[string]signals.Series{"queue_depth": s}
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
		{"empty queue", nil, window(100, 0), none.With(resource.CPUs, 0).With(resource.Mem, 0), ""},
		{"one job", nil, window(1), none.With(resource.CPUs, 1).With(resource.Mem, 256), ""},
		{"a whole number of workers", signals.Parameters{"jobs_per_worker": 0.1, "drain_within": "10s"}, window(3), none.With(resource.CPUs, 3).With(resource.Mem, 768), ""},
		{"ten minutes of two workers", nil, window(0, 1200), none.With(resource.CPUs, 2).With(resource.Mem, 512), ""},
		{"in half the time", signals.Parameters{"drain_within": "5m"}, window(1200), none.With(resource.CPUs, 4).With(resource.Mem, 1024), ""},
		{"no duration", signals.Parameters{"drain_within": 5.0}, window(1), none, `parameter "drain_within"`},
		{"no time at all", signals.Parameters{"drain_within": "0s"}, window(1), none, "more than 0"},
		{"idle workers", signals.Parameters{"jobs_per_worker": 0.0}, window(1), none, `"jobs_per_worker" is 0`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := queueDepth{}.Value(t.Context(), signals.Input{Parameters: test.parameters, Metrics: test.metrics})
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("error %v, want one with %q", err, test.err)
			}
			if diff := cmp.Diff(test.want.String(), got.String()); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConformance(t *testing.T) {
	signaltest.RunTarget(t, signaltest.Target{
		Path: os.Args[0], Env: []string{asProgram + "=1"},
		Sample: sigproto.Evaluation{Timestamp: 1700000120, Series: []sigproto.Series{
			{Name: "queue_depth", Times: []int64{1700000000, 1700000060}, Values: []float64{90, 250}},
		}},
	})
}
