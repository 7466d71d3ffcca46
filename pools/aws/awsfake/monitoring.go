package awsfake

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// monitoring is the service of CloudWatch, as in request signatures.
const monitoring = "monitoring"

// watch has the metrics of CloudWatch. Its state is apart from the world: lag does not apply to it.
type watch struct {
	*cloud
	metrics map[string]*stored // by the name and the dimensions
	late    time.Duration
}

// Metric names a metric.
type Metric struct {
	Namespace, Name string
	Dimensions      map[string]string
}

// key returns the identity of a metric.
func (m Metric) key() string {
	text, _ := json.Marshal(m) // texts only, the dimensions in order
	return string(text)
}

// stored is a metric with its samples, in order of time.
type stored struct {
	samples []sample
	high    bool     // of a resolution of a second
	level   *float64 // reported each second from leveled on; nil: not
	leveled time.Time
	spoiled MetricFault
}

type sample struct {
	at    time.Time
	value float64
}

// MetricFault is a fault of the answers about a metric.
type MetricFault struct {
	Status  string // PartialData, InternalError or Forbidden; empty: Complete
	Message string
	// Edit changes the points of an answer; nil: they stay.
	Edit func(times []time.Time, values []float64) ([]time.Time, []float64)
	Lost bool // no page has the metric
}

// metricControls change metrics as their writers do.
type metricControls struct{ *locked }

// Report adds samples of a metric, each a step after the one before. Steps below a minute make it one of high resolution.
func (s *metricControls) Report(m Metric, from time.Time, step time.Duration, values ...float64) {
	s.do(func(c *cloud) {
		for i, v := range values {
			c.watch.put(m, sample{from.Add(time.Duration(i) * step), v}, step < time.Minute)
		}
	})
}

// SetLevel reports a value of a metric each second from now on, until another one is set.
func (s *metricControls) SetLevel(m Metric, value float64) {
	s.do(func(c *cloud) { c.watch.level(m, value) })
}

// SpoilMetric sets the fault of the answers about a metric; the zero value ends it.
func (s *metricControls) SpoilMetric(m Metric, f MetricFault) {
	s.do(func(c *cloud) { c.watch.of(m).spoiled = f })
}

// DelayMetrics lets answers have samples of some time ago and earlier only.
func (s *metricControls) DelayMetrics(by time.Duration) { s.do(func(c *cloud) { c.watch.late = by }) }

func (w *watch) of(m Metric) *stored {
	if m.Dimensions == nil {
		m.Dimensions = map[string]string{}
	}
	found := w.metrics[m.key()]
	if found == nil {
		found = &stored{}
		w.metrics[m.key()] = found
	}
	return found
}

func (w *watch) put(m Metric, s sample, high bool) {
	of := w.of(m)
	i, _ := slices.BinarySearchFunc(of.samples, s, func(a, b sample) int { return a.at.Compare(b.at) })
	of.samples, of.high = slices.Insert(of.samples, i, s), of.high || high
}

// level begins a value of a metric, and stores the samples of the value before.
func (w *watch) level(m Metric, value float64) {
	of := w.of(m)
	w.follow(of)
	of.high, of.level, of.leveled = true, &value, w.now.Truncate(time.Second)
}

// follow stores the samples of the level of a metric until now.
func (w *watch) follow(of *stored) {
	for of.level != nil && !of.leveled.After(w.now) {
		of.samples = append(of.samples, sample{of.leveled, *of.level})
		of.leveled = of.leveled.Add(time.Second)
	}
}

func monitoringOperations() map[string]operation {
	return map[string]operation{
		"GetMetricData": {do: getMetricData, params: []string{"StartTime", "EndTime", "MetricDataQueries", "MaxDatapoints", "NextToken", "ScanBy"}},
		"PutMetricData": {do: putMetricData, params: []string{"Namespace", "MetricData"}, write: true},
	}
}

type dimension struct{ Name, Value string }

