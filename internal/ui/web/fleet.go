package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/plot"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// The groups of the fleet, in order.
const (
	needAttention = iota
	pausedPools
	changingPools
	steadyPools
)

// row is a pool in the fleet.
type row struct {
	ID, Href, Name string
	Class, Glyph   string
	State          series.State
	Others         int    // more states that need attention
	Paused         string // beside a worse state: operator, reason and end
	Group          int
	Spark          []byte
	Joined, Target string
	Maximum        string
	Running        string // instances that run
	Expected       string // not empty: some are missing
	Age            string
	Tall           bool

	joined, target   float64
	known            bool // joined and target
	expected, absent int
	age              time.Duration
	ticked           bool
	trouble          []series.Bin
}

// rowGroup is a part of the fleet.
type rowGroup struct {
	ID, Title string
	Rows      []row
}

// fleetView is the page of all pools.
type fleetView struct {
	frame
	Headline string
	Figures  []figure
	History  []byte
	Marks    []plot.Mark
	Query    string
	Groups   []rowGroup
	Pools    int // without the filter
}

const (
	sparkColumns = 240
	sparkTime    = 24 * time.Hour
	quarter      = 15 * time.Minute // of the bars of pools in trouble
)

// serveFleet serves the page of all pools.
func (s *Server) serveFleet(w http.ResponseWriter, r *http.Request) {
	s.page(w, r, http.StatusOK, fleetPage(s.fleet(r.URL.Query().Get("q"))))
}

// fleet returns the view of the pools that contain the query.
func (s *Server) fleet(query string) fleetView {
	now, events := s.now(), s.hub.address("")
	query = series.Cut(query, 64)
	v := fleetView{Query: query, Groups: []rowGroup{
		{ID: "attention", Title: "Need attention"}, {ID: "paused", Title: "Paused"}, {ID: "changing", Title: "Changing"}, {ID: "steady", Title: "Steady"},
	}}
	var all []row
	for _, name := range s.store.names() {
		one := s.row(name, now)
		all = append(all, one)
	}
	sortRows(all)
	v.Pools = len(all)
	needle := strings.ToLower(query)
	for _, one := range all {
		if strings.Contains(strings.ToLower(one.ID+" "+one.State.Word+" "+one.State.Why), needle) {
			v.Groups[one.Group].Rows = append(v.Groups[one.Group].Rows, one)
		}
	}
	v.head(all)
	v.history(all, now)
	v.frame = s.frame(v.Headline, nil)
	v.Events = events
	v.Live = "live, " + now.UTC().Format(time.TimeOnly) + " UTC"
	return v
}

// sortRows sorts pools: worst first, then the longest trouble, then the name.
func sortRows(rows []row) {
	slices.SortStableFunc(rows, func(a, b row) int {
		c := cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.State.Rank, b.State.Rank))
		if c == 0 && a.State.Rank.NeedsAttention() {
			c = a.State.Since.Compare(b.State.Since)
		}
		return cmp.Or(c, cmp.Compare(a.ID, b.ID))
	})
}

// row returns the row of a pool.
func (s *Server) row(name Name, now time.Time) (v row) {
	s.store.read(name, func(r *series.Ring, k known) {
		states := series.States(now, r, k.last, k.Facts)
		v = row{ID: name.String(), Href: name.href(), Name: name.Pool, State: states[0], Class: stateClass(states[0].Rank), Glyph: glyph(states[0])}
		if name.Cluster != s.cluster {
			v.Name = name.String()
		}
		for _, state := range states[1:] {
			if state.Rank.NeedsAttention() {
				v.Others++
			} else if state.Rank == condition.Paused {
				v.Paused = state.Why
			}
		}
		v.Group = map[condition.Rank]int{condition.Paused: pausedPools, condition.Changing: changingPools, condition.Steady: steadyPools}[states[0].Rank]
		v.Tall = v.Group <= pausedPools
		v.values(r, k, now)
		v.draw(&s.sparks, r, now)
	})
	return v
}

// values sets the numbers of a row.
func (v *row) values(r *series.Ring, k known, now time.Time) {
	f, old := k.Facts, condition.Old(now, k.last)
	value := func(q series.Quantity) (float64, string) {
		x, ok := r.Latest(series.Key{Quantity: q})
		if v.known = ok && !old; !v.known {
			x = 0
		}
		return x, weight(x, v.known)
	}
	_, v.Maximum = value(series.Maximum)
	v.joined, v.Joined = value(series.Joined)
	v.target, v.Target = value(series.Target)
	v.Running = "–"
	running := 0
	for _, a := range f.Apps {
		running += a.Running
		v.expected += a.Expected
		v.absent += a.Missing
	}
	if f.Apps != nil {
		v.Running = fmt.Sprint(running)
		if v.absent > 0 {
			v.Expected = fmt.Sprint(v.expected)
		}
	}
	v.Age = "never"
	if r.Len() > 0 {
		v.age, v.ticked = max(now.Sub(r.Last()), 0), true
		v.Age = condition.Duration(v.age)
	}
}

