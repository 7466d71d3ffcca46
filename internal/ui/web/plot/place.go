package plot

import (
	"cmp"
	"slices"
	"unicode/utf8"
)

// note is a text beside a mark of a plot.
type note struct {
	x       float64 // of the mark, 0 to 1
	y       int     // baseline, pixels
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

func (n note) box(width int, right bool) box {
	at, long := int(n.x*float64(width)), utf8.RuneCountInString(n.text)*15/2+2
	if right {
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

// notes writes notes so that none is over another one at any width. A note without room has no text: its mark stays. A note with
// room on a wide plot alone has the class "roomy", which narrow pages hide.
func (d *drawing) notes(list []note) {
	slices.SortStableFunc(list, func(a, b note) int { return cmp.Or(cmp.Compare(b.urgency, a.urgency), cmp.Compare(b.x, a.x)) })
	var wide, narrow []box
	for _, n := range list {
		right := n.right
		place := n.box(roomyWidth, right)
		if !place.fits(roomyWidth, wide) {
			if right, place = !right, n.box(roomyWidth, !right); !place.fits(roomyWidth, wide) {
				continue
			}
		}
		wide = append(wide, place)
		if small := n.box(narrowWidth, right); small.fits(narrowWidth, narrow) {
			narrow = append(narrow, small)
		} else {
			n.class += " roomy"
		}
		d.note(n, right)
	}
}

// note writes a note on one side of its mark.
func (d *drawing) note(n note, right bool) {
	anchor, distance := "end", -3
	if right {
		anchor, distance = "", 3
	}
	if n.plate {
		d.plate(n.class, n.x, n.y, anchor, n.text)
		return
	}
	d.aside(n.class+" halo", n.x, distance, n.y, anchor, n.text)
}
