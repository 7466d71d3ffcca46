package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
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
	return (f.Kind == "" || f.Kind == string(e.Kind)) && (f.Severity == "" || urgency(string(e.Severity)) >= urgency(f.Severity)) &&
		(f.App == "" || f.App == eventApp(e)) && (f.Node == "" || f.Node == eventNode(e))
}

// eventObject has the keys of an event's data that name its objects.
type eventObject struct {
	App  string `json:"app"`
	Node string `json:"node"`
}

// objectOf returns the objects of an event: of its finding, whose form depends on its kind.
func objectOf(e api.Event) (o eventObject) {
	switch d := e.Data.(type) {
	case api.AppFinding:
		return eventObject{d.App, d.Node}
	case api.HealthNotification:
		return eventObject{Node: d.Node}
	case nil:
		return o
	}
	if data, err := json.Marshal(e.Data); err == nil {
		_ = json.Unmarshal(data, &o) // a list of changes names none
	}
	return o
}

func eventApp(e api.Event) string { return objectOf(e).App }

func eventNode(e api.Event) string { return objectOf(e).Node }

// eventText returns an event for people.
func eventText(e api.Event) string {
	if n, ok := e.Data.(api.HealthNotification); ok && n.Why != "" {
		return strings.TrimPrefix(string(n.Action)+": "+n.Why, ": ")
	}
	f, ok := e.Data.(api.AppFinding)
	if !ok || f.App == "" {
		return e.Text
	}
	text := fmt.Sprintf("%s: copy %d ", f.App, f.Index)
	if f.Count > 0 {
		text = fmt.Sprintf("%s: %s ", f.App, condition.Count(f.Count, "copy"))
		if f.Count > 1 {
			text = fmt.Sprintf("%s: %d copies ", f.App, f.Count)
		}
	}
	switch f.Kind {
	case api.AppFindingMissing:
		text += "missing"
	case api.AppFindingRecovered:
		text += "runs again"
	case api.AppFindingStart:
		text += "start requested"
	default:
		return e.Text
	}
	if f.Why != "" {
		text += " (" + string(f.Why) + ")"
	}
	return text
}

// foldedEvent is an event with how often it was repeated.
type foldedEvent struct {
	api.Event
	eventObject
	count int
	first time.Time
}

// eventKey is what events of one row have in common.
type eventKey struct {
	kind     api.EventKind
	name     string
	severity api.Severity
	eventObject
}

// maxEvents bounds the rows of the page.
const maxEvents = 300

// eventPage fills the page of the events of a pool, newest first. Repeated events of one object are one row.
func (s detailPages) eventPage(ctx context.Context, r *http.Request, name Name, v *listView) error {
	f, span := newEventFilter(r.URL.Query())
	now := s.now()
	var rows, single []*foldedEvent // single: without an object, the newest ones
	of := map[eventKey]*foldedEvent{}
	total, more := 0, 0
	err := s.details.Events(ctx, name, now.Add(-span), now, func(e api.Event) error {
		if !f.accepts(e) {
			return nil
		}
		total++
		o := objectOf(e)
		key := eventKey{e.Kind, e.Name, e.Severity, o}
		one := of[key]
		switch {
		case one != nil:
			one.count++
			one.Event = e
		case o != eventObject{}:
			one = &foldedEvent{Event: e, eventObject: o, count: 1, first: e.At}
			of[key], rows = one, append(rows, one)
		default:
			if len(single) == 2*maxEvents {
				more += copy(single, single[maxEvents:])
				single = single[:maxEvents]
			}
			single = append(single, &foldedEvent{Event: e, count: 1, first: e.At})
		}
		return nil
	})
	if err != nil {
		return err
	}
	rows = append(rows, single...)
	slices.SortStableFunc(rows, func(a, b *foldedEvent) int { return b.At.Compare(a.At) })
	v.Headline, v.Filter = "Events", f
	v.Sentence = fmt.Sprintf("%s in the last %s.", condition.Count(total, "event"), condition.Duration(span))
	t := listSection{ID: "events", Columns: []string{"Last", "Kind", "Severity", "App or node", "What", "Times"}, Empty: "No event in this time."}
	for _, e := range rows[:min(len(rows), maxEvents)] {
		t.Rows = append(t.Rows, e.cells(name, now))
	}
	if more += max(0, len(rows)-maxEvents); more > 0 {
		t.Note = fmt.Sprintf("%d older rows are not listed. Choose a shorter time, or a filter.", more)
	}
	v.Sections = append(v.Sections, t)
	return nil
}

// cells returns the row of an event.
func (e *foldedEvent) cells(name Name, now time.Time) []cellView {
	object := text("–")
	switch {
	case e.App != "":
		object = cellView{Text: e.App, Href: name.appHref(e.App)}
	case e.Node != "":
		object = cellView{Text: e.Node, Href: name.nodeHref(e.Node)}
	}
	class := map[api.Severity]string{api.SeverityWarning: "warn-text", api.SeverityError: "bad-text"}[e.Severity]
	times := ""
	if e.count > 1 {
		times = fmt.Sprintf("%d times in %s", e.count, condition.Duration(e.At.Sub(e.first)))
	}
	return []cellView{momentCell(e.At, now), text(string(e.Kind) + " " + e.Name), {Text: string(e.Severity), Class: class}, object, text(eventText(e.Event)), text(times)}
}
