package plot

import "math"

// Dot is one choice of a Scatter.
type Dot struct {
	X, Y         float64
	HalfX, HalfY float64 // half of the width of an interval; 0: none
	Class        string  // of the style sheet
	Text         string
}

// Scatter is a plot of choices by two quantities of which less is better.
type Scatter struct {
	Name   string // a sentence, for screen readers
	X, Y   string // names of the axes
	Height int    // pixels
	Dots   []Dot
}

// axis maps values to 0 to 1.
type axis struct{ low, high, step float64 }

// newAxis returns an axis with room on both sides of the values.
func newAxis(dots []Dot, of func(Dot) (x, half float64)) axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, d := range dots {
		x, half := of(d)
		low, high = min(low, x-half), max(high, x+half)
	}
	span := max(high-low, math.Abs(high)*1e-3, 1e-6)
	a := axis{low - span*0.12, high + span*0.12, nice(span*1.24, 5)}
	if low >= 0 {
		a.low = max(0, a.low)
	}
	return a
}

func (a axis) place(x float64) float64 { return (x - a.low) / (a.high - a.low) }

// Draw returns the plot.
func (s Scatter) Draw() []byte {
	var d drawing
	if len(s.Dots) == 0 {
		return nil
	}
	x := newAxis(s.Dots, func(d Dot) (float64, float64) { return d.X, d.HalfX })
	y := newAxis(s.Dots, func(d Dot) (float64, float64) { return d.Y, d.HalfY })
	foot := s.Height - 34
	down := func(v float64) int { return foot - int(y.place(v)*float64(foot-8)) }
	d.open("scatter", s.Name, s.Height)
	for v := math.Ceil(x.low/x.step) * x.step; v <= x.high; v += x.step {
		at := percent(x.place(v))
		d.add(`<line class="grid" x1="$" x2="$" y1="0" y2="$"/>`, at, at, foot)
		d.text("axis", x.place(v), foot+14, "middle", number(v))
	}
	for v := math.Ceil(y.low/y.step) * y.step; v <= y.high; v += y.step {
		d.add(`<line class="grid" x1="0" x2="100%" y1="$" y2="$"/>`, down(v), down(v))
		d.add(`<text class="axis" x="-8" y="$" text-anchor="end">$</text>`, down(v)+4, number(v))
	}
	var list []note
	for _, one := range s.Dots {
		at, high := x.place(one.X), down(one.Y)
		if one.HalfX > 0 {
			d.add(`<line class="half" x1="$" x2="$" y1="$" y2="$"/>`, percent(x.place(one.X-one.HalfX)), percent(x.place(one.X+one.HalfX)), high, high)
		}
		if one.HalfY > 0 {
			d.add(`<line class="half" x1="$" x2="$" y1="$" y2="$"/>`, percent(at), percent(at), down(one.Y+one.HalfY), down(one.Y-one.HalfY))
		}
		d.add(`<circle class="dot-mark $" cx="$" cy="$" r="5"/>`, one.Class, percent(at), high)
		list = append(list, note{x: at + 0.012, y: high + 4, class: "ink", text: one.Text, right: true})
	}
	d.notes(list)
	d.text("axis strong", 1, s.Height-4, "end", s.X+" →")
	d.text("axis strong halo", 0.006, 12, "", "↑ "+s.Y)
	d.close()
	return d.Bytes()
}
