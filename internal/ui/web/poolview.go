package web

import (
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/plot"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// link is a choice of a page.
type link struct {
	Text, Href string
	Current    bool
}

// changeRow is a row of the table "Changes of the target".
type changeRow struct {
	At                                   time.Time
	Form                                 string // of the time
	Time, Href, Before, After, Rule, Why string
}

// poolView is the page of one pool.
type poolView struct {
	frame
	Name     string
	Href     string
	Past     bool   // it shows a time of the past, and nothing of now
	AtTick   bool   // its values are of a tick inside of the plots, not of their right edge
	Moment   string // that time, with date and zone
	MomentAt time.Time
	Tabs     []link
	Safe     bool   // to deploy, with Deploy
	Deploy   string // the deploy light; empty: the page is of the past
	Orders   []orderForm
	Sentence string // need, target, joined and the next step
	Rotation string // progress of the rotations; empty: none
	States   []series.State
	// StateLinks are the pages of their nodes and apps, in order; empty: no page.
	StateLinks []string
	Figures    []figure
	Ranges     []link
	Kinds      []link
	Sections   []section
	Overlay    []byte
	Cursor     []byte
	Ruler      []byte
	At         string // time of the cursor, or of the last tick
	AtHref     string // decision at the cursor
	From, To   int64  // ms, for the script
	Columns    int
	Empty      string // why there is no plot
	Changes    []changeRow
	More       int // changes that the table omits
	Series     string
	Query      string // of this page, for the script
}

// section is a group of plots.
type section struct {
	ID, Title string
	Lanes     []lane
}

// lane is one plot with its name and value.
type lane struct {
	Name, Sub string
	Href      string // page of its app or nodes
	Swatch    string // class
	Plot      []byte
	Labels    []byte       // direct labels; nil: Value stands there
	Legend    []plot.Layer // for narrow screens
	Value     string
	Key       string // by which the script finds the value
	Text      string // a sentence in place of a plot
}

// orders adds the forms of the orders that apply now.
func (v *poolView) orders(name Name, last *api.Summary) {
	if last != nil && last.Paused != nil {
		v.Orders = append(v.Orders, orderForm{Path: name.apiPath() + "/resume", Title: "Resume"})
	} else {
		v.Orders = append(v.Orders, orderForm{Path: name.apiPath() + "/pause", Title: "Pause", Timed: true})
	}
	v.Orders = append(v.Orders, orderForm{Path: name.apiPath() + "/offset", Title: "Offset", Amount: "weight", Timed: true})
}

// stateHref returns the page of the node or app that a state is about; empty: it is about the pool.
func (n Name) stateHref(s series.State) string {
	kind, object, _ := strings.Cut(s.Key, "/")
	switch kind {
	case "missing", "crashes", "update", "signal":
		return n.appHref(object)
	case "node":
		return n.nodeHref(object)
	}
	return ""
}

// longStamp returns a time with its date and zone, for headlines.
func longStamp(at time.Time) string { return at.UTC().Format("Mon 2 Jan 2006, 15:04:05") + " UTC" }

// ago returns "39 s ago".
func ago(now, at time.Time) string { return condition.Duration(now.Sub(at)) + " ago" }

// links sets the links to other windows and kinds of resources.
func (v *poolView) links(name Name, q poolQuery, d drawer, young bool) {
	if young {
		to := poolQuery{Range: allRange, Kind: q.Kind}
		v.Ranges = append(v.Ranges, link{"since the pool exists", name.href() + "?" + to.values().Encode(), q.live() && q.Range == allRange})
	}
	for _, r := range ranges {
		to := poolQuery{Range: r.Name, Kind: q.Kind}
		v.Ranges = append(v.Ranges, link{r.Text, name.href() + "?" + to.values().Encode(), q.live() && q.Range == r.Name})
	}
	if !q.live() {
		span := q.To.Sub(q.From)
		for _, one := range []struct {
			text     string
			from, to time.Time
		}{{"← earlier", q.From.Add(-span / 2), q.To.Add(-span / 2)}, {"later →", q.From.Add(span / 2), q.To.Add(span / 2)}} {
			to := poolQuery{From: one.from, To: one.to, Kind: q.Kind}
			v.Ranges = append(v.Ranges, link{one.text, name.href() + "?" + to.values().Encode(), false})
		}
	}
	for _, k := range d.kinds() {
		to := q
		to.Kind = k
		v.Kinds = append(v.Kinds, link{k.String(), name.href() + "?" + to.values().Encode(), k == d.kind})
	}
	if len(v.Kinds) < 2 {
		v.Kinds = nil
	}
}

// maxChangeRows is the length of the table of changes.
const maxChangeRows = 40

// changes sets the table of changes, newest first.
func (v *poolView) changes(name Name, r *series.Ring, w series.Window) {
	layout, form := "15:04", "minute"
	switch span := w.To.Sub(w.From); {
	case span <= time.Hour:
		layout, form = time.TimeOnly, "clock"
	case span > 25*time.Hour:
		layout, form = "2 Jan 15:04", "day"
	}
	list := r.Changes(w.From, w.To)
	for _, c := range list[:min(len(list), maxChangeRows)] {
		v.Changes = append(v.Changes, changeRow{
			c.At, form, c.At.UTC().Format(layout), name.tickHref(c.At), plot.Number(c.Before), plot.Number(c.After), c.Rule, c.Why,
		})
	}
	v.More = len(list) - len(v.Changes)
}

// costFigure returns the cost of an hour, and what it lacks. If it is unknown in part, the figure is a lower bound.
func costFigure(c api.Cost) figure {
	f := figure{"cost", "cost per hour", explain.Money(c.PerHour), c.Currency}
	unpriced := c.Unpriced()
	lacks := "no price of " + prose.Count(len(unpriced), "market")
	switch {
	case c.Failed != "":
		f.Value, f.Rest = "–", "the price file cannot be read"
	case len(unpriced) > 0 && c.PerHour == 0:
		f.Value, f.Rest = "–", lacks
	case len(unpriced) > 0:
		f.Value, f.Rest = "≥ "+f.Value, f.Rest+", "+lacks
	}
	return f
}
