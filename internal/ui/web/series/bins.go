package series

import "time"

// MaxColumns is the number of columns of a plot. A screen shows no more.
const MaxColumns = 720

// Window is the time that a plot shows: From is in it, To is not.
type Window struct {
	From, To time.Time
	Columns  int
}

// NewWindow returns the window with a column for each tick, and at most MaxColumns.
func NewWindow(from, to time.Time, every time.Duration) Window {
	n := MaxColumns
	if every > 0 {
		n = int(min(int64(to.Sub(from)/every), MaxColumns))
	}
	return Window{from, to, max(n, 2)}
}

// Column returns the column of a time; it may be outside the window.
func (w Window) Column(t time.Time) int { return w.column(t.UnixMilli()) }

// column returns the column of a time in ms. Plots call it for each tick, so it is integer arithmetic.
func (w Window) column(ms int64) int {
	span := max(w.To.UnixMilli()-w.From.UnixMilli(), 1)
	n := (ms - w.From.UnixMilli()) * int64(w.Columns)
	if n < 0 {
		return int((n - span + 1) / span)
	}
	return int(n / span)
}

// Time returns when a column starts.
func (w Window) Time(column int) time.Time {
	return w.From.Add(time.Duration(float64(w.To.Sub(w.From)) * float64(column) / float64(w.Columns)))
}

// Bin is one column of a plot. Without OK it is a gap.
type Bin struct {
	Min, Max, Last, Mean float32
	OK                   bool
}

// held is how many periods a value counts if no tick follows.
const held = 3

// Bins reduces a track to the columns of the window. A value holds until the next tick, for at most 3 periods. A column
// keeps the minimum, maximum, last value and mean of its ticks, so that no spike is lost. A column with gaps only is a gap.
func (r *Ring) Bins(key Key, w Window) []Bin {
	out := make([]Bin, w.Columns)
	track := r.tracks[key]
	if track == nil {
		return out
	}
	counts := 0
	last := -1 // column of the values that counts counts
	r.each(w, func(i, from, to int) {
		x := track[i]
		if x != x {
			return
		}
		if from >= 0 && from < w.Columns {
			if from != last {
				counts, last = 0, from
			}
			counts++
			out[from].add(x, counts)
		}
		for c := max(from+1, 0); c < min(to, w.Columns); c++ {
			out[c] = Bin{x, x, x, x, true}
		}
	})
	return out
}

// add adds the n-th value of the column.
func (b *Bin) add(x float32, n int) {
	if !b.OK || n == 1 {
		*b = Bin{x, x, x, x, true}
		return
	}
	b.Min, b.Max, b.Last = min(b.Min, x), max(b.Max, x), x
	b.Mean += (x - b.Mean) / float32(n)
}

// each calls visit with each tick that counts in the window: its column, and the column at which its value ends. Columns
// before the window are negative.
func (r *Ring) each(w Window, visit func(i, from, to int)) {
	if !r.columns.of(r, w) {
		r.columns = r.columnsOf(w)
	}
	for k, from := range r.columns.from {
		visit(r.columns.first+k, int(from), int(r.columns.to[k]))
	}
}

// tickColumns are the columns of the ticks of one window. A plot has many tracks with the same ticks.
type tickColumns struct {
	window   Window
	ticks    int // of the ring
	last     int64
	first    int // index of the first tick that counts
	from, to []int32
}

// of reports whether the columns are those of a window of the ring now.
func (c tickColumns) of(r *Ring, w Window) bool {
	return c.window == w && c.ticks == len(r.at) && c.ticks > 0 && c.last == r.at[c.ticks-1]
}

func (r *Ring) columnsOf(w Window) tickColumns {
	c := tickColumns{window: w, ticks: len(r.at), first: -1}
	if c.ticks > 0 {
		c.last = r.at[c.ticks-1]
	}
	every := r.every.Milliseconds()
	if every <= 0 {
		every = time.Minute.Milliseconds()
	}
	from, to := w.From.UnixMilli(), w.To.UnixMilli()
	for i := max(r.before(w.From), 0); i < len(r.at) && r.at[i] < to; i++ {
		end := r.at[i] + held*every
		if i+1 < len(r.at) {
			end = min(end, r.at[i+1])
		}
		if end > from {
			if c.first < 0 {
				c.first = i
			}
			c.from, c.to = append(c.from, int32(w.column(r.at[i]))), append(c.to, int32(w.column(end)))
		}
	}
	return c
}

// Times returns the time of the last tick of each column, in ms; 0 for a column without a tick.
func (r *Ring) Times(w Window) []int64 {
	out := make([]int64, w.Columns)
	r.each(w, func(i, from, _ int) {
		if from >= 0 && from < w.Columns {
			out[from] = r.at[i]
		}
	})
	return out
}

// Gaps returns the times without values: paused and failed ticks, and times without a tick for 3 periods. A time before
// the first tick is not one.
func (r *Ring) Gaps(w Window) (out []Window) {
	covered := make([]bool, w.Columns)
	first := w.Columns
	r.each(w, func(i, from, to int) {
		first = min(first, max(from, 0))
		if r.gap[i] {
			return
		}
		for c := max(from, 0); c < min(max(to, from+1), w.Columns); c++ {
			covered[c] = true
		}
	})
	for c := first; c < w.Columns; c++ {
		if covered[c] {
			continue
		}
		end := c
		for end < w.Columns && !covered[end] {
			end++
		}
		out = append(out, Window{w.Time(c), w.Time(end), end - c})
		c = end
	}
	return out
}
