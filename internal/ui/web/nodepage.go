package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/internal/ui/web/series"
)

// nodePast is how far back the page of a node reads events.
const nodePast = 24 * time.Hour

// nodePage fills the page of one node: its state, the results of its checks, its repairs, and its timeline.
func (s detailPages) nodePage(ctx context.Context, r *http.Request, name Name, v *listView) error {
	id := r.PathValue("node")
	now := s.now()
	nodes, err := s.details.Nodes(ctx, name)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(nodes, func(n api.Node) bool { return n.Node == id })
	health, err := s.details.Health(ctx, name, api.HealthQuery{Nodes: []string{id}})
	if err != nil {
		return err
	}
	line := s.timeline(name, id, now)
	if i < 0 && len(health.Nodes) == 0 && len(line) == 0 {
		return fmt.Errorf("%w: pool %s has no node %.64q now, and had none in the last day", errNotFound, name.Pool, id)
	}
	v.Headline, v.Sentence = "Node "+id, "It is not in the pool any more."
	if i >= 0 {
		v.nodeNow(nodes[i])
	}
	for _, n := range health.Nodes {
		v.nodeHealth(now, health, n)
	}
	past, err := s.details.Health(ctx, name, api.HealthQuery{Nodes: []string{id}, History: true})
	if err != nil {
		return err
	}
	v.repairs(past, now)
	v.Sections = append(v.Sections, s.nodeEvents(ctx, name, id, line, now))
	return nil
}

// nodeNow adds the figures of a node that exists.
func (v *listView) nodeNow(n api.Node) {
	v.Sentence = fmt.Sprintf("It is %s in group %s and runs %s.", n.State, dash(n.Group), prose.Count(n.Tasks, "instance"))
	v.Figures = []figure{{"", "instances", fmt.Sprint(n.Tasks), ""}}
	if strings.HasPrefix(n.State, api.NodeWas) {
		v.Sentence = fmt.Sprintf("The pool has no tick now, and the node does not report. At the last tick it %s in group %s.", n.State, dash(n.Group))
		v.Figures[0].Value, v.Figures[0].Rest = "–", "was "+fmt.Sprint(n.Tasks)
	}
	if n.Uptime > 0 {
		v.Figures = append(v.Figures, figure{"", "age", condition.Duration(time.Duration(n.Uptime) * time.Second), ""})
	}
}

// nodeHealth adds why a node fails, what happens next, and the result of each check.
func (v *listView) nodeHealth(now time.Time, h api.HealthStatus, n api.NodeHealth) {
	for _, u := range condition.UnfitNodes(now, api.HealthStatus{Mode: h.Mode, Nodes: []api.NodeHealth{n}}) {
		v.Sentence, v.Class = u.Word+" for "+condition.Duration(now.Sub(u.Since))+": "+u.Why+".", "warn-text"
	}
	t := listSection{ID: "checks", Title: "Checks", Columns: []string{"Check", "Result", "Since", "Reason"}}
	for _, m := range n.Modes {
		verdict := text(string(m.Verdict))
		if m.Verdict == api.CheckFail {
			verdict.Class = "warn-text"
		}
		t.Rows = append(t.Rows, []cellView{text(string(m.Mode)), verdict, momentCell(m.At, now), text(dash(m.Reason))})
	}
	if len(t.Rows) > 0 {
		v.Sections = append(v.Sections, t)
	}
}

// repairs adds the actions on a node, newest first.
func (v *listView) repairs(h api.HealthStatus, now time.Time) {
	t := listSection{ID: "repairs", Title: "Repairs", Columns: []string{"Began", "Action", "Cause", "Attempt", "Result"}}
	for _, one := range slices.Backward(h.History) {
		result := strings.TrimPrefix(string(one.Result), "repair.")
		switch {
		case one.Observe:
			result = "observed, not carried out"
		case result == "":
			result = "under way"
		case one.Replacement != "":
			result += ", replaced by " + one.Replacement
		}
		if one.ResultWhy != "" {
			result += ": " + one.ResultWhy
		}
		t.Rows = append(t.Rows, []cellView{momentCell(one.At, now), text(cmp.Or(string(one.Action), string(one.Event))), text(dash(one.Why)), text(dash(one.Attempt)), text(result)})
	}
	if len(t.Rows) > 0 {
		v.Sections = append(v.Sections, t)
	}
}

// entryView is an entry of a timeline.
type entryView struct {
	at   time.Time
	what string
	why  string
}

// timeline returns the life of a node as the ticks of the last day report it.
func (s detailPages) timeline(name Name, id string, now time.Time) (out []entryView) {
	words := map[series.NoteKind][2]string{
		series.NodeStarting: {"started", "joined"}, series.NodeDraining: {"began to drain", "drained"}, series.NodeRepair: {"repair began", "repair ended"},
		series.NodeQuarantined: {"quarantined", "quarantine ended"}, series.NodeSilent: {"became silent", "reports again"},
	}
	s.store.read(name, func(r *series.Ring, _ known) {
		for kind, word := range words {
			for _, span := range r.Spans(kind, now.Add(-nodePast), now) {
				if span.Name != id {
					continue
				}
				out = append(out, entryView{span.From, word[0], ""})
				if !span.Open {
					out = append(out, entryView{span.To, word[1], ""})
				}
				if !span.Began.IsZero() && kind == series.NodeStarting {
					out = append(out, entryView{span.Began, "launched", ""})
				}
			}
		}
	})
	return out
}

// nodeEvents returns the timeline of a node with its events, newest first.
func (s detailPages) nodeEvents(ctx context.Context, name Name, id string, line []entryView, now time.Time) listSection {
	t := listSection{ID: "timeline", Title: "Timeline of the last day", Columns: []string{"Time", "What", "Details"}, Empty: "Nothing happened to this node in the last day."}
	const most = 250
	var events []entryView // the newest ones
	err := s.details.Events(ctx, name, now.Add(-nodePast), now, func(e api.Event) error {
		if _, node := history.EventObject(e); node == id {
			if len(events) == 2*most {
				events = events[:copy(events, events[most:])]
			}
			events = append(events, entryView{e.At, e.Name, history.EventText(e)})
		}
		return nil
	})
	line = append(line, events...)
	if err != nil {
		t.Note = "The events cannot be read now: " + err.Error()
	}
	slices.SortStableFunc(line, func(a, b entryView) int { return b.at.Compare(a.at) })
	for _, one := range line[:min(len(line), most)] {
		t.Rows = append(t.Rows, []cellView{momentCell(one.at, now), text(one.what), text(strings.TrimSpace(one.why))})
	}
	return t
}
