package influx

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// boundedQuery is a query with its bounds.
type boundedQuery struct {
	metrics.Query
	pattern   *regexp.Regexp // nil: Name is the exact name
	from, to  int64          // unix seconds, inclusive
	maxPoints int
	maxSeries int
}

// window assembles the response to a query. Its series are unordered, and their points have InfluxDB's order.
type window struct {
	boundedQuery
	series map[string]*line // by a unique key of name and dimensions
	places map[place]bool   // with matching series
	points int
	tried  int // number of series that the pattern was matched with
}

// line is one series of a window.
type line struct {
	metrics.Series
	id metrics.Identity
}

func (q boundedQuery) window() *window {
	return &window{boundedQuery: q, series: map[string]*line{}, places: map[place]bool{}}
}

// find returns the name of the series at a place with those dimensions, and whether it belongs to the window. A
// series that the query excludes is an error.
func (w *window) find(where place, d metrics.Dimensions) (name string, ok bool, err error) {
	for k, v := range w.Dimensions {
		if d[k] != v {
			return "", false, fmt.Errorf("%w: a series with the dimensions %.200q", ErrBadAnswer, d)
		}
	}
	if w.pattern == nil {
		name, ok := nameAt(w.Type, where)
		if !ok || name != w.Name {
			return "", false, fmt.Errorf("%w: a series of the name %.200q", ErrBadAnswer, name)
		}
		return name, true, nil
	}
	if where.measurement == "" || where.field == "" {
		return "", false, fmt.Errorf("%w: a series without a name", ErrBadAnswer)
	}
	if w.tried++; w.tried > w.maxSeries {
		return "", false, fmt.Errorf("%w: more than %d series to match the expression with", ErrTooLarge, w.maxSeries)
	}
	name, ok = nameAt(w.Type, where)
	return name, ok && strings.HasPrefix(name, w.Prefix) && w.pattern.MatchString(metrics.Key(name, d)), nil
}

// line returns the series of that name and those dimensions.
func (w *window) line(name string, d metrics.Dimensions) (*line, error) {
	unique := strconv.AppendQuote(nil, name)
	for _, k := range slices.Sorted(maps.Keys(d)) {
		unique = strconv.AppendQuote(strconv.AppendQuote(unique, k), d[k])
	}
	if found := w.series[string(unique)]; found != nil {
		return found, nil
	}
	found := &line{metrics.Series{Name: name, Dimensions: d}, metrics.Identify(name, d)}
	w.series[string(unique)] = found
	return found, w.checkSeries()
}

func (w *window) checkSeries() error {
	if w.pattern != nil && len(w.series) > metrics.MaxMatches {
		return fmt.Errorf("%w: more than %d", metrics.ErrTooMany, metrics.MaxMatches)
	}
	if len(w.series) > w.maxSeries {
		return fmt.Errorf("%w: more than %d series", ErrTooLarge, w.maxSeries)
	}
	return nil
}

// addValue adds a value to a series.
func (w *window) addValue(l *line, at time.Time, value float64) error {
	second := at.Unix()
	if second < w.from || second > w.to {
		return fmt.Errorf("%w: a point of %s, outside the window", ErrBadAnswer, at.UTC().Format(time.RFC3339))
	}
	if w.points++; w.points > w.maxPoints {
		return fmt.Errorf("%w: more than %d points", ErrTooLarge, w.maxPoints)
	}
	l.Times, l.Values = append(l.Times, second), append(l.Values, value)
	return nil
}

// number returns the value of a point: a number, or true or false.
func number(value any) (float64, error) {
	switch v := value.(type) {
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	case json.Number:
		if x, err := v.Float64(); err == nil { // not one that is infinite
			return x, nil
		}
	}
	return 0, fmt.Errorf("%w: value %.100q", ErrBadAnswer, fmt.Sprint(value))
}

// absorb adds the series of another part of the window.
func (w *window) absorb(other *window) error {
	for unique, l := range other.series {
		if known := w.series[unique]; known != nil {
			known.Times, known.Values = append(known.Times, l.Times...), append(known.Values, l.Values...)
		} else {
			w.series[unique] = l
		}
	}
	if w.points += other.points; w.points > w.maxPoints {
		return fmt.Errorf("%w: more than %d points", ErrTooLarge, w.maxPoints)
	}
	return w.checkSeries()
}

// answer returns the series in order.
func (w *window) answer() []metrics.Series {
	lines := slices.SortedFunc(maps.Values(w.series), func(a, b *line) int { return a.id.Compare(b.id) })
	var out []metrics.Series
	for _, l := range lines {
		order(l.Series)
		out = append(out, w.Fold(l.Series))
	}
	return out
}

// order sorts the points by time, and the points of a second by value.
func order(s metrics.Series) {
	inOrder := func(i, j int) bool {
		return cmp.Or(cmp.Compare(s.Times[i], s.Times[j]), cmp.Compare(s.Values[i], s.Values[j])) <= 0
	}
	for i := 1; i < len(s.Times); i++ {
		if !inOrder(i-1, i) {
			sortPoints(s)
			return
		}
	}
}

func sortPoints(s metrics.Series) {
	type point struct {
		second int64
		value  float64
	}
	points := make([]point, len(s.Times))
	for i := range points {
		points[i] = point{s.Times[i], s.Values[i]}
	}
	slices.SortFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.second, b.second), cmp.Compare(a.value, b.value))
	})
	for i, p := range points {
		s.Times[i], s.Values[i] = p.second, p.value
	}
}