func metricOf(namespace, name string, dimensions []dimension) Metric {
	m := Metric{Namespace: namespace, Name: name, Dimensions: map[string]string{}}
	for _, d := range dimensions {
		m.Dimensions[d.Name] = d.Value
	}
	return m
}

// putMetricData stores values.
func putMetricData(r *request) (any, error) {
	var data []struct {
		MetricName, Unit  string
		Dimensions        []dimension
		Timestamp         *float64
		Value             *float64
		StorageResolution int
	}
	if err := json.Unmarshal([]byte(r.params["MetricData"]), &data); err != nil || r.params["Namespace"] == "" {
		return nil, refuse("MissingParameter", "The parameter Namespace is required.")
	}
	for i, d := range data {
		if d.Value == nil {
			return nil, refuse("MissingRequiredParameterException", "At least one of the parameters must be specified: MetricData.member.%d.Value", i+1)
		}
		at := r.now
		if d.Timestamp != nil {
			at = epoch(*d.Timestamp)
		}
		r.watch.put(metricOf(r.params["Namespace"], d.MetricName, d.Dimensions), sample{at, *d.Value}, d.StorageResolution == 1)
	}
	return nil, nil
}

func epoch(seconds float64) time.Time { return time.UnixMilli(int64(seconds * 1000)).UTC() }

// metricQuery is one of MetricDataQueries.
type metricQuery struct {
	ID         string `json:"Id"`
	MetricStat struct {
		Metric struct {
			Namespace, MetricName string
			Dimensions            []dimension
		}
		Period int64
		Stat   string
	}
}

var (
	metricID   = regexp.MustCompile(`^[a-z][a-zA-Z0-9_]{0,254}$`)
	metricStat = regexp.MustCompile(`^(SampleCount|Average|Sum|Minimum|Maximum|p(\d{1,2}(\.\d{1,10})?|100))$`)
)

// check returns the error of a query that AWS rejects.
func (q metricQuery) check(n int) error {
	at, period := fmt.Sprintf("MetricDataQueries.member.%d.", n+1), q.MetricStat.Period
	switch {
	case !metricID.MatchString(q.ID):
		return refuse("ValidationError", "The value %s for parameter %sId is not matching the expected pattern", q.ID, at)
	case period < 60 && !slices.Contains([]int64{1, 5, 10, 20, 30}, period) || period >= 60 && period%60 != 0:
		return refuse("ValidationError", "The parameter %sMetricStat.Period must be 1, 5, 10, 20, 30 or a multiple of 60.", at)
	case !metricStat.MatchString(q.MetricStat.Stat):
		return refuse("ValidationError", "The value %s for parameter %sMetricStat.Stat is not supported.", q.MetricStat.Stat, at)
	case q.MetricStat.Metric.Namespace == "" || q.MetricStat.Metric.MetricName == "":
		return refuse("ValidationError", "The parameter %sMetricStat.Metric is required.", at)
	}
	return nil
}

// getMetricData returns the points of metrics, the oldest first.
func getMetricData(r *request) (any, error) {
	var queries []metricQuery
	from, errFrom := strconv.ParseFloat(r.params["StartTime"], 64)
	to, errTo := strconv.ParseFloat(r.params["EndTime"], 64)
	if err := json.Unmarshal([]byte(r.params["MetricDataQueries"]), &queries); err != nil || errFrom != nil || errTo != nil {
		return nil, refuse("MissingParameter", "The parameters StartTime, EndTime and MetricDataQueries are required.")
	}
	most, err := r.params.whole("MaxDatapoints", 100_800, 1, 100_800)
	switch {
	case err != nil:
		return nil, err
	case from >= to:
		return nil, refuse("ValidationError", "The parameter EndTime must be greater than StartTime.")
	case len(queries) == 0 || len(queries) > 500:
		return nil, refuse("ValidationError", "The collection MetricDataQueries must not have a size greater than 500.")
	case r.params["ScanBy"] != "TimestampAscending":
		return nil, refuse("ValidationError", "ScanBy: this server has TimestampAscending only.")
	}
	for i, q := range queries {
		if err := q.check(i); err != nil {
			return nil, err
		}
	}
	return metricPage(r, queries, epoch(from), epoch(to), r.pageSize(most))
}

