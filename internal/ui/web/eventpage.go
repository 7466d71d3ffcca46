package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// eventFilter is the form of the events, with its present values.
type eventFilter struct {
	Kind, Severity, App, Node, Range, Pool string
	Kinds, Severities, Ranges, Pools       []string
}

// allPools is the choice of all pools of the cluster. No pool has this name.
const allPools = "*"

// newEventFilter returns the filter of a query to the page of a pool, and the length of its range. Unknown values select nothing special.
func (s detailPages) newEventFilter(q url.Values, name Name) (*eventFilter, time.Duration) {
	f := &eventFilter{
		Kind: series.Cut(q.Get("kind"), 20), Severity: series.Cut(q.Get("severity"), 20), App: series.Cut(q.Get("app"), 128), Node: series.Cut(q.Get("node"), 256), Range: q.Get("range"),
		Pool: name.Pool, Kinds: api.EventKinds(),
	}
	if q.Get("pool") == allPools {
		f.Pool = allPools
	}
	for _, one := range s.store.names() {
		if one.Cluster == name.Cluster {
			f.Pools = append(f.Pools, one.Pool)
		}
	}
	for _, s := range api.Severities() {
		f.Severities = append(f.Severities, string(s))
	}
	for _, one := range ranges {
		f.Ranges = append(f.Ranges, one.Name)
	}
	span, found := spanOf(f.Range)
	if !found {
		f.Range, span = "1h", time.Hour
	}
	return f, span
}

// toPool serves the events of a pool. It redirects a query for another pool to the page of that pool.
func toPool(page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, name := r.URL.Query(), Name{r.PathValue("cluster"), r.PathValue("pool")}
		if other := q.Get("pool"); other != "" && other != allPools && other != name.Pool {
			q.Del("pool")
			http.Redirect(w, r, Name{name.Cluster, other}.href()+"/events?"+q.Encode(), http.StatusSeeOther)
			return
		}
		page(w, r)
	}
}

// accepts reports whether an event is of the filter. A severity accepts more urgent ones too.
func (f *eventFilter) accepts(e api.Event) bool {
	urgency := func(s string) int { return slices.Index(api.Severities(), api.Severity(s)) }
	app, node := history.EventObject(e)
	return (f.Kind == "" || f.Kind == string(e.Kind)) && (f.Severity == "" || urgency(string(e.Severity)) >= urgency(f.Severity)) &&
		(f.App == "" || f.App == app) && (f.Node == "" || f.Node == node)
}

// maxEvents bounds the rows of the page.
const maxEvents = 300

// eventPage fills the page of the events of a pool or of all pools, newest first. Repeated events of one object are one row.
func (s detailPages) eventPage(ctx context.Context, r *http.Request, name Name, v *listView) error {
	f, span := s.newEventFilter(r.URL.Query(), name)
	l := eventList{from: s.now().Add(-span), to: s.now(), pools: []string{name.Pool}}
	t := listSection{ID: "events", Columns: []string{"Last", "Kind", "Severity", "App or node", "What", "Times"}, Empty: "No event in this time."}
	of := ""
	if f.Pool == allPools {
		l.pools = append(l.pools, slices.DeleteFunc(slices.Clone(f.Pools), func(p string) bool { return p == name.Pool })...)
		t.Columns, of = slices.Insert(t.Columns, 1, "Pool"), " of all pools"
	}
	if f.Pool == allPools || span > s.store.keep {
		done, err := s.pastSlot(ctx)
		if err != nil {
			return err
		}
		defer done()
	}
	if err := l.read(ctx, s.details, name.Cluster, f.accepts); err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w; choose a shorter time or one pool", err)
		}
		return err
	}
	v.Headline, v.Filter = "Events"+of, f
	v.Sentence = fmt.Sprintf("%s%s in the last %s.", prose.Count(l.total, "event"), of, condition.Duration(span))
	for _, row := range l.rows {
		cells := eventCells(row.FoldedEvent, row.pool, l.to)
		if of != "" {
			pool := cellView{Text: row.pool.Pool, Href: row.pool.href()}
			if row.FoldedEvent.Pool == "" {
				pool = text("–")
			}
			cells = slices.Insert(cells, 1, pool)
		}
		t.Rows = append(t.Rows, cells)
	}
	if l.left > 0 {
		t.Note = fmt.Sprintf("%d older rows are not listed. Choose a shorter time, or a filter.", l.left)
	}
	if len(l.unread) > 0 {
		t.Note = fmt.Sprintf("The events of %s cannot be read now. %s", explain.List(l.unread), t.Note)
	}
	v.Sections = append(v.Sections, t)
	return nil
}

// eventList has the newest rows of the events of pools, newest first.
type eventList struct {
	from, to time.Time
	pools    []string
	rows     []eventRow
	total    int      // events
	left     int      // rows that are not in rows
	unread   []string // pools whose events cannot be read
}

// eventRow is a row of the events of a pool.
type eventRow struct {
	*history.FoldedEvent
	pool Name
}

// read reads the events of all pools. Events without a pool are those that the first pool lists. A pool that cannot be read is an
// error only if no pool can be read.
func (l *eventList) read(ctx context.Context, d Details, cluster string, accepts func(api.Event) bool) error {
	var failed error
	for i, pool := range l.pools {
		name, fold := Name{cluster, pool}, history.Fold{Most: maxEvents}
		err := d.Events(ctx, name, l.from, l.to, func(e api.Event) error {
			if accepts(e) && (i == 0 || e.Pool != "") {
				l.total++
				fold.Add(e)
			}
			return nil
		})
		if err != nil {
			failed = cmp.Or(failed, err)
			l.unread = append(l.unread, pool)
			continue
		}
		l.left += fold.Left
		for _, e := range slices.Backward(fold.Rows()) {
			l.rows = append(l.rows, eventRow{e, name})
		}
		slices.SortStableFunc(l.rows, func(a, b eventRow) int { return b.At.Compare(a.At) })
		l.left += max(0, len(l.rows)-maxEvents)
		l.rows = l.rows[:min(len(l.rows), maxEvents)]
	}
	if len(l.unread) < len(l.pools) {
		return nil
	}
	return failed
}

// eventCells returns the row of an event.
func eventCells(e *history.FoldedEvent, name Name, now time.Time) []cellView {
	object := text("–")
	switch {
	case e.App != "":
		object = cellView{Text: e.App, Href: name.appHref(e.App)}
	case e.Node != "":
		object = cellView{Text: e.Node, Href: name.nodeHref(e.Node)}
	}
	class := map[api.Severity]string{api.SeverityWarning: "warn-text", api.SeverityError: "bad-text"}[e.Severity]
	return []cellView{momentCell(e.At, now), text(string(e.Kind) + " " + e.Name), {Text: string(e.Severity), Class: class}, object, text(e.Text), text(e.Times())}
}
