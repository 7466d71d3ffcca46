package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// Store is a metrics.Store. It stores all samples, however late, and of several values of one
// millisecond the last. The zero Store is empty.
type Store struct {
	Keep time.Duration // points older than that behind the newest of their series are removed; 0: none is

	mu     sync.Mutex
	series []*memorySeries // in order
	latest []*memorySeries // of the samples of the latest Write: the next one often has the same
}

type memorySeries struct {
	metrics.Identity
	kind       metrics.Type
	name       string
	dimensions metrics.Dimensions
	points     []memoryPoint // in order of time
}

type memoryPoint struct {
	ms    int64
	value float64
}

// Write stores the samples; see metrics.Store.
func (m *Store) Write(ctx context.Context, samples []metrics.Sample) error {
	for i, s := range samples {
		if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
			return &metrics.SampleError{Index: i, Name: s.Name, Err: metrics.ErrNotFinite}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, s := range samples {
		if i == len(m.latest) {
			m.latest = append(m.latest, nil)
		}
		if m.latest[i] == nil || !m.latest[i].is(s) {
			m.latest[i] = m.seriesLocked(s)
		}
		series := m.latest[i]
		series.putPoint(memoryPoint{s.Time.UnixMilli(), s.Value})
		series.trim(m.Keep)
	}
	return nil
}

// is reports whether a sample is certainly of the series.
func (s *memorySeries) is(x metrics.Sample) bool {
	return s.kind == x.Type && s.name == x.Name && maps.Equal(s.dimensions, x.Dimensions)
}

// seriesLocked returns the series of a sample, and creates a missing one.
func (m *Store) seriesLocked(s metrics.Sample) *memorySeries {
	d := maps.Clone(s.Dimensions)
	maps.DeleteFunc(d, func(_, value string) bool { return value == "" })
	want := &memorySeries{Identity: metrics.Identify(s.Name, d), kind: s.Type, name: s.Name, dimensions: d}
	i, found := slices.BinarySearchFunc(m.series, want, (*memorySeries).compare)
	if !found {
		m.series = slices.Insert(m.series, i, want)
	}
	return m.series[i]
}

func (s *memorySeries) compare(other *memorySeries) int {
	return cmp.Or(cmp.Compare(s.kind, other.kind), s.Identity.Compare(other.Identity))
}

func (s *memorySeries) putPoint(p memoryPoint) {
	i := s.from(p.ms)
	if i < len(s.points) && s.points[i].ms == p.ms {
		s.points[i] = p
		return
	}
	s.points = slices.Insert(s.points, i, p)
}

// trim removes old points. It moves the others only if half of them are old, so that a write stays cheap.
func (s *memorySeries) trim(keep time.Duration) {
	if keep <= 0 {
		return
	}
	if old := s.from(s.points[len(s.points)-1].ms - keep.Milliseconds()); old > len(s.points)/2 {
		s.points = append(s.points[:0], s.points[old:]...)
	}
}

// from returns the index of the first point at or after ms.
func (s *memorySeries) from(ms int64) int {
	return sort.Search(len(s.points), func(i int) bool { return s.points[i].ms >= ms })
}

// Window returns the matching series; see metrics.Store.
func (m *Store) Window(ctx context.Context, q metrics.Query) ([]metrics.Series, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var pattern *regexp.Regexp
	if q.Regex {
		var err error
		if pattern, err = q.Pattern(); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []metrics.Series
	for _, s := range m.series {
		if !s.matches(q, pattern) {
			continue
		}
		if window := q.Fold(s.window(q.Seconds())); len(window.Times) > 0 {
			out = append(out, window)
		}
		if q.Regex && len(out) > metrics.MaxMatches {
			return nil, fmt.Errorf("%w: more than %d", metrics.ErrTooMany, metrics.MaxMatches)
		}
	}
	return out, nil
}

func (s *memorySeries) matches(q metrics.Query, pattern *regexp.Regexp) bool {
	if s.kind != q.Type || pattern == nil && s.name != q.Name {
		return false
	}
	if pattern != nil && (!pattern.MatchString(s.Key()) || len(s.name) < len(q.Prefix) || s.name[:len(q.Prefix)] != q.Prefix) {
		return false
	}
	for k, v := range q.Dimensions {
		if s.dimensions[k] != v {
			return false
		}
	}
	return true
}

func (s *memorySeries) window(from, to int64) metrics.Series {
	first, end := s.from(from*1000), s.from((to+1)*1000)
	n := max(0, end-first)
	out := metrics.Series{Name: s.name, Dimensions: maps.Clone(s.dimensions), Times: make([]int64, n), Values: make([]float64, n)}
	for i := range n {
		p := s.points[first+i]
		out.Times[i], out.Values[i] = time.UnixMilli(p.ms).Unix(), p.value
	}
	for i := 0; i < n; {
		end := i + 1
		for end < n && out.Times[end] == out.Times[i] {
			end++
		}
		slices.Sort(out.Values[i:end])
		i = end
	}
	return out
}
