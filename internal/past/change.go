package past

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Change is one difference of two ticks.
type Change struct {
	What string `json:"what"` // "target", "pause", "app web", "group blue"...
	From string `json:"from"` // empty: it was not there
	To   string `json:"to"`   // empty: it is not there any more
}

// String returns the change for people: "target 6 -> 9".
func (c Change) String() string {
	or := func(s string) string {
		if s == "" {
			return "none"
		}
		return s
	}
	return fmt.Sprintf("%s %s -> %s", c.What, or(c.From), or(c.To))
}

// entry is one named value of a summary.
type entry struct{ what, value string }

// Diff returns the differences from s to a later tick, in the order of the summary. Times, joined nodes and reasons
// differ in most ticks; Diff returns them too.
func (s Summary) Diff(later Summary) []Change {
	return slices.Concat(compare(s.events(), later.events()), s.compareDecisions(later), compare(s.detail(), later.detail()))
}

// Sequence compares each tick of a pool with those before it. A paused or failed tick has no decision, so a decision is
// compared with the last one. The zero value has had no tick. It has one owner.
type Sequence struct {
	last, decided *Summary
}

// Next returns what changed since the tick before s: targets, orders, failures, sources of requests and backoffs. It omits
// what differs in most ticks. The first tick of a search has changed nothing. A dry run is compared, and is not a tick.
func (q *Sequence) Next(s Summary) (changes []Change) {
	if q.last != nil {
		changes = compare(q.last.events(), s.events())
	}
	if q.decided != nil {
		changes = append(changes, q.decided.compareDecisions(s)...)
	}
	if s.DryRun {
		return changes
	}
	if q.last = &s; s.Target != nil {
		q.decided = &s
	}
	return changes
}

// Last returns when the last tick began; zero: there was none.
func (q *Sequence) Last() time.Time {
	if q.last == nil {
		return time.Time{}
	}
	return q.last.At
}

// Acted reports whether the tick moved the target or requested something.
func (s Summary) Acted() bool {
	return s.Before != nil && s.Target != nil && *s.Before != *s.Target || len(s.Actions) > 0
}

// compareDecisions returns the differences of two decisions. A paused or failed tick has no decision to compare.
func (s Summary) compareDecisions(later Summary) []Change {
	if s.Target == nil || later.Target == nil {
		return nil
	}
	return compare(s.decided(), later.decided())
}

// events returns what every tick has.
func (s Summary) events() []entry {
	out := []entry{{"pause", ""}, {"failure", s.Failed}}
	if s.Paused != nil {
		out[0].value = s.Paused.Text()
	}
	return out
}

// decided returns the parts of a decision that change only with an event.
func (s Summary) decided() []entry {
	out := []entry{{"target", number(s.Target)}, {string(pools.OrderPin), number(s.Pinned)}}
	if s.Offset != 0 {
		out = append(out, entry{string(pools.OrderOffset), number(&s.Offset)})
	}
	for _, o := range s.Orders {
		out = append(out, entry{o.Name(), s.ordered(o)})
	}
	if s.Limits != nil {
		out = append(out, entry{"limits", s.Limits.String()})
	}
	for _, a := range s.Apps {
		text := cmp.Or(string(a.Verdict), string(decide.Value))
		if a.Source != "" {
			text += " (" + string(a.Source) + ")"
		}
		out = append(out, entry{"signal of app " + a.Name, text})
	}
	for _, g := range s.Groups {
		text := strconv.Itoa(g.Target)
		if g.Backoff {
			text += " (backoff)"
		}
		out = append(out, entry{"group " + g.ID, text})
	}
	return out
}

// detail returns the rest.
func (s Summary) detail() []entry {
	out := []entry{{"joined", number(&s.Joined)}, {"fulfilled", number(&s.Exists)}, {"wanted", number(s.Wanted)}, {"leaving", strconv.Itoa(s.Leaving)}}
	if s.Request != nil {
		out = append(out, entry{"request", s.Request.String()}, entry{"rule", string(s.Rule)}, entry{"reason", s.Why})
	}
	for _, a := range s.Apps {
		out = append(out, entry{"request of app " + a.Name, a.Request.String()})
	}
	for _, h := range s.Holds {
		out = append(out, entry{fmt.Sprintf("%s held by %s %s", h.Direction, h.Kind, h.Name), h.Why})
	}
	for _, a := range s.Actions {
		out = append(out, entry{strings.TrimSpace("requests: " + string(a.Op) + " " + a.Group), strconv.Itoa(a.Calls)})
	}
	return append(out, entry{"problems", strings.Join(s.Problems, "; ")})
}

// compare returns the differences of two lists: in order of from, then what only the other list has.
func compare(from, to []entry) (out []Change) {
	was, is := values(from), values(to)
	for _, e := range slices.Concat(from, to) {
		if was[e.what] != is[e.what] {
			out = append(out, Change{e.what, was[e.what], is[e.what]})
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

// ordered returns the amount of an order, its operator and its reason: "5 by ann: a campaign".
func (s Summary) ordered(o pools.Order) string {
	switch o.Kind {
	case pools.OrderOffset:
		return number(&s.Offset) + " " + o.Text()
	case pools.OrderPin:
		return number(s.Pinned) + " " + o.Text()
	}
	return o.Text()
}

// number returns a weight for people; empty for an unknown one.
func number(x *float64) string {
	if x == nil {
		return ""
	}
	return strconv.FormatFloat(*x, 'g', 6, 64)
}

// String returns the limits for people: "3 to 100".
func (l Limits) String() string {
	most := "inf"
	if l.Max != nil {
		most = number(l.Max)
	}
	return number(&l.Min) + " to " + most
}

// Direction parses "up" or "down".
func Direction(text string) (decide.Direction, bool) {
	d := decide.Direction(text)
	return d, d == decide.Up || d == decide.Down
}
