package series

import (
	"cmp"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Reduce returns the columns of a tick, with the facts that are known at that time.
func Reduce(s api.Summary, f condition.Facts) Tick {
	t := Tick{At: s.At, Every: s.Every, Gap: s.Paused != nil || s.Failed != "" || s.Target == nil}
	t.orders(s)
	t.conditions(s, f)
	t.instances(f)
	if !t.Gap {
		t.capacity(s)
		t.groups(s)
		t.signals(s)
		t.holds(s)
		t.nodes(s)
	}
	return t
}

// set adds a value.
func (t *Tick) set(q Quantity, name string, kind resource.Kind, x float64) {
	t.Values = append(t.Values, Value{Key{q, name, kind}, x})
}

// known adds a value of the pool that may be unknown.
func (t *Tick) known(q Quantity, x *float64) {
	if x != nil {
		t.set(q, "", 0, *x)
	}
}

func (t *Tick) note(kind NoteKind, name, text string) {
	t.Notes = append(t.Notes, Note{Kind: kind, Name: name, Text: text})
}

func (t *Tick) orders(s api.Summary) {
	if s.Paused != nil {
		t.note(Pause, "", s.Paused.Text())
	}
	if s.Failed != "" {
		t.note(Failure, "", s.Failed)
	}
	if s.Offset != 0 {
		t.note(Offset, "", fmt.Sprintf("offset %+g", s.Offset)+by(s, api.OrderOffset))
	}
	if s.Pinned != nil {
		t.note(Pin, "", fmt.Sprintf("target pinned to %g", *s.Pinned)+by(s, api.OrderPin))
	}
}

// conditions adds what holds of the pool, and how bad the worst of it is.
func (t *Tick) conditions(s api.Summary, f condition.Facts) {
	all := condition.Of(s.At, &s, f)
	for _, c := range all {
		if c.Rank != condition.Steady {
			t.Notes = append(t.Notes, Note{Kind: Held, Name: c.Key, Text: c.Why, Rank: c.Rank, Word: c.Word, Down: c.Down})
		}
	}
	t.set(Trouble, "", 0, float64(SeverityOfRank(all[0].Rank)))
}

func (t *Tick) instances(f condition.Facts) {
	for _, a := range f.Apps {
		t.set(Expected, a.App, 0, float64(a.Expected))
		t.set(Running, a.App, 0, float64(a.Running))
		if a.Missing > 0 {
			t.note(Missing, a.App, fmt.Sprintf("%d of %s missing", a.Missing, prose.Count(a.Expected, "instance")))
		}
		if a.Flapping > 0 {
			t.note(Flapping, a.App, prose.Count(a.Flapping, "instance")+" crash-looping")
		}
	}
}

func (t *Tick) capacity(s api.Summary) {
	before, after, ordered := s.Ordered()
	if ordered {
		t.set(Target, "", 0, after)
	}
	t.known(Unlimited, cmp.Or(s.Unlimited, s.Wanted))
	t.set(Joined, "", 0, s.Joined)
	if s.Setpoint > 0 {
		t.set(Setpoint, "", 0, s.Setpoint)
	}
	if s.Offered != nil {
		for _, kind := range resource.Kinds() {
			if x := s.Offered[kind]; x != nil {
				t.set(Offered, "", kind, *x)
			}
		}
	}
	if s.Limits != nil {
		t.set(Minimum, "", 0, s.Limits.Min)
		t.known(Maximum, s.Limits.Max)
	}
	if ordered && before != after {
		t.Change = &Change{At: s.At, Before: before, After: after, Rule: string(s.Rule), Why: s.Why}
	}
}

func (t *Tick) groups(s api.Summary) {
	for _, g := range s.Groups {
		t.set(Group, g.ID, 0, g.Exists)
		if g.Backoff {
			t.note(Backoff, g.ID, "group "+g.ID+" is in backoff")
		}
	}
}

func (t *Tick) signals(s api.Summary) {
	for _, a := range s.Apps {
		for _, kind := range resource.Kinds() {
			if x := a.Request[kind]; x != nil {
				t.set(Request, a.Name, kind, *x)
			}
		}
		t.signal(a, condition.BadSignal)
		for _, advisor := range a.Raise { // the request of the app includes theirs
			t.signal(advisor, condition.BadAdvisor)
		}
	}
}

// signal adds the response of a signal or an advisor; bad describes one that failed.
func (t *Tick) signal(a api.AppSummaryTick, bad func(api.AppSummaryTick) string) {
	if a.Version != "" {
		t.note(Version, a.Name, a.Version)
	}
	if a.Latency > 0 {
		t.set(Latency, a.Name, 0, float64(a.Latency)/float64(time.Millisecond))
	}
	if a.Shadow != nil {
		t.note(Shadow, a.Name, a.Shadow.Version)
		if x, ok := difference(a.Request, a.Shadow.Request); a.Shadow.Compared && ok {
			t.set(Difference, a.Name, 0, x)
		}
	}
	severity := severityOf(a.Verdict)
	t.set(Verdict, a.Name, 0, float64(severity))
	if severity > NoOpinion {
		t.note(BadSignal, a.Name, bad(a))
	}
}

// difference returns how much more the shadow requests, as a fraction of the first kind that both request.
func difference(own, shadow api.RequestSummary) (float64, bool) {
	for _, kind := range resource.Kinds() {
		if a, b := own[kind], shadow[kind]; a != nil && b != nil && *a > 0 {
			return *b / *a - 1, true
		}
	}
	return 0, false
}

// severityOf returns how bad a verdict is.
func severityOf(v api.Verdict) Severity {
	switch v {
	case "", api.VerdictValue:
		return Fine
	case api.VerdictNoOpinion, api.SummaryNotRequested:
		return NoOpinion
	case api.VerdictStale:
		return Stale
	}
	return Failed
}

func (t *Tick) holds(s api.Summary) {
	for _, h := range s.Holds {
		switch {
		case h.Direction == api.DirectionUp && h.Kind == api.HoldInGroup:
			t.reason(Backoff, h.Name, h.Why)
		case h.Direction == api.DirectionUp && h.Kind == api.HoldIgnorance:
			t.reason(BadSignal, h.Name, h.Why)
		}
	}
}

// reason gives a note of that kind and name the text of a hold.
func (t *Tick) reason(kind NoteKind, name, why string) {
	for i := range t.Notes {
		if n := &t.Notes[i]; n.Kind == kind && n.Name == name {
			n.Text = why
		}
	}
}

// nodes adds the nodes that are not steady.
func (t *Tick) nodes(s api.Summary) {
	kinds := map[api.UnsteadyState]NoteKind{
		api.UnsteadyStarting: NodeStarting, api.UnsteadyDraining: NodeDraining, api.UnsteadyRepair: NodeRepair,
		api.UnsteadyQuarantined: NodeQuarantined, api.UnsteadySilent: NodeSilent,
	}
	texts := map[api.UnsteadyState]string{api.UnsteadyRepair: "in repair", api.UnsteadyQuarantined: "in quarantine", api.UnsteadySilent: "silent"}
	for _, n := range s.Nodes {
		if kind, ok := kinds[n.State]; ok {
			t.Notes = append(t.Notes, Note{Kind: kind, Name: n.ID, Group: n.Group, Text: texts[n.State], Began: n.Launched})
		}
	}
}

// by returns the operator and the reason of an order, after a space; empty: the summary has no order of that kind.
func by(s api.Summary, kind api.OrderKind) string {
	for _, o := range s.Orders {
		if o.Kind == kind {
			return " " + o.Text()
		}
	}
	return ""
}
