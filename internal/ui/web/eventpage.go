package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// eventFilter is the form of the events, with its present values.
type eventFilter struct {
	Kind, Severity, App, Node, Range string
	Kinds, Severities, Ranges        []string
}

// eventSpans are the ranges of the events.
var eventSpans = []struct {
	name string
	span time.Duration
}{{"15m", 15 * time.Minute}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}}

// newEventFilter returns the filter of a query. Unknown values select nothing special.
func newEventFilter(q url.Values) (*eventFilter, time.Duration) {
	f := &eventFilter{
		Kind: series.Cut(q.Get("kind"), 20), Severity: series.Cut(q.Get("severity"), 20), App: series.Cut(q.Get("app"), 128), Node: series.Cut(q.Get("node"), 256), Range: q.Get("range"),
		Kinds: api.EventKinds(),
	}
	for _, s := range api.Severities() {
		f.Severities = append(f.Severities, string(s))
	}
	span := time.Hour
	found := false
	for _, one := range eventSpans {
		f.Ranges = append(f.Ranges, one.name)
		if one.name == f.Range {
			span, found = one.span, true
		}
	}
	if !found {
		f.Range = "1h"
	}
	return f, span
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

// eventPage fills the page of the events of a pool, newest first. Repeated events of one object are one row.
func (s detailPages) eventPage(ctx context.Context, r *http.Request, name Name, v *listView) error {
	f, span := newEventFilter(r.URL.Query())
	now := s.now()
	fold, total := history.Fold{Most: maxEvents}, 0
	err := s.details.Events(ctx, name, now.Add(-span), now, func(e api.Event) error {
		if f.accepts(e) {
			total++
			fold.Add(e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	rows := fold.Rows()
	slices.Reverse(rows)
	v.Headline, v.Filter = "Events", f
	v.Sentence = fmt.Sprintf("%s in the last %s.", condition.Count(total, "event"), condition.Duration(span))
	t := listSection{ID: "events", Columns: []string{"Last", "Kind", "Severity", "App or node", "What", "Times"}, Empty: "No event in this time."}
	for _, e := range rows[:min(len(rows), maxEvents)] {
		t.Rows = append(t.Rows, eventCells(e, name, now))
	}
	if more := fold.Left + max(0, len(rows)-maxEvents); more > 0 {
		t.Note = fmt.Sprintf("%d older rows are not listed. Choose a shorter time, or a filter.", more)
	}
	v.Sections = append(v.Sections, t)
	return nil
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
