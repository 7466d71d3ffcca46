package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
)

// Fold collects events in the order of their times, and makes one row of the repeated events of one app or node, and of equal findings
// without one. Decisions and orders are rows of their own. The zero Fold is empty.
type Fold struct {
	// Most bounds the rows of events without an app or a node: the newest stay. 0: all stay.
	Most int
	// Left is how many rows Most has left out.
	Left int

	rows   []*FoldedEvent
	single []*FoldedEvent // without an app or a node
	of     map[foldKey]*FoldedEvent
}

// FoldedEvent is the last one of equal events, without its data. Its severity is the worst of them.
type FoldedEvent struct {
	api.Event
	App, Node string // may be empty
	Count     int    // how often it happened
	First     time.Time

	nodes []string // the nodes that were lost, each once
	key   foldKey
}

type foldKey struct {
	kind      api.EventKind
	name      string
	severity  api.Severity
	app, node string
	text      string // of a finding without an app or a node
}

// isLoss reports whether a finding is of a lost node. The losses of all nodes are one row.
func isLoss(f api.AppFinding) bool { return f.Kind == api.AppFindingNodeLost && f.Node != "" }

// isCrash reports whether a finding is of a crash. The crashes of all copies of an app are one row.
func isCrash(f api.AppFinding) bool {
	return f.App != "" && (f.Kind == api.AppFindingCrashed || f.Kind == api.AppFindingFlapping || f.Kind == api.AppFindingGaveUp)
}

// Add adds the next event.
func (f *Fold) Add(e api.Event) {
	app, node := EventObject(e)
	one := FoldedEvent{Event: e, App: app, Node: node, Count: 1, First: e.At}
	one.Text, one.Data = EventText(e), nil
	key := foldKey{kind: e.Kind, name: e.Name, severity: e.Severity, app: app, node: node}
	finding, _ := e.Data.(api.AppFinding)
	if isCrash(finding) {
		key.name, key.severity, key.node = string(api.AppFindingCrashed), "", ""
		one.Count = max(one.Count, finding.Count)
	}
	if isLoss(finding) {
		key.node, one.nodes = "", []string{node}
	}
	single := app == "" && node == ""
	if single {
		if key.text = one.Text; e.Kind != api.EventHarmonizer && e.Kind != api.EventNodeHealth {
			f.addSingle(&one)
			return
		}
	}
	before := f.of[key]
	if before == nil {
		if f.of == nil {
			f.of = map[foldKey]*FoldedEvent{}
		}
		one.key, f.of[key] = key, &one
		if single {
			f.addSingle(&one)
		} else {
			f.rows = append(f.rows, &one)
		}
		return
	}
	one.key = key
	one.Count, one.First = one.Count+before.Count, before.First
	if urgency := api.Severities(); slices.Index(urgency, before.Severity) > slices.Index(urgency, one.Severity) {
		one.Severity = before.Severity
	}
	if isLoss(finding) {
		one.nodes = before.nodes
		if !slices.Contains(one.nodes, node) {
			one.nodes = append(one.nodes, node)
		}
		if len(one.nodes) > 1 {
			one.Node = ""
			one.Text = fmt.Sprintf("%d nodes are silent, lost %s: %s", len(one.nodes), one.Times(), explain.List(one.nodes))
		}
	}
	if isCrash(finding) {
		one.Text = fmt.Sprintf("%s crashed %s%s", app, one.Times(), exitText(finding))
	}
	*before = one
}

// addSingle adds a row of its own. Rows are left out in blocks, so that each is moved at most once.
func (f *Fold) addSingle(e *FoldedEvent) {
	if f.Most > 0 && len(f.single) == 2*f.Most {
		slices.SortStableFunc(f.single, func(a, b *FoldedEvent) int { return a.At.Compare(b.At) })
		for _, old := range f.single[:f.Most] {
			delete(f.of, old.key)
		}
		f.Left += f.Most
		f.single = f.single[:copy(f.single, f.single[f.Most:])]
	}
	f.single = append(f.single, e)
}

// Rows returns the rows, the oldest last event first. There may be up to twice Most without an app or a node.
func (f *Fold) Rows() []*FoldedEvent {
	all := slices.Concat(f.rows, f.single)
	slices.SortStableFunc(all, func(a, b *FoldedEvent) int { return a.At.Compare(b.At) })
	return all
}

// Times returns how often the event happened, and in what time: "37 times in 2 min". It is empty for an event that is not repeated.
func (e FoldedEvent) Times() string {
	if e.Count < 2 {
		return ""
	}
	return fmt.Sprintf("%d times in %s", e.Count, condition.Duration(e.At.Sub(e.First)))
}

// EventObject returns the app or the node of an event: of its finding, whose form depends on its kind.
func EventObject(e api.Event) (app, node string) {
	switch d := e.Data.(type) {
	case api.AppFinding:
		return d.App, d.Node
	case api.HealthNotification:
		return "", d.Node
	case nil:
		return "", ""
	}
	var o struct{ App, Node string }
	if data, err := json.Marshal(e.Data); err == nil {
		_ = json.Unmarshal(data, &o) // a list of changes names none
	}
	return o.App, o.Node
}
