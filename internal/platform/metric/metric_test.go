package metric_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
)

// sampled is a collector that emits what it is given.
type sampled struct {
	*metric.Set
	emit func(s *metric.Set, ch chan<- prometheus.Metric)
}

func (s sampled) Collect(ch chan<- prometheus.Metric) { s.emit(s.Set, ch) }

// Whatever a name is, one scrape has a bounded number of valid and distinct series.
func TestLabelsAreBounded(t *testing.T) {
	values := map[string]float64{
		"": 1, "a\x00b": 1, "a\x01b": 1, "\xff\xfe": 1, strings.Repeat("x", 64): 1, strings.Repeat("x", 65): 1, strings.Repeat("é", 1000): 1,
		"other": 1, "\u202e": 1,
	}
	for i := range 200 {
		values[fmt.Sprintf("app-%03d", i)] = 1
	}
	one := sampled{metric.NewSet("x_", []metric.Metric{{Name: "x_n", Type: metric.Gauge, Labels: []string{"app"}}}), func(s *metric.Set, ch chan<- prometheus.Metric) {
		sum := func(a, b float64) float64 { return a + b }
		for app, n := range metric.Groups(values, func(app string) string { return app }, sum) {
			s.Emit(ch, "n", n, app)
		}
	}}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(one)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series, total := families[0].GetMetric(), 0.0
	if len(series) > metric.MaxGroups+1 {
		t.Errorf("%d series, want at most %d", len(series), metric.MaxGroups+1)
	}
	for _, m := range series {
		total += m.GetGauge().GetValue()
		if v := m.GetLabel()[0].GetValue(); len(v) > 63 || strings.ContainsFunc(v, func(r rune) bool { return r < ' ' }) {
			t.Errorf("label value %q", v)
		}
	}
	if total != float64(len(values)) {
		t.Errorf("the series have the sum %v, want %d", total, len(values))
	}
}

func TestUnknownIsAbsent(t *testing.T) {
	one := sampled{metric.NewSet("x_", []metric.Metric{{Name: "x_n", Type: metric.Counter}, {Name: "x_m", Type: metric.Gauge}}), func(s *metric.Set, ch chan<- prometheus.Metric) {
		s.Emit(ch, "n", math.NaN())
		s.Flag(ch, "m", true)
	}}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(one)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "x_m" {
		t.Errorf("%v, %v, want x_m only", families, err)
	}
}
