package plot

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// escaper replaces what has a meaning in markup and in quoted attributes.
var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

// drawing collects markup.
type drawing struct{ bytes.Buffer }

// add writes markup, with a value in place of each "$" of the format. It escapes strings, so that only constant formats
// are markup.
func (d *drawing) add(format string, values ...any) {
	for _, v := range values {
		before, after, _ := strings.Cut(format, "$")
		d.WriteString(before)
		switch x := v.(type) {
		case string:
			escaper.WriteString(d, x)
		case int:
			d.Write(strconv.AppendInt(d.AvailableBuffer(), int64(x), 10))
		case float64:
			d.Write(strconv.AppendFloat(d.AvailableBuffer(), x, 'f', -1, 64))
		}
		format = after
	}
	d.WriteString(format)
}

// open begins a plot: an image with a name.
func (d *drawing) open(class, name string, height int) {
	d.add(`<svg class="plot $" role="img" aria-label="$" width="100%" height="$">`, class, name, height)
}

// shapes begins the inner SVG.
func (d *drawing) shapes(columns, height int) {
	d.add(`<svg viewBox="0 0 $ $" preserveAspectRatio="none" width="100%" height="$">`, columns, height*10, height)
}

// weave fills a shape of that inner SVG with the pattern of a class. It is outside of that SVG, which stretches patterns. Of one
// page, two shapes of a class have different numbers.
func (d *drawing) weave(class string, number, columns, height int, shape string) {
	d.add(`<clipPath id="$-$" clipPathUnits="objectBoundingBox"><path transform="scale($ $)" d="$"/></clipPath>`,
		class, number, 1/float64(columns), 1/float64(height*10), shape)
	d.add(`<rect class="weave of-$" width="100%" height="$" clip-path="url(#$-$)"/>`, class, height, class, number)
}

func (d *drawing) close() { d.WriteString("</svg>") }

// text writes text at x percent and y pixels. anchor is "", "middle" or "end".
func (d *drawing) text(class string, x float64, y int, anchor, text string) {
	d.add(`<text class="$" x="$`, class, percent(x))
	d.add(`" y="$"`, y)
	if anchor != "" {
		d.add(` text-anchor="$"`, anchor)
	}
	d.add(`>$</text>`, text)
}

// plate writes text at x percent and y pixels on a ground that hides what is below. Its width is about that of the text.
func (d *drawing) plate(class string, x float64, y int, anchor, text string) {
	width, left := utf8.RuneCountInString(text)*7+8, -4
	if anchor == "end" {
		left = 4 - width
	}
	d.add(`<svg x="$" y="$" overflow="visible"><rect class="plate" x="$" y="-11" width="$" height="15" rx="2"/>`, percent(x), y, left, width)
	d.add(`<text class="note $" y="0"`, class)
	if anchor != "" {
		d.add(` text-anchor="$"`, anchor)
	}
	d.add(`>$</text></svg>`, text)
}

// percent formats a share as "12.5%".
func percent(x float64) string {
	return strconv.FormatFloat(float64(int(x*1000+0.5))/10, 'f', -1, 64) + "%"
}

// scale maps values to tenths of a pixel from the top.
type scale struct {
	top    float64 // value at y = 0
	height int     // in pixels
}

func (s scale) y(x float32) int {
	if s.top <= 0 {
		return s.height * 10
	}
	y := (1 - float64(x)/s.top) * float64(s.height*10)
	return int(max(0, min(y+0.5, float64(s.height*10))))
}

// path writes moves in integers. It writes a horizontal move when the next move needs it.
type path struct {
	bytes.Buffer
	x, y int // written
	next int // x after the moves that are not written yet
}

func (p *path) verb(v byte, n ...int) {
	p.WriteByte(v)
	for i, x := range n {
		if i > 0 && x >= 0 {
			p.WriteByte(' ')
		}
		p.Write(strconv.AppendInt(p.AvailableBuffer(), int64(x), 10))
	}
}

func (p *path) move(x, y int) {
	p.verb('M', x, y)
	p.x, p.y, p.next = x, y, x
}

// right moves to column x.
func (p *path) right(x int) { p.next = x }

// flush writes the horizontal move.
func (p *path) flush() {
	if p.next != p.x {
		p.verb('h', p.next-p.x)
		p.x = p.next
	}
}

// to moves to y.
func (p *path) to(y int) {
	if y != p.y {
		p.flush()
		p.verb('V', y)
		p.y = y
	}
}

// line returns the steps of a line with its envelope: minimum, maximum and last of each column.
func line(bins []series.Bin, s scale) string {
	var p path
	open := false
	for c, b := range bins {
		if !b.OK {
			p.flush()
			open = false
			continue
		}
		if !open {
			p.move(c, s.y(b.Last))
			open = true
		}
		if b.Min != b.Max {
			p.to(s.y(b.Max))
			p.to(s.y(b.Min))
		}
		p.to(s.y(b.Last))
		p.right(c + 1)
	}
	p.flush()
	return p.String()
}

// area returns the area between two lists of means.
func area(low, high []float32, ok []bool, s scale) string {
	var p path
	for c := 0; c < len(ok); c++ {
		if !ok[c] {
			continue
		}
		end := c
		for end < len(ok) && ok[end] {
			end++
		}
		p.move(c, s.y(high[c]))
		for i := c; i < end; i++ {
			p.to(s.y(high[i]))
			p.right(i + 1)
		}
		for i := end - 1; i >= c; i-- {
			p.to(s.y(low[i]))
			p.right(i)
		}
		p.flush()
		p.WriteByte('z')
		c = end
	}
	return p.String()
}

// blocks returns a rectangle for each run of columns that pick accepts, at least 2 columns wide.
func blocks(bins []series.Bin, pick func(series.Bin) bool, top, bottom int) string {
	var p path
	for c := 0; c < len(bins); c++ {
		if !bins[c].OK || !pick(bins[c]) {
			continue
		}
		end := c
		for end < len(bins) && bins[end].OK && pick(bins[end]) {
			end++
		}
		p.WriteString(block(c, end, top, bottom))
		c = end
	}
	return p.String()
}

// block returns a rectangle of at least 2 columns.
func block(from, to, top, bottom int) string {
	var p path
	p.move(from, top)
	width := max(to-from, 2)
	p.verb('h', width)
	p.verb('V', bottom)
	p.verb('h', -width)
	p.WriteByte('z')
	return p.String()
}

// number formats a value for people, with at most 4 digits.
func number(x float64) string {
	switch a := max(x, -x); {
	case a >= 1000:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case a >= 100:
		return strconv.FormatFloat(float64(int(x*10+0.5))/10, 'g', 4, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// Number formats a value for people, with at most 4 digits.
func Number(x float64) string { return number(x) }

// nice returns the distance of grid lines for about n lines up to top.
func nice(top float64, n int) float64 {
	step := 1e-3
	for i := 0; step*float64(n) < top && i < 60; i++ {
		step *= []float64{2, 2.5, 2}[i%3]
	}
	return step
}
