package web

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/plot"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// parts has the part of a node's life for each kind of note.
var parts = map[series.NoteKind]plot.NodePart{
	series.NodeStarting: plot.Ordered, series.NodeDraining: plot.Draining, series.NodeRepair: plot.Repair,
	series.NodeQuarantined: plot.Repair, series.NodeSilent: plot.Repair,
}

// nodes returns the lanes of the nodes with an event, by group, and a bar for the other nodes of each group.
func (d drawer) nodes() (out []lane) {
	events := map[string]map[string][]series.Span{} // by group and node
	for kind := range parts {
		for _, s := range d.ring.Spans(kind, d.w.From, d.w.To) {
			if events[s.Group] == nil {
				events[s.Group] = map[string][]series.Span{}
			}
			events[s.Group][s.Name] = append(events[s.Group][s.Name], s)
		}
	}
	groups := []string{}
	for _, k := range d.ring.Keys(series.Group) {
		groups = append(groups, k.Name)
	}
	for name := range events {
		if !slices.Contains(groups, name) {
			groups = append(groups, name)
		}
	}
	for i, group := range groups {
		if len(out) == maxLanes {
			return append(out, lane{Text: "More groups have no lane here."})
		}
		key := series.Key{Quantity: series.Group, Name: group}
		l := plot.Nodes{Columns: d.w.Columns, From: d.from(), Until: d.until()}
		for id, spans := range events[group] {
			l.Nodes = append(l.Nodes, d.node(id, spans))
		}
		slices.SortFunc(l.Nodes, func(a, b plot.Node) int { return cmp.Compare(a.ID, b.ID) })
		value, known := d.ring.At(key, d.at)
		l.Steady = d.steady(key, l.Nodes)
		if b := l.Steady[min(max(d.w.Column(d.at), 0), d.w.Columns-1)]; b.OK && b.Last >= 1 {
			l.Others = "weight " + plot.Number(float64(b.Last)) + " without an event"
		}
		text := weight(value, known)
		l.Name = fmt.Sprintf("Nodes of group %s: weight %s, %s with an event", group, text, prose.Count(len(l.Nodes), "node"))
		name := group
		if name == "" {
			name = "group unknown"
		}
		out = append(out, lane{Name: name, Href: d.name.href() + "/nodes", Swatch: groupClass(i), Plot: l.Draw(), Value: "weight " + text, Key: keyName(key)})
	}
	return out
}

// until returns the column after the last tick: what follows is unknown.
func (d drawer) until() int {
	return min(d.w.Column(d.ring.Last().Add(max(d.ring.Every(), time.Second)))+1, d.w.Columns)
}

// from returns the column of the first tick.
func (d drawer) from() int { return max(d.w.Column(d.ring.First()), 0) }

// steady returns the weight of a group in each column, without its nodes with an event.
func (d drawer) steady(group series.Key, nodes []plot.Node) []series.Bin {
	bins := d.ring.Bins(group, d.w)
	for _, n := range nodes {
		for _, p := range n.Parts {
			if p.Part == plot.Ordered {
				continue
			}
			for c := max(p.From, 0); c < min(p.To, len(bins)); c++ {
				b := &bins[c]
				b.Last, b.Mean, b.Max, b.Min = max(b.Last-1, 0), max(b.Mean-1, 0), max(b.Max-1, 0), max(b.Min-1, 0)
			}
		}
	}
	return bins
}

// node returns the life of a node from its events: it is in the pool between them. It is there from the start of the
// window, unless its first event is its start. It is there to the end, unless its last event is a drain that has ended.
func (d drawer) node(id string, spans []series.Span) plot.Node {
	slices.SortFunc(spans, func(a, b series.Span) int { return a.From.Compare(b.From) })
	n := plot.Node{ID: id}
	at := 0
	switch {
	case spans[0].Kind == series.NodeStarting:
		at = d.band(spans[0]).From
	case !spans[0].Began.IsZero():
		at = max(d.w.Column(spans[0].Began), 0)
	}
	gone := false
	for _, s := range spans {
		band := d.band(s)
		if band.From > at && s.Kind != series.NodeStarting {
			n.Parts = append(n.Parts, plot.Stretch{Part: plot.InPool, From: at, To: band.From})
		}
		text := ""
		if parts[s.Kind] == plot.Repair {
			text = series.Cut(id+" "+s.Text, 40)
		}
		n.Parts = append(n.Parts, plot.Stretch{Part: parts[s.Kind], From: max(band.From, at), To: band.To, Text: text})
		at = band.To
		gone = s.Kind == series.NodeDraining && !s.Open
	}
	if end := d.until(); !gone && at < end {
		n.Parts = append(n.Parts, plot.Stretch{Part: plot.InPool, From: at, To: end})
	}
	return n
}
