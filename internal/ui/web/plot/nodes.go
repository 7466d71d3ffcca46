package plot

import (
	"slices"
	"strconv"

	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// NodePart is a part of the life of a node.
type NodePart int

const (
	Ordered  NodePart = iota // its instance starts
	InPool                   // it has joined
	Draining                 // it leaves
	Repair                   // it is in repair, silent or in quarantine
)

// Stretch is one part of a node's life, in columns.
type Stretch struct {
	Part     NodePart
	From, To int
	Text     string // of a repair
}

// Node is the life of one node in the window. Its stretches do not overlap.
type Node struct {
	ID    string
	Parts []Stretch
}

// Nodes is the plot of the nodes of one group: a lane for each node with an event, and one bar for the others.
type Nodes struct {
	Name    string
	Columns int
	Nodes   []Node
	Others  string       // text of the area of the nodes without an event; empty: no such nodes
	Steady  []series.Bin // their weight
	From    int          // column of the first known tick
	Until   int          // column of the last one
}

// maxNodes is the number of nodes with an event that have a lane.
const maxNodes = 120

// Draw returns the plot. A lane is used again after its node has ended.
func (n Nodes) Draw() []byte {
	lanes, left := n.lanes()
	height := len(lanes)*nodeHeight + 10
	if n.others() {
		height += 22
	}
	if left > 0 {
		height += 14
	}
	var d drawing
	d.open("nodes", n.Name, height)
	d.shapes(n.Columns, height)
	for i, lane := range lanes {
		for _, node := range lane {
			for _, p := range node.Parts {
				n.part(&d, p, i*nodeHeight*10+60)
			}
		}
	}
	y := len(lanes)*nodeHeight + 10
	if n.others() {
		n.steady(&d, y+10)
	}
	d.close()
	var list []note
	for i, lane := range lanes {
		for _, node := range lane {
			for _, p := range node.Parts {
				if p.Part == Repair && p.Text != "" {
					list = append(list, note{x: float64(p.From) / float64(n.Columns), y: i*nodeHeight + 10, class: "warn-text", text: "▲ " + p.Text, plate: true, urgency: 1})
				}
			}
		}
	}
	if n.Others != "" {
		list = append(list, note{x: float64(n.From) / float64(n.Columns), y: y + 7, text: n.Others, right: true})
	}
	d.notes(list)
	if left > 0 {
		d.text("note halo", 0.006, height-4, "", "+ "+strconv.Itoa(left)+" more nodes with an event")
	}
	d.close()
	return d.Bytes()
}

// others reports whether a node without an event is in the window.
func (n Nodes) others() bool { return highest(n.Steady) >= 1 }

// steady draws the weight of the nodes without an event, 8 px high at its peak, so that it begins when they began.
func (n Nodes) steady(d *drawing, y int) {
	low, high, ok := make([]float32, len(n.Steady)), make([]float32, len(n.Steady)), make([]bool, len(n.Steady))
	for i, b := range n.Steady {
		high[i], ok[i] = b.Mean, b.OK && b.Mean > 0
	}
	d.add(`<svg y="$" height="80" width="100%" overflow="visible"><path class="node" d="$"/></svg>`, y*10, area(low, high, ok, scale{highest(n.Steady), 8}))
}

// part draws a stretch around y, in tenths of a pixel.
func (n Nodes) part(d *drawing, p Stretch, y int) {
	class, half := "node", 22
	switch p.Part {
	case Ordered:
		half = 8
	case Draining:
		class, half = "hollow", 18
	case Repair:
		class, half = "warn", 30
	}
	d.add(`<path class="$" d="$"/>`, class, block(p.From, p.To, y-half, y+half))
}

// lanes puts each node into the first lane that is free at its start. left counts the nodes without a lane.
func (n Nodes) lanes() (lanes [][]Node, left int) {
	nodes := slices.Clone(n.Nodes)
	slices.SortStableFunc(nodes, func(a, b Node) int { return a.from() - b.from() })
	for _, node := range nodes {
		i := slices.IndexFunc(lanes, func(l []Node) bool { return l[len(l)-1].to()+2 < node.from() })
		switch {
		case len(node.Parts) == 0:
		case i >= 0:
			lanes[i] = append(lanes[i], node)
		case len(lanes) < maxNodes:
			lanes = append(lanes, []Node{node})
		default:
			left++
		}
	}
	return lanes, left
}

func (n Node) from() int {
	if len(n.Parts) == 0 {
		return 0
	}
	return n.Parts[0].From
}

func (n Node) to() int {
	if len(n.Parts) == 0 {
		return 0
	}
	return n.Parts[len(n.Parts)-1].To
}
