package tsdbstore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/weirkeeper/weirkeeper/metrics"
	"github.com/weirkeeper/weirkeeper/metrics/embedded"
)

// Window returns the matching series; see metrics.Store.
func (s *Store) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	p, err := s.Page(ctx, q, nil, math.MaxInt)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	return p.Series, nil
}

// Page returns the window from the cursor on, or from its start without a cursor, up to room bytes. It ends between
// two seconds, or slots of a resolution. Late points may arrive between two pages, so a count of points would not find its place again. The
// points of one second are sorted by value only together.
func (s *Store) Page(ctx context.Context, q metrics.Query, after *embedded.Cursor, room int) (embedded.Page, error) {
	pattern, err := q.Check()
	if err != nil {
		return embedded.Page{}, fmt.Errorf("query: %w", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return embedded.Page{}, embedded.ErrClosed
	}
	from, to := q.Seconds()
	from, to = embedded.Second(from)*1000, embedded.Second(to)*1000+999
	if from > to {
		return embedded.Page{}, nil
	}
	querier, err := s.db.Querier(from, to)
	if err != nil {
		return embedded.Page{}, err
	}
	defer querier.Close() // only read
	found, err := find(ctx, querier, q, pattern)
	if err != nil {
		return embedded.Page{}, err
	}
	r := reader{slots: q.Slots(), to: to, room: room}
	for _, m := range found {
		start, skip := m.start(after, from)
		if skip {
			continue
		}
		if err := ctx.Err(); err != nil {
			return embedded.Page{}, err
		}
		if err := r.read(m, start); err != nil {
			return embedded.Page{}, err
		}
		if r.page.Next != nil {
			break
		}
	}
	return r.page, nil
}

// match is one series of a query, with its rewrites.
type match struct {
	metrics.Identity
	name       string
	dimensions metrics.Dimensions
	points     [maxRewrites + 1]storage.Series // by rewrite; nil: none
}

// start returns the first time to read of this series in milliseconds, or skips the series.
func (m match) start(after *embedded.Cursor, from int64) (start int64, skip bool) {
	if after == nil {
		return from, false
	}
	switch c := m.Compare(metrics.Identify(after.Name, after.Dimensions)); {
	case c < 0:
		return 0, true
	case c == 0:
		return max(from, after.Second*1000), false
	}
	return from, false
}

// find returns the matching series in order.
func find(ctx context.Context, querier storage.Querier, q metrics.Query, pattern *regexp.Regexp) ([]match, error) {
	var found, rewrites []match
	set := querier.Select(ctx, false, nil, matchers(q)...)
	for set.Next() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		series := set.At()
		at, of, ok := rewriteOf(series.Labels())
		if !ok {
			continue
		}
		name, dimensions := fromLabels(of)
		m := match{Identity: metrics.Identify(name, dimensions), name: name, dimensions: dimensions}
		m.points[at] = series
		if pattern != nil && !pattern.MatchString(m.Key()) {
			continue
		}
		if at != original {
			rewrites = append(rewrites, m)
		} else if found = append(found, m); pattern != nil && len(found) > metrics.MaxMatches {
			return nil, fmt.Errorf("%w: more than %d", metrics.ErrTooMany, metrics.MaxMatches)
		}
	}
	if err := set.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b match) int { return a.Compare(b.Identity) })
	return withRewrites(found, rewrites), nil
}

// withRewrites adds the rewrites to their series, which are in order. A rewrite of a moment is stored after the moment's
// first value, so without its series it has none to replace.
func withRewrites(found, rewrites []match) []match {
	for _, r := range rewrites {
		i, ok := slices.BinarySearchFunc(found, r, func(a, b match) int { return a.Compare(b.Identity) })
		for at, points := range r.points {
			if ok && points != nil {
				found[i].points[at] = points
			}
		}
	}
	return found
}

