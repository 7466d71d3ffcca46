package promtest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirkeeper/weirkeeper/internal/platform/metric"
	"github.com/weirkeeper/weirkeeper/internal/platform/promtest"
)

// tables returns the metrics of all daemons.
func tables() [][]metric.Metric {
	return [][]metric.Metric{metric.Autoscaler(), metric.Health(), metric.Bootstrap(), metric.Harmonizer(), metric.Placer(), metric.Notify(), metric.Auth(), metric.Bus()}
}

// The linter of Prometheus accepts each metric, except old names that have a successor.
func TestMetricNames(t *testing.T) {
	var page strings.Builder
	old := map[string]bool{}
	for _, table := range tables() {
		for _, m := range table {
			if m.Type == metric.Histogram {
				continue
			}
			if strings.HasPrefix(m.Help, metric.Deprecated) {
				old[m.Name] = true
			}
			fmt.Fprintf(&page, "# HELP %s %s\n# TYPE %s %s\n%s", m.Name, m.Help, m.Name, m.Type, m.Name)
			for i, label := range m.Labels {
				fmt.Fprintf(&page, "%s%s=\"x\"", map[bool]string{true: "{", false: ","}[i == 0], label)
			}
			if len(m.Labels) > 0 {
				page.WriteString("}")
			}
			page.WriteString(" 1\n")
		}
	}
	for _, problem := range promtest.Lint(t, page.String()) {
		t.Error(problem)
	}
	if len(old) != 5 {
		t.Errorf("%d old names, want 5 until the next release removes them", len(old))
	}
}
