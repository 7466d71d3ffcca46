package influx

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// maxSecond is the year 2262 in unix seconds, the last time that InfluxDB can count in nanoseconds.
const maxSecond = 9_214_646_400

// maxFields bounds the fields of one statement, so that its URL stays short.
const maxFields = 20

// firstOf begins the names of the columns of first(*).
const firstOf = "first_"

// Window returns the matching series; see metrics.Store.
func (s *Store) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	pattern, err := q.Check()
	if err != nil {
		return nil, fmt.Errorf("read metrics: query: %w", err)
	}
	from, to := q.Seconds()
	query := boundedQuery{
		Query: q, pattern: pattern, from: second(from), to: second(to),
		maxPoints: s.config.MaxPoints, maxSeries: s.config.MaxSeries,
	}
	// An empty dimension matches everything.
	query.Dimensions = maps.Clone(q.Dimensions)
	maps.DeleteFunc(query.Dimensions, func(_, value string) bool { return value == "" })
	if err := ctx.Err(); err != nil || query.from > query.to {
		return nil, err
	}
	read := s.named
	if q.Regex {
		read = s.matching
	}
	w, err := read(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("read window of metric %q: %w", q.Name, err)
	}
	return w.answer(), nil
}

// second returns a second within the bounds.
func second(s int64) int64 { return min(max(s, metrics.MinSecond), maxSecond) }

// named reads the window of one name.
func (s *Store) named(ctx context.Context, query boundedQuery) (*window, error) {
	measurements, fields := writtenAs(query.Type, query.Name)
	return s.selects(ctx, query, measurements, fields)
}

// matching reads the window of a regular expression: first one point of each series for its name, then the places with
// matching series.
func (s *Store) matching(ctx context.Context, query boundedQuery) (*window, error) {
	app, _, ok := strings.Cut(query.Prefix, ",")
	sources := "/.*/" // with those of the types, which find excludes
	switch {
	case query.Type != metrics.App:
		sources = identifier(string(query.Type))
	case ok && app != "":
		var names []string
		for _, measurement := range spelled(append(appMeasurements(app), string(metrics.App))) {
			names = append(names, identifier(measurement))
		}
		sources = strings.Join(names, ", ")
	}
	found := query.window()
	if err := s.influxQL(ctx, found, true, "first(*)", sources); err != nil {
		return nil, err
	}
	fields := map[string][]string{}
	for p := range found.places {
		fields[p.measurement] = append(fields[p.measurement], p.field)
	}
	w := query.window()
	for _, measurement := range slices.Sorted(maps.Keys(fields)) {
		for some := range slices.Chunk(slices.Sorted(slices.Values(fields[measurement])), maxFields) {
			part, err := s.selects(ctx, query, []string{measurement}, some)
			if err == nil {
				err = w.absorb(part)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}

// selects reads the window of these fields in these measurements.
func (s *Store) selects(ctx context.Context, query boundedQuery, measurements, fields []string) (*window, error) {
	w := query.window()
	measurements, fields = spelled(measurements), spelled(fields)
	if len(measurements) == 0 || len(fields) == 0 {
		return w, nil
	}
	columns := make([]string, len(fields))
	for i, field := range fields {
		columns[i] = identifier(field) + "::field"
	}
	sources := make([]string, len(measurements))
	for i, measurement := range measurements {
		sources[i] = identifier(measurement)
	}
	return w, s.influxQL(ctx, w, false, strings.Join(columns, ", "), strings.Join(sources, ", "))
}

// influxQL sends one statement, and adds the response to w. With first, the response has the first value of each field.
func (s *Store) influxQL(ctx context.Context, w *window, first bool, columns, sources string) error {
	terms := []string{
		fmt.Sprintf("time >= '%s'", moment(w.from)), fmt.Sprintf("time < '%s'", moment(w.to+1)),
	}
	for _, name := range slices.Sorted(maps.Keys(w.Dimensions)) {
		value := w.Dimensions[name]
		var values []string
		for _, spelling := range spelled(spellings(escaped(value), value)) {
			values = append(values, identifier(key(name))+"::tag = "+text(spelling))
		}
		terms = append(terms, "("+strings.Join(values, " OR ")+")")
	}
	database, policy, _ := strings.Cut(s.config.Bucket, "/")
	params := url.Values{
		"q":  {fmt.Sprintf("SELECT %s FROM %s WHERE %s GROUP BY *", columns, sources, strings.Join(terms, " AND "))},
		"db": {database}, "epoch": {"ms"},
	}
	if policy != "" {
		params.Set("rp", policy)
	}
	if s.config.Org != "" {
		params.Set("org", s.config.Org)
	}
	empty := *w
	return s.do(ctx, request{path: "query", params: params, headers: map[string]string{"Accept": "application/json"}, take: func(r *http.Response) error {
		*w = *empty.boundedQuery.window() // an earlier attempt may have read a part
		return w.readJSON(r.Body, first)
	}})
}

// moment returns a time literal.
func moment(second int64) string { return time.Unix(second, 0).UTC().Format(time.RFC3339) }

// spelled returns the names that a statement can have: InfluxQL has no escape for control characters.
func spelled(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return strings.ContainsFunc(name, unicode.IsControl) })
}

// identifier returns a quoted name, and text a quoted string. Their escapes are those of all versions.
func identifier(name string) string { return quoted(name, `"`) }

func text(s string) string { return quoted(s, "'") }

func quoted(s, quote string) string {
	return quote + strings.NewReplacer(`\`, `\\`, quote, `\`+quote).Replace(s) + quote
}
