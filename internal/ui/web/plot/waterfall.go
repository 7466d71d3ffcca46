package plot

import "strconv"

// Step is the effect of one rule on a target.
type Step struct {
	Before, After float64
}

// Waterfall draws the bars of a decision, a row for each rule. The scale begins at zero if zero is near. Otherwise it spans the
// values, and the head reports its first value.
type Waterfall struct {
	low, span float64
	zero      bool // the scale begins at zero
}

// Row heights of a waterfall, in pixels.
const (
	rowChanged = 44
	rowSame    = 30
)

// NewWaterfall returns the waterfall of the steps, with room for more values, such as an edited target.
func NewWaterfall(steps []Step, more ...float64) Waterfall {
	var low, high float64
	first := true
	include := func(x float64) {
		if first {
			low, high, first = x, x, false
		}
		low, high = min(low, x), max(high, x)
	}
	for _, s := range steps {
		include(s.Before)
		include(s.After)
	}
	for _, x := range more {
		include(x)
	}
	span := max(high-low, 1e-6)
	if low >= 0 && low <= 2*span { // zero is near: bars are as long as their values
		return Waterfall{0, high * 1.5, true}
	}
	return Waterfall{low - span*0.5, span * 2.2, false} // room for a text to the right of each bar
}

// x returns the place of a value, 0 to 1, and whether it is in view.
func (w Waterfall) x(value float64) (float64, bool) {
	x := (value - w.low) / w.span
	return min(max(x, 0), 1), x >= 0 && x <= 1
}

// Head returns the row above the bars: the target before, and the limits. A limit outside the scale is a text at the
// edge.
func (w Waterfall) Head(before float64, limits map[string]float64, names []string) []byte {
	var d drawing
	var list []note
	y := 12
	if !w.zero {
		list = append(list, note{x: 0, y: y, text: "scale from " + number(w.low), right: true})
		y += 16 // a row of its own, because the plot can be narrow
	}
	d.add(`<svg class="plot fallhead" aria-hidden="true" width="100%" height="$">`, y+20)
	x, _ := w.x(before)
	list = append(list, note{x: x, y: y, class: "strong", text: "was " + number(before), right: true, urgency: 2})
	y += 16
	for _, name := range names {
		value, ok := limits[name]
		if !ok {
			continue
		}
		x, in := w.x(value)
		switch {
		case in:
			list = append(list, note{x: x, y: y, text: name + " " + number(value), right: true, urgency: 1})
		case x == 0:
			list = append(list, note{x: 0, y: y, text: "← " + name + " " + number(value), right: true, urgency: 1})
		default:
			list = append(list, note{x: 1, y: y, text: name + " " + number(value) + " →", urgency: 1})
		}
	}
	d.notes(list)
	d.close()
	return d.Bytes()
}

// aside writes text beside x, at a distance in pixels.
func (d *drawing) aside(class string, x float64, distance, y int, anchor, text string) {
	d.add(`<text class="note $" x="$" dx="$" y="$"`, class, percent(x), distance, y)
	if anchor != "" {
		d.add(` text-anchor="$"`, anchor)
	}
	d.add(`>$</text>`, text)
}

// Row returns the bar of a step. Its lines continue below it, because a row grows with its reason. limits are the places of dashed lines. edited, if it is not nil, is the target after
// this step with edited limits.
func (w Waterfall) Row(s Step, limits map[string]float64, edited *float64) []byte {
	height := rowSame
	if s.Before != s.After {
		height = rowChanged
	}
	var d drawing
	d.add(`<svg class="plot fall" aria-hidden="true" width="100%" height="$">`, height)
	for _, name := range []string{"min", "max"} {
		if value, ok := limits[name]; ok {
			if x, in := w.x(value); in {
				d.add(`<line class="limit" x1="$" x2="$" y1="0" y2="2000"/>`, percent(x), percent(x))
			}
		}
	}
	a, _ := w.x(s.Before)
	b, _ := w.x(s.After)
	middle := height / 2
	d.add(`<line class="leader" x1="$" x2="$" y1="0" y2="$"/>`, percent(a), percent(a), middle)
	d.add(`<line class="leader" x1="$" x2="$" y1="$" y2="2000"/>`, percent(b), percent(b), middle)
	switch {
	case s.After > s.Before:
		d.add(`<rect class="up" x="$" width="$" y="$" height="14"/>`, percent(a), percent(b-a), middle-7)
		d.aside("strong", b, 8, middle+4, "", "▲ +"+number(s.After-s.Before)+" = "+number(s.After))
	case s.After < s.Before:
		d.add(`<rect class="down" x="$" width="$" y="$" height="14"/>`, percent(b), percent(a-b), middle-7)
		d.aside("strong", a, 8, middle+4, "", "▼ −"+number(s.Before-s.After)+" = "+number(s.After))
	default:
		d.add(`<circle class="same" cx="$" cy="$" r="3.5"/>`, percent(a), middle)
	}
	if edited != nil {
		x, _ := w.x(*edited)
		d.add(`<circle class="edited" cx="$" cy="$" r="6"/>`, percent(x), middle)
		y := middle + 4
		if s.Before != s.After {
			y = 11 // above the text of the bar
		}
		if text := "edited: " + number(*edited); x > 0.6 {
			d.aside("", x, -12, y, "end", text)
		} else {
			d.aside("", x, 12, y, "", text)
		}
	}
	d.close()
	return d.Bytes()
}

// Share returns a bar of a share of its whole, 0 to 1.
func Share(class string, share float64) []byte {
	var d drawing
	d.WriteString(`<svg class="plot share" aria-hidden="true" width="100%" height="14"><rect class="ground" width="100%" height="14" rx="2"/>`)
	d.add(`<rect class="fill $" width="$" height="14" rx="2"/></svg>`, class, percent(min(max(share, 0), 1)))
	return d.Bytes()
}

// Percent returns a share as "88 %".
func Percent(x float64) string {
	return strconv.FormatFloat(float64(int(x*100+0.5)), 'f', 0, 64) + " %"
}