// metricPoint is a point of a query.
type metricPoint struct {
	query int
	at    time.Time
	value float64
}

// metricPage returns a page of the points of queries.
func metricPage(r *request, queries []metricQuery, from, to time.Time, size int) (any, error) {
	var all []metricPoint
	faults := make([]MetricFault, len(queries))
	for i, q := range queries {
		of := r.watch.of(metricOf(q.MetricStat.Metric.Namespace, q.MetricStat.Metric.MetricName, q.MetricStat.Metric.Dimensions))
		faults[i] = of.spoiled
		times, values := r.watch.points(of, q, from, to)
		if edit := of.spoiled.Edit; edit != nil {
			times, values = edit(times, values)
		}
		for n, at := range times {
			all = append(all, metricPoint{i, at, values[n]})
		}
	}
	part, next, err := page(all, size, r.params["NextToken"])
	if err != nil {
		return nil, err
	}
	results := []any{}
	for i, q := range queries {
		times, values := []any{}, []any{}
		for _, p := range part {
			if p.query == i {
				times, values = append(times, p.at), append(values, p.value)
			}
		}
		left := next != "" && i >= part[len(part)-1].query // its points may go on
		status, messages := faults[i].Status, []any{}
		if status == "" {
			status = map[bool]string{true: "PartialData", false: "Complete"}[left]
		}
		if faults[i].Message != "" {
			messages = append(messages, map[string]any{"Code": "Problem", "Value": faults[i].Message})
		}
		if !faults[i].Lost {
			results = append(results, map[string]any{"Id": q.ID, "Label": q.MetricStat.Metric.MetricName, "Timestamps": times, "Values": values, "StatusCode": status, "Messages": messages})
		}
	}
	answer := map[string]any{"MetricDataResults": results, "Messages": []any{}}
	if next != "" {
		answer["NextToken"] = next
	}
	return answer, nil
}

// points returns the statistic of each period that has samples. The periods begin at the rounded start of the request.
func (w *watch) points(of *stored, q metricQuery, from, to time.Time) (times []time.Time, values []float64) {
	w.follow(of)
	length := time.Duration(q.MetricStat.Period) * time.Second
	from = from.Truncate(min(length, time.Minute))
	age := w.now.Sub(from)
	switch day := 24 * time.Hour; { // samples as old as the start have points of long periods only
	case age > 63*day && length%time.Hour != 0, age > 15*day && length%(5*time.Minute) != 0,
		age > 3*time.Hour && length%time.Minute != 0, !of.high && length < time.Minute:
		return nil, nil
	}
	slots := map[time.Time][]float64{}
	for _, s := range of.samples {
		if s.at.Before(from) || !s.at.Before(to) || s.at.After(w.now.Add(-w.late)) {
			continue
		}
		at := from.Add(s.at.Sub(from).Truncate(length))
		slots[at] = append(slots[at], s.value)
	}
	times = slices.SortedFunc(maps.Keys(slots), time.Time.Compare)
	for _, at := range times {
		values = append(values, statOf(q.MetricStat.Stat, slots[at]))
	}
	return times, values
}

// statOf returns a statistic of values.
func statOf(stat string, values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	switch stat {
	case "SampleCount":
		return float64(len(values))
	case "Sum":
		return sum
	case "Average":
		return sum / float64(len(values))
	case "Minimum":
		return slices.Min(values)
	case "Maximum":
		return slices.Max(values)
	}
	share, _ := strconv.ParseFloat(strings.TrimPrefix(stat, "p"), 64) // the pattern of the statistics was checked
	slices.Sort(values)
	return values[max(0, int(math.Ceil(share/100*float64(len(values))))-1)]
}

// monitoringService describes the service.
func monitoringService() service {
	return service{
		name: "cloudwatch", operations: monitoringOperations(), deniedCode: "AccessDenied",
		throttled: fault{http.StatusBadRequest, "Throttling", "Rate exceeded"}, denied: deniedText,
	}
}