// draw sets the plot of a row: drawn again only after a tick, or when its last column moves.
func (v *row) draw(c *sparks, r *series.Ring, now time.Time) {
	to := now.Truncate(sparkTime / sparkColumns).Add(sparkTime / sparkColumns)
	w := series.Window{From: to.Add(-sparkTime), To: to, Columns: sparkColumns}
	bins := func(q series.Quantity) []series.Bin { return r.Bins(series.Key{Quantity: q}, w) }
	height := 22
	if v.Tall {
		height = 36
	}
	key := sparkKey{r.Last(), to, height}
	one, ok := c.get(v.ID, key)
	if !ok {
		one = spark{sparkKey: key, trouble: bins(series.Trouble)}
		one.markup = plot.Spark{
			Name: fmt.Sprintf("24 hours: joined %s, target %s, maximum %s", v.Joined, v.Target, v.Maximum), Columns: sparkColumns, Height: height,
			Joined: bins(series.Joined), Target: bins(series.Target), Maximum: bins(series.Maximum), Trouble: one.trouble,
		}.Draw()
		c.put(v.ID, one)
	}
	v.Spark, v.trouble = one.markup, one.trouble
}

// head sets the headline, which is the answer, and the figures.
func (v *fleetView) head(all []row) {
	bad := 0
	joined, target, expected, absent, unknown := 0.0, 0.0, 0, 0, 0
	var oldest time.Duration
	never, known := false, false
	for _, one := range all {
		if one.Group == needAttention {
			bad++
		}
		joined, target, expected, absent = joined+one.joined, target+one.target, expected+one.expected, absent+one.absent
		oldest = max(oldest, one.age)
		never = never || !one.ticked
		if !one.known {
			unknown++
		}
		known = known || one.Running != "–"
	}
	switch {
	case len(all) == 0:
		v.Headline = "No pools found"
	case bad == 0 && len(all) == 1:
		v.Headline = "The pool is well"
	case bad == 0:
		v.Headline = fmt.Sprintf("All %d pools are well", len(all))
	case len(all) == 1:
		v.Headline = "The pool needs attention"
	case bad == 1:
		v.Headline = fmt.Sprintf("1 of %d pools needs attention", len(all))
	default:
		v.Headline = fmt.Sprintf("%d of %d pools need attention", bad, len(all))
	}
	if len(all) == 0 {
		return
	}
	age := condition.Duration(oldest)
	if never {
		age = "never"
	}
	size := figure{"joined", "weight joined", plot.Number(joined), "of " + plot.Number(target)}
	switch {
	case unknown == len(all):
		size.Value, size.Rest = "–", "unknown"
	case unknown > 0:
		size.Rest += ", without " + prose.Count(unknown, "pool")
	}
	v.Figures = []figure{size}
	if known {
		v.Figures = append(v.Figures, figure{"missing", "app instances missing", fmt.Sprint(absent), fmt.Sprintf("of %d", expected)})
	}
	v.Figures = append(v.Figures, figure{"oldest", "oldest tick", age, ""})
}

// history sets the bars of pools in trouble, by quarter of an hour and by wall clock.
func (v *fleetView) history(all []row, now time.Time) {
	const n = int(sparkTime / quarter)
	to := now.Truncate(sparkTime / sparkColumns).Add(sparkTime / sparkColumns)
	w := series.Window{From: to.Add(-sparkTime), To: to, Columns: n}
	h := plot.History{Height: 44, NotServed: make([]int, n), Warn: make([]int, n)}
	total := 0
	for _, one := range all {
		worst := make([]series.Severity, n)
		for c, b := range one.trouble {
			i := c * n / sparkColumns
			worst[i] = max(worst[i], series.Severity(b.Max))
		}
		worst[n-1] = max(worst[n-1], series.SeverityOfRank(one.State.Rank)) // a pool without a tick has none in its bins
		for i, x := range worst {
			switch x {
			case series.Failed:
				h.NotServed[i]++
				total++
			case series.Stale:
				h.Warn[i]++
				total++
			}
		}
	}
	if total == 0 {
		return
	}
	h.Name = fmt.Sprintf("Pools in trouble in the last 24 hours: now %d", h.NotServed[n-1]+h.Warn[n-1])
	v.History = h.Draw()
	v.Marks = marks(w, true)
}

// fleetEvent is what a live fleet gets: the changed rows, the head, and the order of all rows.
type fleetEvent struct {
	Head  string     `json:"head"`
	Live  string     `json:"live"`
	Away  bool       `json:"away"`
	Order [][]string `json:"order"` // ids by group
	Rows  []rowEvent `json:"rows"`
}

type rowEvent struct {
	ID   string `json:"id"`
	HTML string `json:"html"`
}

// fleetEvent returns the event for the pools that changed.
func (s *Server) fleetEvent(ctx context.Context, changed []Name) (e fleetEvent, err error) {
	v := s.fleet("")
	head, err := render(ctx, fleetHead(v))
	if err != nil {
		return e, err
	}
	e.Head, e.Live, e.Away = string(head), v.Live, v.Away != ""
	ids := map[string]bool{}
	for _, name := range changed {
		ids[name.String()] = true
	}
	for _, g := range v.Groups {
		order := []string{}
		for _, one := range g.Rows {
			order = append(order, one.ID)
			if ids[one.ID] {
				html, err := render(ctx, fleetRow(one))
				if err != nil {
					return e, err
				}
				e.Rows = append(e.Rows, rowEvent{one.ID, string(html)})
			}
		}
		e.Order = append(e.Order, order)
	}
	return e, nil
}

// shown counts the rows of the page.
func shown(v fleetView) (n int) {
	for _, g := range v.Groups {
		n += len(g.Rows)
	}
	return n
}
