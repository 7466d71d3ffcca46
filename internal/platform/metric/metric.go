// Package metric describes each metric for Prometheus: one table for each part of a daemon. Collectors take their
// descriptions from it, and docs/metrics.md is generated from it.
//
// An unknown value is absent, never 0. Label values are bounded: a long value is cut, and [Groups] bounds their number.
//
// Tables do not change and may be read concurrently.
package metric

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Type is the type of a metric, as Prometheus names it.
type Type string

const (
	Gauge     Type = "gauge"
	Counter   Type = "counter"
	Histogram Type = "histogram"
)

// Metric describes one metric.
type Metric struct {
	Name   string // complete
	Type   Type
	Unit   string // of the value; empty: a number without a unit
	Labels []string
	Help   string
}

// Set makes the metrics of one table. It may be used concurrently.
type Set struct {
	prefix string
	known  map[string]described
}

type described struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	Metric
}

// NewSet returns the set of a table. Names of the table begin with the prefix, which the methods omit, or are complete there.
func NewSet(prefix string, table []Metric) *Set {
	s := &Set{prefix, make(map[string]described, len(table))}
	for _, m := range table {
		kind := prometheus.GaugeValue
		if m.Type == Counter {
			kind = prometheus.CounterValue
		}
		s.known[m.Name] = described{prometheus.NewDesc(m.Name, m.Help, m.Labels, nil), kind, m}
	}
	return s
}

// Describe sends all descriptions.
func (s *Set) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range s.known {
		ch <- d.desc
	}
}

// Emit sends one value, with bounded labels. It sends nothing for NaN, which means unknown. It panics if the table
// lacks the name, or the number of labels differs.
func (s *Set) Emit(ch chan<- prometheus.Metric, name string, value float64, labels ...string) {
	if math.IsNaN(value) {
		return
	}
	d := s.find(name)
	for i := range labels {
		labels[i] = boundedLabel(labels[i])
	}
	ch <- prometheus.MustNewConstMetric(d.desc, d.kind, value, labels...)
}

// find returns a metric of the table. It panics without one.
func (s *Set) find(name string) described {
	d, ok := s.known[s.prefix+name]
	if !ok {
		d, ok = s.known[name]
	}
	if !ok {
		panic(fmt.Sprintf("metric %s%s is not in the table of package metric", s.prefix, name))
	}
	return d
}

// Labels returns the labels of a series as names and values, sorted by name, with "__name__". more are labels of all series. The
// values are bounded as in Emit, and the name may be omitted likewise.
func (s *Set) Labels(name string, more map[string]string, values ...string) [][2]string {
	d := s.find(name)
	all := [][2]string{{"__name__", d.Name}}
	for i, value := range values {
		all = append(all, [2]string{d.Metric.Labels[i], boundedLabel(value)})
	}
	for label, value := range more {
		all = append(all, [2]string{label, boundedLabel(value)})
	}
	slices.SortFunc(all, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return all
}

// Flag sends 1 or 0.
func (s *Set) Flag(ch chan<- prometheus.Metric, name string, on bool, labels ...string) {
	value := 0.0
	if on {
		value = 1
	}
	s.Emit(ch, name, value, labels...)
}
