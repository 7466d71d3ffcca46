package plot

import (
	"math"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// Flag is a moment of a lane with a text to its right.
type Flag struct {
	Column int
	Text   string
}

// SignalLane is the plot of one signal: its verdict, its latency, its releases and its shadow.
type SignalLane struct {
	Name       string
	Columns    int
	Verdict    []series.Bin // series.Severity
	Latency    []series.Bin // ms
	Difference []series.Bin // of the shadow, as a fraction
	Flags      []Flag       // a new release
	Notes      []Flag       // a text to the left of its column
	Shadow     string       // text of the shadow; may be empty
}

// The heights of lanes, in pixels.
const (
	signalHeight = 40
	appHeight    = 44
	nodeHeight   = 7
	orderHeight  = 20
)

// Draw returns the lane. The thickness of a verdict is its severity.
func (l SignalLane) Draw() []byte {
	var d drawing
	d.open("signal", l.Name, signalHeight)
	d.shapes(l.Columns, signalHeight)
	const middle = 160 // of the verdict, tenths of a pixel
	verdict := func(class string, s series.Severity, thick int) {
		shape := blocks(l.Verdict, func(b series.Bin) bool { return series.Severity(b.Max) == s }, middle-thick*5, middle+thick*5)
		if shape != "" {
			d.add(`<path class="$" d="$"/>`, class, shape)
		}
	}
	verdict("quiet", series.Fine, 4)
	verdict("outline", series.NoOpinion, 3)
	verdict("warn", series.Stale, 10)
	verdict("bad", series.Failed, 14)
	if shape := latency(l.Latency); shape != "" {
		d.add(`<path class="latency" d="$"/>`, shape)
	}
	if shape := blocks(l.Difference, func(series.Bin) bool { return true }, 225, 226); shape != "" {
		d.add(`<path class="shadow" d="$"/>`, shape)
	}
	for _, f := range l.Flags {
		d.add(`<path class="flag" d="M$ 60V220"/>`, f.Column)
	}
	d.close()
	d.notes(l.texts())
	d.close()
	return d.Bytes()
}

// texts returns the notes of the lane: problems before releases.
func (l SignalLane) texts() (out []note) {
	at := func(column int) float64 { return float64(column) / float64(l.Columns) }
	for _, f := range l.Flags {
		out = append(out, note{x: at(f.Column), y: 11, class: "ink", text: f.Text, right: true})
	}
	for c, b := range l.Difference {
		if b.OK && l.Shadow != "" {
			out = append(out, note{x: at(c), y: 11, class: "shadow-text", text: l.Shadow})
			break
		}
	}
	return append(out, problems(l.Notes, l.Columns, 11)...)
}

// problems returns the notes of problems.
func problems(flags []Flag, columns, y int) (out []note) {
	for _, f := range flags {
		out = append(out, note{x: float64(f.Column) / float64(columns), y: y, class: noteClass(f.Text), text: f.Text, urgency: 1})
	}
	return out
}

// noteClass returns the class of a note by its mark.
func noteClass(text string) string {
	switch {
	case len(text) > 3 && text[:3] == "✕":
		return "bad-text"
	case len(text) > 3 && text[:3] == "▲":
		return "warn-text"
	}
	return "ink2"
}

// latency returns the area of a latency on a logarithmic scale, 1 ms to 1 s, 8 px high.
func latency(bins []series.Bin) string {
	low, high, ok := make([]float32, len(bins)), make([]float32, len(bins)), make([]bool, len(bins))
	any := false
	for i, b := range bins {
		if b.OK {
			high[i] = 0.4 + float32(math.Log10(float64(min(max(b.Max, 1), 1000))))
			ok[i], any = true, true
		}
	}
	if !any {
		return ""
	}
	// The area is between 30 and 38 px of the lane.
	shape := make([]float32, len(bins))
	for i := range shape {
		shape[i] = high[i]*8/3.4 + 2
		low[i] = 2
	}
	return area(low, shape, ok, scale{signalHeight, signalHeight})
}

// AppLane is the plot of the instances of one app.
type AppLane struct {
	Name              string
	Class             string // of the app
	Columns           int
	Expected, Running []series.Bin
	Flapping          []Band
	Notes             []Flag
}

// Draw returns the lane. Missing instances have a strip at the bottom, because 5 of 113 is one pixel.
func (l AppLane) Draw() []byte {
	var d drawing
	d.open("app", l.Name, appHeight)
	d.shapes(l.Columns, appHeight)
	s := scale{max(highest(l.Expected), highest(l.Running)) * 44 / 26, appHeight - 8}
	low, high, ok := make([]float32, l.Columns), make([]float32, l.Columns), make([]bool, l.Columns)
	for i, b := range l.Running {
		high[i], ok[i] = b.Mean, b.OK
	}
	d.add(`<path class="fill soft $" d="$"/>`, l.Class, area(low, high, ok, s))
	d.add(`<path class="medium" d="$"/>`, line(l.Expected, s))
	missing := make([]series.Bin, l.Columns)
	for i, b := range l.Running {
		missing[i] = series.Bin{OK: b.OK && l.Expected[i].OK && b.Min < l.Expected[i].Min}
	}
	if shape := blocks(missing, func(series.Bin) bool { return true }, 320, 360); shape != "" {
		d.add(`<path class="bad" d="$"/>`, shape)
	}
	for _, b := range l.Flapping {
		d.add(`<path class="warn" d="$"/>`, block(b.From, b.To, 115, 140))
	}
	d.close()
	d.notes(problems(l.Notes, l.Columns, 10))
	d.close()
	return d.Bytes()
}

// OrderLane is the plot of an operator's order.
type OrderLane struct {
	Name    string
	Columns int
	Band    Band
}

// Draw returns the lane.
func (l OrderLane) Draw() []byte {
	var d drawing
	d.open("order", l.Name, orderHeight)
	d.shapes(l.Columns, orderHeight)
	d.add(`<path class="ink" d="$"/>`, block(l.Band.From, l.Band.To, 90, 120))
	d.close()
	x, anchor := float64(l.Band.To)/float64(l.Columns)+0.006, ""
	if x > 0.6 {
		x, anchor = float64(l.Band.From)/float64(l.Columns)-0.006, "end"
		if x < 0.4 {
			x, anchor = 0.99, "end"
		}
	}
	d.text("note halo ink", x, 14, anchor, l.Band.Text)
	d.close()
	return d.Bytes()
}
