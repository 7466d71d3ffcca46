package history

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
)

// rotationEntry is the entry of the rotations.
const rotationEntry = "rotation"

// releaseEntry begins the entries of yanked releases, before the name of the app.
const releaseEntry = "release of app "

// entry is one named value of a summary. order is the kind of an order of an operator; empty: it is not one.
type entry struct {
	what, value string
	order       api.OrderKind
}

// DiffSummaries returns the differences from s to a later tick, in the order of the summary. It includes times, joined nodes
// and reasons, which differ in most ticks.
func DiffSummaries(s api.Summary, later api.Summary) []api.Change {
	return slices.Concat(compare(eventEntries(s), eventEntries(later)), compareDecisions(s, later), compare(detailEntries(s), detailEntries(later)))
}

// ComparedTick is a tick with what changed since the tick before it: targets, orders, failures, sources of requests and
// backoffs. It omits what differs in most ticks. The first tick of a search has changed nothing.
type ComparedTick struct {
	api.Summary
	Changes  []api.Change
	Parts    []api.Part // that became unknown, known or gone since the last decision
	repeated bool       // it is not newer than the tick before
}

// Changed reports whether the tick changed something. A dry run changes nothing.
func (t ComparedTick) Changed() bool {
	return !t.DryRun && (t.Acted() || len(t.Changes)+len(t.Parts) > 0 || t.Configuration != nil)
}

// sequence compares each tick of a pool with those before it. A paused or failed tick has no decision, so a decision is
// compared with the last one. The zero value has had no tick. It has one owner.
type sequence struct {
	last, decided *api.Summary
}

// next compares the next tick. A dry run is compared, and no later tick is compared with it.
func (q *sequence) next(s api.Summary) ComparedTick {
	t := ComparedTick{Summary: s, repeated: !s.At.After(q.at())}
	if t.repeated {
		return t
	}
	if q.last != nil {
		t.Changes = compare(eventEntries(*q.last), eventEntries(s))
	}
	if q.decided != nil {
		t.Changes = append(t.Changes, compareDecisions(*q.decided, s)...)
		if s.Target != nil { // otherwise the pool may not have been read
			t.Parts = api.PartsChanged(q.decided.Parts, s.Parts, q.decided.At, s.At)
		}
	}
	if s.DryRun {
		return t
	}
	if q.last = &s; s.Target != nil {
		q.decided = &s
	}
	return t
}

// at returns when the last tick began; zero without one.
func (q *sequence) at() time.Time {
	if q.last == nil {
		return time.Time{}
	}
	return q.last.At
}

// compareDecisions returns the differences of two decisions. A paused or failed tick has no decision to compare.
func compareDecisions(s api.Summary, later api.Summary) []api.Change {
	if s.Target == nil || later.Target == nil {
		return nil
	}
	return compare(decidedEntries(s), decidedEntries(later))
}

// eventEntries returns what every tick has.
func eventEntries(s api.Summary) []entry {
	out := []entry{{string(api.OrderPause), "", api.OrderPause}, {"failure", s.Failed, ""}}
	if s.Paused != nil {
		out[0].value = s.Paused.Text()
	}
	return out
}

