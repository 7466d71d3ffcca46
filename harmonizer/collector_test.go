package harmonizer

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// gather returns the values of a registry by name and labels: "name{a,b}".
func gather(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var key strings.Builder
			key.WriteString(f.GetName() + "{")
			for i, l := range m.GetLabel() {
				if i > 0 {
					key.WriteString(",")
				}
				key.WriteString(l.GetValue())
			}
			out[key.String()+"}"] = value(m)
		}
	}
	return out
}

func value(m *dto.Metric) float64 {
	switch {
	case m.GetGauge() != nil:
		return m.GetGauge().GetValue()
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	}
	return float64(m.GetHistogram().GetSampleCount())
}

func TestCollector(t *testing.T) {
	alone(t, func(t *testing.T, w *world, r *running) {
		registry := prometheus.NewRegistry()
		if err := registry.Register(r.Collector()); err != nil {
			t.Fatal(err)
		}
		a := web(2)
		a.Labels = map[string]string{"framework": "rack"}
		r.events <- apps.ExpectedRows{Rows: []message.App{a}}
		r.events <- apps.ExpectedComplete{}
		pass(t, 20*time.Second)
		got := gather(t, registry)
		for key, want := range map[string]float64{
			"weir_harmonizer_leading{}":                               1,
			"weir_harmonizer_complete{}":                              1,
			"weir_harmonizer_braked{}":                                0,
			"weir_harmonizer_nodes{}":                                 1,
			"weir_harmonizer_queue_length{starts}":                    0,
			"weir_harmonizer_running_instances{default}":              2,
			"weir_harmonizer_missing_instances{default}":              0,
			"weir_harmonizer_label_running_instances{framework,rack}": 2,
			"weir_harmonizer_events_total{heartbeats}":                got["weir_harmonizer_events_total{heartbeats}"],
		} {
			if v, ok := got[key]; !ok || v != want {
				t.Errorf("%s = %v, %v, want %v", key, v, ok, want)
			}
		}
		if got["weir_harmonizer_step_seconds{}"] < 10 {
			t.Errorf("%v steps observed", got["weir_harmonizer_step_seconds{}"])
		}
	})
}