// matchers returns the label matchers of a query, without its pattern, which find applies.
func matchers(q metrics.Query) []*labels.Matcher {
	all := []*labels.Matcher{equal(typeLabel, string(q.Type))}
	switch {
	case !q.Regex:
		all = append(all, equal(model.MetricNameLabel, q.Name))
	case q.Prefix != "":
		prefix := regexp.QuoteMeta(q.Prefix) + ".*" // in the database, a dot matches any character
		all = append(all, labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, prefix))
	}
	for k, v := range q.Dimensions {
		if v != "" {
			all = append(all, equal(dimensionPrefix+k, v))
		}
	}
	return all
}

func equal(name, value string) *labels.Matcher {
	return labels.MustNewMatcher(labels.MatchEqual, name, value) // only a regular expression can be wrong
}

// fromLabels copies name and dimensions of a series, because the database's strings end with its querier.
func fromLabels(ls labels.Labels) (name string, d metrics.Dimensions) {
	ls.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel {
			name = strings.Clone(l.Value)
		}
		if dimension, ok := strings.CutPrefix(l.Name, dimensionPrefix); ok {
			if d == nil {
				d = metrics.Dimensions{}
			}
			d[strings.Clone(dimension)] = strings.Clone(l.Value)
		}
	})
	return name, d
}

// reader fills a page.
type reader struct {
	slots metrics.Slots
	to    int64 // milliseconds, inclusive
	room  int   // bytes left
	page  embedded.Page
}

// read adds the points of one series from start on. If they do not all fit, it sets the page's Next.
func (r *reader) read(m match, start int64) error {
	s := metrics.Series{Name: m.name, Dimensions: m.dimensions}
	r.room -= len(m.Key())
	points := m.from(start)
	for {
		ms, value, ok := points.next()
		if !ok || ms > r.to {
			break
		}
		second := time.UnixMilli(ms).Unix()
		n := len(s.Times)
		whole := n == 0 || s.Times[n-1] != r.slots.Begin(second)
		if r.room <= 0 && whole && n+len(r.page.Series) > 0 {
			r.page.Next = &embedded.Cursor{Name: m.name, Dimensions: m.dimensions, Second: second}
			break
		}
		r.slots.Add(&s, second, value)
		r.room -= embedded.PointSize * (len(s.Times) - n)
	}
	if points.err != nil {
		return points.err
	}
	if len(s.Times) > 0 {
		if r.slots == 0 {
			orderSeconds(s)
		}
		r.page.Series = append(r.page.Series, s)
	}
	return nil
}

// merged has the points of a series and its rewrites in order of time.
type merged struct {
	points []chunkenc.Iterator // in order of the rewrites, each at its next point
	err    error               // of a damaged chunk
}

// from returns the points from a time in milliseconds on.
func (m match) from(start int64) *merged {
	var all merged
	for _, series := range m.points {
		if series == nil {
			continue
		}
		it := series.Iterator(nil)
		if kind := it.Seek(start); kind == chunkenc.ValFloat || kind != chunkenc.ValNone && toFloat(it) {
			all.points = append(all.points, it)
		} else {
			all.err = cmp.Or(all.err, it.Err())
		}
	}
	return &all
}

// toFloat advances to the next value. It skips chunks of histograms, which we never write.
func toFloat(it chunkenc.Iterator) bool {
	for {
		switch it.Next() {
		case chunkenc.ValFloat:
			return true
		case chunkenc.ValNone:
			return false
		}
	}
}

// next returns the next time in milliseconds with its last value. It ends at a damaged chunk.
func (m *merged) next() (ms int64, value float64, ok bool) {
	if m.err != nil {
		return 0, 0, false
	}
	for _, it := range m.points {
		if t, v := it.At(); !ok || t <= ms {
			ms, value, ok = t, v, true
		}
	}
	m.points = slices.DeleteFunc(m.points, func(it chunkenc.Iterator) bool {
		if it.AtT() != ms || toFloat(it) {
			return false
		}
		m.err = cmp.Or(m.err, it.Err())
		return true
	})
	return ms, value, ok
}

// orderSeconds sorts the values of each second.
func orderSeconds(s metrics.Series) {
	for i := 0; i < len(s.Times); {
		end := i + 1
		for end < len(s.Times) && s.Times[end] == s.Times[i] {
			end++
		}
		if end-i > 1 {
			slices.Sort(s.Values[i:end])
		}
		i = end
	}
}
