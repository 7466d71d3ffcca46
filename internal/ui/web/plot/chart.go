package plot

import (
	"slices"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// Layer is one series of a chart.
type Layer struct {
	Class string // of the style sheet
	Name  string // label
	Key   string // by which the script finds the value
	Value string // present value, for the label
	Bins  []series.Bin
}

// Band is a time of a plot that has a mark of its own, in columns.
type Band struct {
	Class    string
	From, To int
	Text     string // may be empty
}

// Chart is a plot of stacked areas with lines over them.
type Chart struct {
	Name    string // a sentence, for screen readers
	Columns int
	Height  int // pixels
	Stack   []Layer
	Lines   []Layer // the first is drawn last
	Limits  []Layer // dashed
	Bands   []Band
	Peak    float64 // the upper edge is at least that high, so that plots beside each other have one scale
	Gaps    []Band  // of an Overlay, which has their areas; the chart has their texts
}

// labelGap is the least distance of two labels, in pixels.
const labelGap = 15

// Draw returns the plot.
func (c Chart) Draw() []byte {
	var d drawing
	top, above := c.top()
	s := scale{top, c.Height}
	d.open("chart", c.Name, c.Height)
	d.shapes(c.Columns, c.Height)
	step := nice(top, 4)
	for y := step; y < top*0.97; y += step {
		d.add(`<path class="grid" d="M0 $h$"/>`, s.y(float32(y)), c.Columns)
	}
	woven := c.stack(&d, s)
	d.close()
	d.Write(woven)
	for _, b := range c.Bands {
		x, w := float64(b.From)/float64(c.Columns), float64(max(b.To-b.From, 2))/float64(c.Columns)
		d.add(`<rect class="$" x="$" width="$" height="$"/>`, b.Class, percent(x), percent(w), c.Height)
	}
	d.shapes(c.Columns, c.Height)
	for _, l := range c.Limits {
		if shape := line(within(l.Bins, top), s); shape != "" {
			d.add(`<path class="$" d="$"/>`, l.Class, shape)
		}
	}
	for _, l := range slices.Backward(c.Lines) {
		shape := line(l.Bins, s)
		if l.Class != "thin" {
			d.add(`<path class="halo" d="$"/>`, shape)
		}
		d.add(`<path class="$" d="$"/>`, l.Class, shape)
	}
	d.close()
	for y := step; y < top*0.97; y += step {
		d.add(`<text class="axis" x="-8" y="$" text-anchor="end">$</text>`, s.y(float32(y))/10+4, number(y))
	}
	c.texts(&d, above)
	d.close()
	return d.Bytes()
}

// texts writes the texts of bands and gaps, and which limit is above the plot.
func (c Chart) texts(d *drawing, above string) {
	var list []note
	if above != "" {
		list = append(list, note{x: 0.35, also: []float64{0, 1}, y: 12, text: above, right: true})
	}
	for _, b := range c.Bands {
		if b.Text != "" {
			list = append(list, note{x: float64(b.From) / float64(c.Columns), y: 12, class: b.Class + "-text", text: b.Text, right: true, urgency: 1})
		}
	}
	for _, g := range c.Gaps {
		if g.Text != "" {
			list = append(list, note{x: float64(g.From) / float64(c.Columns), y: 26, text: g.Text, right: true})
		}
	}
	d.notes(list)
}

// Highest returns the highest value of the stack and the lines.
func (c Chart) Highest() float64 {
	peak := 0.0
	sums := make([]float64, c.Columns)
	for _, l := range c.Stack {
		for i, b := range l.Bins {
			if b.OK {
				sums[i] += float64(b.Mean)
			}
		}
	}
	for _, x := range sums {
		peak = max(peak, x)
	}
	for _, l := range c.Lines {
		peak = max(peak, highest(l.Bins))
	}
	return peak
}

// top returns the value at the upper edge: the peak with room above it. A limit is in view if it is at most 1.5 times
// the peak. Otherwise above describes its present value.
func (c Chart) top() (top float64, above string) {
	peak := max(c.Peak, c.Highest())
	top = peak
	for _, l := range c.Limits {
		switch x := latest(l.Bins); {
		case x > 1.5*peak && peak > 0:
			above = l.Name + " " + number(x) + " is above ↑"
		default:
			top = max(top, x)
		}
	}
	if above != "" {
		return top * 1.14, above
	}
	return top * 1.06, above
}

// latest returns the last value.
func latest(bins []series.Bin) float64 {
	for _, b := range slices.Backward(bins) {
		if b.OK {
			return float64(b.Last)
		}
	}
	return 0
}

// within returns the columns without those above the upper edge.
func within(bins []series.Bin, top float64) []series.Bin {
	out := slices.Clone(bins)
	for i, b := range out {
		out[i].OK = b.OK && float64(b.Max) <= top
	}
	return out
}

func highest(bins []series.Bin) (x float64) {
	for _, b := range bins {
		if b.OK {
			x = max(x, float64(b.Max))
		}
	}
	return x
}

// stack draws the areas on each other, with a seam between them. woven are the patterns by which adjacent areas differ too.
func (c Chart) stack(d *drawing, s scale) (woven []byte) {
	var patterns drawing
	low, ok := make([]float32, c.Columns), make([]bool, c.Columns)
	for _, l := range c.Stack {
		for i, b := range l.Bins {
			ok[i] = ok[i] || b.OK
		}
	}
	for i, l := range c.Stack {
		high := slices.Clone(low)
		for i, b := range l.Bins {
			if b.OK {
				high[i] += b.Mean
			}
		}
		shape := area(low, high, ok, s)
		d.add(`<path class="fill $" d="$"/>`, l.Class, shape)
		if i%2 == 1 {
			patterns.weave(l.Class, i, c.Columns, c.Height, shape)
		}
		low = high
	}
	return patterns.Bytes()
}

// label is one direct label beside the right end of a chart.
type label struct {
	layer Layer
	at, y int // of the mark, of the text; pixels
}

// Labels returns the direct labels of the chart, for the column at its right: sorted by their place, at least 15 px apart,
// each with a leader to its mark.
func (c Chart) Labels() []byte {
	top, _ := c.top()
	s := scale{top, c.Height}
	var labels []label
	add := func(l Layer, y int) { labels = append(labels, label{l, y / 10, 0}) }
	below := float32(0)
	for _, l := range c.Stack {
		if b, ok := end(l.Bins); ok {
			add(l, s.y(below+b.Mean/2))
			below += b.Mean
		}
	}
	for _, l := range slices.Concat(c.Lines, c.Limits) {
		if b, ok := end(l.Bins); ok && float64(b.Last) <= top {
			add(l, s.y(b.Last))
		}
	}
	spread(labels, c.Height)
	var d drawing
	d.add(`<svg class="plot labels" width="168" height="$" aria-hidden="true">`, c.Height+8)
	for _, l := range labels {
		d.add(`<path class="leader" d="M0 $L12 $h3"/><text x="19" y="$">`, l.at, l.y, l.y+4)
		d.add(`<tspan class="name">$</tspan> <tspan class="value" data-key="$">$</tspan></text>`, l.layer.Name, l.layer.Key, l.layer.Value)
	}
	d.close()
	return d.Bytes()
}

// end returns the last column, if it is near the right edge.
func end(bins []series.Bin) (series.Bin, bool) {
	for i := len(bins) - 1; i >= 0 && i >= len(bins)*9/10; i-- {
		if bins[i].OK {
			return bins[i], true
		}
	}
	return series.Bin{}, false
}

// spread sets the places of the texts: in the order of their marks, at least labelGap apart, and within the height.
func spread(labels []label, height int) {
	slices.SortStableFunc(labels, func(a, b label) int { return a.at - b.at })
	next := 4
	for i := range labels {
		labels[i].y = max(labels[i].at, next)
		next = labels[i].y + labelGap
	}
	last := height
	for i := len(labels) - 1; i >= 0; i-- {
		labels[i].y = min(labels[i].y, last)
		last = labels[i].y - labelGap
	}
}
