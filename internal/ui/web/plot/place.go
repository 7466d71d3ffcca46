package plot

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// note is a text beside a mark of a plot.
type note struct {
	x       float64   // of the mark, 0 to 1
	also    []float64 // other places, if there is no room at x
	y       int       // baseline, pixels
	class   string
	text    string
	right   bool // it prefers the right side of its mark
	plate   bool // it has a ground that hides the marks below
	urgency int  // of two notes without room for both, the more urgent one stays, and then the later one
}

const (
	roomyWidth  = 480 // pixels of the narrowest plot beside names and values
	narrowWidth = 350 // pixels of a plot on a phone
	noteGap     = 6   // pixels between two notes, and from a note to its mark
	noteHeight  = 14
)

// box is the place of a note at one width, in pixels.
type box struct{ left, right, y int }

func (n note) box(width int) box {
	at, long := int(n.x*float64(width)), utf8.RuneCountInString(n.text)*15/2+2
	if n.right {
		return box{at + 3, at + 3 + long, n.y}
	}
	return box{at - 3 - long, at - 3, n.y}
}

// fits reports whether a box is within the plot and apart from the others.
func (b box) fits(width int, others []box) bool {
	return b.left >= 0 && b.right <= width && !slices.ContainsFunc(others, func(o box) bool {
		return b.y-o.y < noteHeight && o.y-b.y < noteHeight && b.left < o.right+noteGap && o.left < b.right+noteGap
	})
}

// settle returns a note at the first place apart from the others: on the side that it prefers, on the other one, or at another x.
func (n note) settle(width int, others []box) (note, bool) {
	prefers := n.right
	for _, x := range append([]float64{n.x}, n.also...) {
		for _, right := range []bool{prefers, !prefers} {
			n.x, n.right = x, right
			if n.box(width).fits(width, others) {
				return n, true
			}
		}
	}
	return n, false
}

// notes writes notes so that none is over another one at any width. A note without room has no text: its mark stays. A note with
// room on a wide plot alone has the class "roomy", which narrow pages hide.
func (d *drawing) notes(list []note) {
	slices.SortStableFunc(list, func(a, b note) int { return cmp.Or(cmp.Compare(b.urgency, a.urgency), cmp.Compare(b.x, a.x)) })
	var wide, narrow []box
	for _, n := range list {
		n, ok := n.settle(roomyWidth, wide)
		if !ok {
			continue
		}
		wide = append(wide, n.box(roomyWidth))
		if small := n.box(narrowWidth); small.fits(narrowWidth, narrow) {
			narrow = append(narrow, small)
		} else {
			n.class += " roomy"
		}
		d.note(n)
	}
}

// note writes a note on its side of its mark.
func (d *drawing) note(n note) {
	anchor, distance := "end", -3
	if n.right {
		anchor, distance = "", 3
	}
	if n.plate {
		d.plate(n.class, n.x, n.y, anchor, n.text)
		return
	}
	d.aside(n.class+" halo", n.x, distance, n.y, anchor, n.text)
}
