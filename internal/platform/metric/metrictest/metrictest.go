// Package metrictest is for tests of collectors. It compares what a collector exports with the table of package metric
// that describes it. A name that the table lacks panics in metric.Set already. So this package looks for the opposite: a
// metric of the table, and of docs/metrics.md, that nothing exports. All functions may be used concurrently.
//
//	series := metrictest.Series(t, collector)
//	metrictest.Complete(t, metric.Placer(), series)
package metrictest

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
)

// Series returns the values of a collector by name and labels, as "name{value,value}". Of a histogram it has the count.
func Series(tb testing.TB, c prometheus.Collector) map[string]float64 {
	tb.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		tb.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			all[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// Complete reports each metric of a table that has no series. It ignores the exceptions, which are names of
// metrics.
func Complete(tb testing.TB, table []metric.Metric, series map[string]float64, except ...string) {
	tb.Helper()
	exported := map[string]bool{}
	for one := range series {
		name, _, _ := strings.Cut(one, "{")
		exported[name] = true
	}
	for _, m := range table {
		if !exported[m.Name] && !slices.Contains(except, m.Name) {
			tb.Errorf("%s is in the table of package metric, and nothing exports it", m.Name)
		}
	}
}

// Trim returns the series without the prefix of their names.
func Trim(prefix string, series map[string]float64) map[string]float64 {
	all := make(map[string]float64, len(series))
	for name, value := range series {
		all[strings.TrimPrefix(name, prefix)] = value
	}
	return all
}
