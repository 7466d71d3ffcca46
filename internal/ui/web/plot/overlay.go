package plot

// Mark is a time on the axis.
type Mark struct {
	X    float64 // 0 to 1
	Text string
	Now  bool
	At   int64 // ms since 1970, for the script; 0: the text is no time
}

// Overlay is drawn under all plots of a page: grid lines and gaps. The cursor is over the plots, and a chart has the texts of gaps.
type Overlay struct {
	Columns int
	Marks   []Mark
	Gaps    []Band
}

// Draw returns the overlay. Its height is that of its parent.
func (o Overlay) Draw() []byte {
	var d drawing
	d.WriteString(`<svg class="overlay" aria-hidden="true" width="100%" height="100%">`)
	for _, m := range o.Marks {
		d.add(`<line class="grid" x1="$" x2="$" y1="0" y2="100%"/>`, percent(m.X), percent(m.X))
	}
	for _, g := range o.Gaps {
		x, w := float64(g.From)/float64(o.Columns), float64(max(g.To-g.From, 2))/float64(o.Columns)
		for _, class := range []string{"gap", "hatch"} {
			d.add(`<rect class="$" x="$" width="$" y="0" height="100%"/>`, class, percent(x), percent(w))
		}
	}
	d.close()
	return d.Bytes()
}

// Front returns the line of the cursor at x, 0 to 1. A negative x hides the line.
func (o Overlay) Front(x float64) []byte {
	var d drawing
	class := "cursor"
	if x < 0 {
		class, x = "cursor off", 0
	}
	d.WriteString(`<svg class="overlay front" aria-hidden="true" width="100%" height="100%">`)
	d.add(`<line id="cursor" class="$" x1="$" x2="$" y1="0" y2="100%"/></svg>`, class, percent(x), percent(x))
	return d.Bytes()
}

// Ruler returns the time axis.
func Ruler(marks []Mark) []byte {
	var d drawing
	d.WriteString(`<svg class="plot ruler" aria-hidden="true" width="100%" height="20">`)
	for i, m := range marks {
		class, anchor := "axis", "middle"
		if m.Now {
			class, anchor = "axis now", "end"
		}
		if i%2 == 1 && !m.Now {
			class += " odd"
		}
		d.add(`<text class="$" x="$" y="13" text-anchor="$" data-t="$">$</text>`, class, percent(m.X), anchor, int(m.At), m.Text)
	}
	d.close()
	return d.Bytes()
}
