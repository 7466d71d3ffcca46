package influx

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/influxdata/influxdb-client-go/v2/api"
	"github.com/influxdata/influxdb-client-go/v2/domain"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// maxSecond is the year 2262 in unix seconds, the last time that InfluxDB can count in nanoseconds.
const maxSecond = 9_214_646_400

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

// named reads the window of one name.
func (s *Store) named(ctx context.Context, query boundedQuery) (*window, error) {
	measurements, fields := writtenAs(query.Type, query.Name)
	if s.config.Language == InfluxQL {
		return s.selects(ctx, query, measurements, fields)
	}
	f := s.flux(query)
	f.filter = allOf(append(withDimensions(query.Dimensions), column("_measurement", measurements), column("_field", fields))...)
	if len(measurements) == 1 && len(fields) == 1 {
		f.drop = append(f.drop, "_measurement", "_field") // known
	}
	return s.query(ctx, query, f)
}

// matching reads the window of a regular expression: first one point of each series for its name, then the places
// with matching series.
func (s *Store) matching(ctx context.Context, query boundedQuery) (*window, error) {
	app, _, ok := strings.Cut(query.Prefix, ",")
	if !ok {
		app = ""
	}
	if s.config.Language == InfluxQL {
		return s.selectMatching(ctx, query, app)
	}
	f := s.flux(query)
	f.filter = allOf(append(withDimensions(query.Dimensions), ofApps(app))...)
	f.first, f.drop = true, append(f.drop, "_time")
	found, err := s.query(ctx, query, f)
	if err != nil {
		return nil, err
	}
	w := query.window()
	for some := range slices.Chunk(slices.Collect(maps.Keys(found.places)), maxPlaces) {
		f := s.flux(query)
		f.filter = allOf(append(withDimensions(query.Dimensions), atPlaces(some))...)
		part, err := s.query(ctx, query, f)
		if err == nil {
			err = w.absorb(part)
		}
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

// flux returns a query for a whole window, without a filter.
func (s *Store) flux(query boundedQuery) flux {
	return flux{bucket: s.config.Bucket, from: query.from, to: query.to, drop: []string{"_start", "_stop"}}
}

// query sends a query and reads the response.
func (s *Store) query(ctx context.Context, query boundedQuery, f flux) (*window, error) {
	body, err := json.Marshal(domain.Query{Query: f.String(), Type: new(domain.QueryTypeFlux), Dialect: api.DefaultDialect()})
	if err != nil {
		return nil, err
	}
	var w *window
	err = s.do(ctx, request{
		path:    "api/v2/query",
		params:  url.Values{"org": {s.config.Org}},
		headers: map[string]string{"Content-Type": "application/json", "Accept": "text/csv"},
		body:    body,
		take: func(r *http.Response) error {
			w = query.window() // an earlier attempt may have read a part
			return w.read(r.Body)
		},
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// second returns a second within the bounds.
func second(s int64) int64 { return min(max(s, metrics.MinSecond), maxSecond) }