// decidedEntries returns the parts of a decision that change only with an event.
func decidedEntries(s api.Summary) []entry {
	_, target, _ := s.Ordered()
	out := []entry{{"target", weightText(&target), ""}, {string(api.OrderPin), weightText(s.Pinned), api.OrderPin}}
	if s.Offset != 0 {
		out = append(out, entry{string(api.OrderOffset), weightText(&s.Offset), api.OrderOffset})
	}
	for _, o := range s.Orders {
		out = append(out, entry{o.Name(), orderText(s, o), o.Kind})
	}
	if s.Limits != nil {
		out = append(out, entry{"limits", limitsText(*s.Limits), ""})
	}
	for _, a := range s.Apps {
		text := cmp.Or(string(a.Verdict), string(api.VerdictValue))
		if a.Source != "" {
			text += " (" + string(a.Source) + ")"
		}
		out = append(out, entry{"signal of app " + a.Name, text, ""})
		if a.Yanked != "" {
			out = append(out, entry{releaseEntry + a.Name, a.Version + " is yanked: " + a.Yanked, ""})
		}
		for _, advisor := range a.Raise {
			out = append(out, entry{"advisor " + advisor.Name, cmp.Or(string(advisor.Verdict), string(api.VerdictValue)), ""})
		}
	}
	if r := s.Rotation; r != nil {
		text := "in progress"
		if len(r.Alarms) > 0 {
			text = strings.Join(r.Alarms, "; ")
		}
		out = append(out, entry{rotationEntry, text, ""})
	}
	for _, g := range s.Groups {
		text := strconv.Itoa(g.Target)
		if g.Backoff {
			text += " (backoff)"
		}
		out = append(out, entry{"group " + g.ID, text, ""})
	}
	return out
}

// detailEntries returns the rest.
func detailEntries(s api.Summary) []entry {
	out := []entry{{"joined", weightText(&s.Joined), ""}, {"fulfilled", weightText(&s.Exists), ""}, {"need", weightText(s.Unlimited), ""}, {"leaving", strconv.Itoa(s.Leaving), ""}}
	if s.Request != nil {
		out = append(out, entry{"request", s.Request.String(), ""}, entry{"rule", string(s.Rule), ""}, entry{"reason", s.Why, ""})
	}
	for _, a := range s.Apps {
		out = append(out, entry{"request of app " + a.Name, a.Request.String(), ""})
		for _, advisor := range a.Raise {
			out = append(out, entry{"advice of " + advisor.Name, advisor.Request.String(), ""})
		}
	}
	for _, h := range s.Holds {
		out = append(out, entry{map[api.Direction]string{api.DirectionUp: "growth", api.DirectionDown: "shrinking"}[h.Direction] + " held by " + h.Name, h.Why, ""})
	}
	for _, a := range s.Actions {
		out = append(out, entry{string(a.Op) + " requests in " + cmp.Or(a.Group, "the pool"), strconv.Itoa(a.Calls), ""})
	}
	return append(out, entry{"problems", strings.Join(s.Problems, "; "), ""})
}

// compare returns the differences of two lists: in order of from, then what only the other list has.
func compare(from, to []entry) (out []api.Change) {
	was, is := values(from), values(to)
	for _, e := range slices.Concat(from, to) {
		if was[e.what] != is[e.what] {
			out = append(out, api.Change{What: e.what, From: was[e.what], To: is[e.what], Order: e.order})
			delete(was, e.what)
			delete(is, e.what)
		}
	}
	return out
}

// values returns the value of each name. Of two entries with one name the later counts.
func values(entries []entry) map[string]string {
	out := make(map[string]string, len(entries))
	for _, e := range entries {
		out[e.what] = e.value
	}
	return out
}

// orderText returns the amount of an order, its operator and its reason: "5 by ann: a campaign".
func orderText(s api.Summary, o api.Order) string {
	switch o.Kind {
	case api.OrderOffset:
		return weightText(&s.Offset) + " " + o.Text()
	case api.OrderPin:
		return weightText(s.Pinned) + " " + o.Text()
	}
	return o.Text()
}

// weightText returns a weight for people; empty for an unknown one.
func weightText(x *float64) string {
	if x == nil {
		return ""
	}
	return explain.Quantity(*x)
}

// limitsText returns the limits for people: "3 to 100".
func limitsText(l api.LimitsSummary) string {
	most := "inf"
	if l.Max != nil {
		most = weightText(l.Max)
	}
	return weightText(&l.Min) + " to " + most
}

// ParseDirection parses "up" or "down".
func ParseDirection(text string) (api.Direction, bool) {
	d := api.Direction(text)
	return d, d == api.DirectionUp || d == api.DirectionDown
}
