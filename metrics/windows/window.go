package windows

import (
	"maps"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/weirkeeper/weirkeeper/metrics"
)

// window is one stored window. The caller that has its turn owns all fields but asked.
type window struct {
	asked int64 // end of the newest query; guarded by the Cache's mutex

	turn     chan struct{} // capacity 1
	answered bool          // at least once
	filled   bool          // all was read, and no later reading contradicts it
	from, to int64         // of the last answered query
	full     int64         // end of the last query that read everything
	columns  []*column     // in order of identity, not empty
}

// reading is one query to the store for all points of the window from since on, in unix seconds.
type reading struct {
	from, to      int64 // of the window
	since         int64
	overlap, full int64 // of the Config
	lineage       *atomic.Uint64
}

func (r reading) whole() bool { return r.since == r.from }

// since returns the second from which the store may have new points. It is the overlap before the end of the last
// query. If points arrive later than that, it is the overlap before the last point of the series that is furthest
// behind. A window without series is read whole, at no cost.
func (w *window) since(r reading) int64 {
	if !w.filled || len(w.columns) == 0 || r.from < w.from || r.to < w.to || r.to-w.full >= r.full {
		return r.from
	}
	known := w.to
	for _, c := range w.columns {
		known = min(known, c.known(r.to))
	}
	return max(r.from, known-r.overlap)
}

// drop removes the points before from.
func (w *window) drop(from int64) {
	for _, c := range w.columns {
		c.drop(from)
	}
	w.columns = slices.DeleteFunc(w.columns, (*column).empty)
}

// merge replaces the stored points from r.since on by the read ones. It reports doubt about earlier points: a new
// series may have earlier points, and a series that lost points may have lost earlier ones too.
func (w *window) merge(read []metrics.Series, r reading) (earlierUnknown bool) {
	kept := w.columns
	merged := make([]*column, 0, max(len(kept), len(read)))
	next := func(s metrics.Series) {
		earlierUnknown = kept[0].replace(s, r) || earlierUnknown
		merged, kept = append(merged, kept[0]), kept[1:]
	}
	for _, s := range read {
		if len(kept) > 0 && kept[0].isSeries(s) { // the usual case: the same series in the same order
			next(s)
			continue
		}
		id := metrics.Identify(s.Name, s.Dimensions)
		for len(kept) > 0 && kept[0].Compare(id) < 0 {
			next(metrics.Series{})
		}
		if len(kept) > 0 && kept[0].isSeries(s) {
			next(s)
			continue
		}
		fresh := newColumn(id, s, r.lineage.Add(1))
		if w.answered {
			fresh.watch(r.from, s.Times, r)
		}
		merged = append(merged, fresh)
		earlierUnknown = true
	}
	for len(kept) > 0 {
		next(metrics.Series{})
	}
	w.columns = slices.DeleteFunc(merged, (*column).empty)
	return earlierUnknown
}

func (w *window) answer() []metrics.Series {
	if len(w.columns) == 0 {
		return nil
	}
	out := make([]metrics.Series, len(w.columns))
	for i, c := range w.columns {
		out[i] = c.series()
	}
	return out
}

// column is one series of a window: times[head:], values[head:] and, with a resolution, counts[head:]. The elements below the slices' length are never
// changed, because answers share them. The elements between length and capacity belong to the column.
type column struct {
	metrics.Identity
	name       string
	dimensions metrics.Dimensions
	lineage    uint64
	head       int
	times      []int64
	values     []float64
	counts     []float64 // nil: without a resolution

	gap     int64 // points after this second may be missing
	watched int64 // end of the query from which on missing points are no longer awaited
}

// newColumn uses the memory of a read series without writing to it, because the store may share it.
func newColumn(id metrics.Identity, s metrics.Series, lineage uint64) *column {
	return &column{
		Identity: id, name: s.Name, dimensions: s.Dimensions, lineage: lineage,
		times: slices.Clip(s.Times), values: slices.Clip(s.Values), counts: slices.Clip(s.Counts),
	}
}

func (c *column) isSeries(s metrics.Series) bool {
	return c.name == s.Name && maps.Equal(c.dimensions, s.Dimensions)
}

func (c *column) empty() bool { return c.head == len(c.times) }

func (c *column) series() metrics.Series {
	s := metrics.Series{
		Name: c.name, Dimensions: c.dimensions, Lineage: c.lineage,
		Times: slices.Clip(c.times[c.head:]), Values: slices.Clip(c.values[c.head:]),
	}
	if c.counts != nil {
		s.Counts = slices.Clip(c.counts[c.head:])
	}
	return s
}

// drop removes the points before from.
func (c *column) drop(from int64) {
	for c.head < len(c.times) && c.times[c.head] < from {
		c.head++
	}
}

// known returns the second up to which the column is complete for a query that ends at to, except for points within
// the overlap.
func (c *column) known(to int64) int64 {
	newest := c.times[len(c.times)-1]
	if to < c.watched {
		return min(newest, c.gap)
	}
	return newest
}

// watch searches for gaps longer than the overlap between the second before and the new points after it. After an outage
// a writer may write the newest points first and the missed points later.
func (c *column) watch(before int64, times []int64, r reading) {
	for _, t := range times {
		if t-before > r.overlap {
			if r.to >= c.watched {
				c.gap = before
			}
			c.gap, c.watched = min(c.gap, before), r.to+r.full
		}
		before = t
	}
}

// replace replaces all points from r.since on by s. If s begins with these points, the rest of s is appended.
// Otherwise the column gets a new lineage and new memory. It reports whether s has fewer points.
func (c *column) replace(s metrics.Series, r reading) (lost bool) {
	newest := c.times[len(c.times)-1]
	c.watch(newest, s.Times[sort.Search(len(s.Times), func(i int) bool { return s.Times[i] > newest }):], r)
	cut := c.head + sort.Search(len(c.times)-c.head, func(i int) bool { return c.times[c.head+i] >= r.since })
	known := len(c.times) - cut
	same := known <= len(s.Times) &&
		slices.Equal(c.times[cut:], s.Times[:known]) && slices.Equal(c.values[cut:], s.Values[:known]) &&
		(c.counts == nil || slices.Equal(c.counts[cut:], s.Counts[:known]))
	if same {
		c.appendPoints(s, known)
		return false
	}
	c.lineage = r.lineage.Add(1)
	c.move(cut, len(s.Times))
	c.appendPoints(s, 0)
	return len(s.Times) < known
}

// appendPoints appends the points of s from that index on, in new memory if there is no room.
func (c *column) appendPoints(s metrics.Series, from int) {
	more := len(s.Times) - from
	if len(c.times)+more > min(cap(c.times), cap(c.values)) || c.counts != nil && len(c.counts)+more > cap(c.counts) {
		c.move(len(c.times), more)
	}
	c.times, c.values = append(c.times, s.Times[from:]...), append(c.values, s.Values[from:]...)
	if c.counts != nil && more > 0 {
		c.counts = append(c.counts, s.Counts[from:]...)
	}
}

// move copies the points from head to end to new memory, with room for more plus a quarter of the total. So a point
// is copied at most four times before it is dropped.
func (c *column) move(end, more int) {
	live := end - c.head
	room := live + more + (live+more)/4
	c.times = append(make([]int64, 0, room), c.times[c.head:end]...)
	c.values = append(make([]float64, 0, room), c.values[c.head:end]...)
	if c.counts != nil {
		c.counts = append(make([]float64, 0, room), c.counts[c.head:end]...)
	}
	c.head = 0
}
