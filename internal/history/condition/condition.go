package condition

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/internal/platform/prose"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// Rank orders the conditions of a pool. A lower rank is worse.
type Rank int

const (
	NoTick     Rank = iota // nothing controls the pool, and all its values are old
	NotServed              // instances of its apps are missing
	AtLimit                // it needs more than max_capacity
	Degraded               // a signal, a group, scale-in or an app does not work
	Repairing              // nodes are unfit
	Paused                 // by an operator
	Changing               // nodes start or drain
	Steady                 // nothing to do
	worstGroup = Repairing
)

// NeedsAttention reports whether an operator must act.
func (r Rank) NeedsAttention() bool { return r <= worstGroup }

// Severity returns how urgent a rank is.
func (r Rank) Severity() api.Severity {
	switch {
	case r <= NotServed:
		return api.SeverityError
	case r.NeedsAttention():
		return api.SeverityWarning
	}
	return api.SeverityInfo
}

// Condition is one thing that holds of a pool.
type Condition struct {
	Rank  Rank
	Word  string    // "At maximum"
	Why   string    // one line, without how long it holds; may be empty
	Key   string    // names the condition over several ticks
	Since time.Time // zero: unknown
	Down  bool      // of Changing: the pool shrinks
}

// Of returns all conditions that hold at now, worst first. s is the last tick; nil: the pool has no tick. The list has at least
// one condition.
func Of(now time.Time, s *api.Summary, f Facts) []Condition {
	c := &list{now: now}
	c.control(s, f)
	c.facts(f)
	if s != nil {
		c.tick(*s, f)
		if c.all == nil || c.all[0].Rank != NoTick {
			c.changing(*s)
		}
	}
	slices.SortStableFunc(c.all, func(a, b Condition) int { return cmp.Compare(a.Rank, b.Rank) })
	if len(c.all) == 0 {
		c.add(Condition{Rank: Steady, Word: "Steady", Key: "steady"})
	}
	return c.all
}

// Old reports whether the last tick of a pool is too old, so that its numbers are not of now.
func Old(now time.Time, s *api.Summary) bool {
	return s != nil && liveness.Overdue(now, s.At, s.Every, s.Took)
}

// State returns the state of a pool as lists name it: the worst condition decides.
func State(s *api.Summary, worst Condition) string {
	switch {
	case s == nil:
		return "no tick"
	case worst.Key == "no tick":
		return "silent"
	case worst.Rank == NoTick:
		return "failed"
	case worst.Rank.NeedsAttention():
		return "problems"
	case worst.Rank == Paused:
		return "paused"
	}
	return "ok"
}

// list collects conditions.
type list struct {
	now time.Time
	all []Condition
}

func (c *list) add(one Condition) { c.all = append(c.all, one) }

// control adds why nothing controls the pool, and an operator's pause.
func (c *list) control(s *api.Summary, f Facts) {
	if s == nil {
		c.add(Condition{Rank: NoTick, Word: "No tick", Key: "no tick", Why: "no tick is recorded" + f.Lease.text()})
		return
	}
	if Old(c.now, s) {
		c.add(Condition{Rank: NoTick, Word: "No tick", Key: "no tick", Why: "last tick " + Duration(c.now.Sub(s.At)) + " ago" + f.Lease.text()})
	}
	if s.Failed != "" {
		c.add(Condition{Rank: NoTick, Word: "Tick failed", Key: "failed", Why: s.Failed})
	}
	if s.Paused != nil {
		c.add(Condition{Rank: Paused, Word: "Paused", Key: "paused", Why: pauseText(c.now, *s.Paused), Since: s.Paused.At})
	}
}

// text returns the holder of the lease, to append; empty: it is unknown.
func (l Lease) text() string {
	switch {
	case !l.Known:
		return ""
	case l.Holder == "":
		return "; no process holds the lease"
	}
	return "; lease held by " + l.Holder
}

// pauseText returns the operator, the reason and the end of a pause.
func pauseText(now time.Time, n api.Note) string {
	if n.Until.IsZero() {
		return n.Text() + "; until it is resumed"
	}
	return n.Text() + "; ends in " + Duration(n.Until.Sub(now))
}

// facts adds what holds beside the ticks.
func (c *list) facts(f Facts) {
	if f.Alarm != "" {
		c.add(Condition{Rank: Degraded, Word: "Stored data damaged", Key: "alarm", Why: f.Alarm})
	}
	for i, line := range f.Unanswered {
		c.add(Condition{Rank: NotServed, Word: "No placer answers", Key: fmt.Sprint("unanswered/", i), Why: line})
	}
	for i, line := range f.Refused {
		c.add(Condition{Rank: NotServed, Word: "Application refused", Key: fmt.Sprint("refused/", i), Why: line})
	}
	for i, line := range f.Scheduler {
		c.add(Condition{Rank: Degraded, Word: "Scheduler problem", Key: fmt.Sprint("scheduler/", i), Why: line})
	}
	for i, line := range f.Wrong {
		c.add(Condition{Rank: Degraded, Word: "Wrong statements", Key: fmt.Sprint("wrong/", i), Why: line})
	}
	for _, a := range f.Apps {
		if a.Missing > 0 {
			c.add(Condition{Rank: NotServed, Word: "Instances missing", Key: "missing/" + a.App, Why: "app " + a.App + ": " + a.missing()})
		}
		if a.Flapping > 0 {
			c.add(a.crashing(c.now))
		}
		if a.Update != "" {
			c.add(Condition{Rank: Degraded, Word: "Update halted", Key: "update/" + a.App, Why: "app " + a.App + ": " + a.Update})
		}
	}
	for _, n := range f.Nodes {
		c.add(Condition{Rank: Repairing, Word: n.Word, Key: "node/" + n.ID, Why: "node " + n.ID + ": " + n.Why, Since: n.Since})
	}
}

// crashing returns the condition of an app whose instances crash repeatedly.
func (a Instances) crashing(now time.Time) Condition {
	one := Condition{Rank: Degraded, Word: "Crash-looping", Key: "crashes/" + a.App, Why: "app " + a.App + ": " + prose.Count(a.Flapping, "instance")}
	if a.Crash == nil {
		return one
	}
	if a.Crash.GivenUp > 0 {
		one.Word = "Given up"
	}
	one.Why, one.Since = "app "+a.App+": "+a.Crash.Text(now), a.Crash.First
	return one
}

// tick adds what the last tick reports.
func (c *list) tick(s api.Summary, f Facts) {
	for _, g := range s.Groups {
		if g.Backoff && reason(s, api.HoldBoot, g.ID, "") == "" {
			c.add(Condition{Rank: Degraded, Word: "Group backoff", Key: "backoff/" + g.ID, Why: reason(s, api.HoldInGroup, g.ID, "group "+g.ID+" is in backoff")})
		}
	}
	for _, a := range s.Apps {
		word := map[api.Verdict]string{api.VerdictStale: "Signal stale", api.VerdictFailed: "Signal failed"}[a.Verdict]
		if word != "" {
			c.add(Condition{Rank: Degraded, Word: word, Key: "signal/" + a.Name, Why: reason(s, api.HoldIgnorance, a.Name, BadSignal(a))})
		}
		for _, advisor := range a.Raise {
			if advisor.Verdict == api.VerdictStale || advisor.Verdict == api.VerdictFailed {
				c.add(Condition{Rank: Degraded, Word: "Advisor " + string(advisor.Verdict), Key: "signal/" + advisor.Name, Why: BadAdvisor(advisor)})
			}
		}
	}
	for _, h := range s.Holds {
		switch {
		case h.Direction == api.DirectionUp && h.Kind == api.HoldLimit && h.Name == string(decide.BlockerMax):
			c.add(Condition{Rank: AtLimit, Word: "At maximum", Key: "maximum", Why: h.Why})
		case h.Direction == api.DirectionDown && (h.Kind == api.HoldBreaker || h.Kind == api.HoldIgnorance) && h.Name != "tick":
			c.add(Condition{Rank: Degraded, Word: "Scale-in blocked", Key: "blocked/" + h.Name, Why: h.Why})
		case h.Kind == api.HoldWindow:
			c.add(Condition{Rank: Changing, Word: "Waits for a window", Key: "window/" + h.Name, Why: h.Why})
		case h.Kind == api.HoldBoot:
			c.add(Condition{Rank: Degraded, Word: "Machines never join", Key: "boot/" + h.Name, Why: h.Why})
		case h.Kind == api.HoldHeadroom:
			c.add(Condition{Rank: Degraded, Word: "Headroom short", Key: "headroom/" + h.Name, Why: h.Why})
		case h.Direction == api.DirectionUp && h.Kind == api.HoldProvider:
			c.add(Condition{Rank: Degraded, Word: "Provider refuses", Key: "provider/" + h.Name, Why: h.Why})
		}
	}
	c.rotation(s.Rotation)
	shown := map[string]bool{}
	for _, p := range s.Parts {
		why := decide.OneLine(p.String())
		shown[why] = true
		c.add(Condition{Rank: Degraded, Word: "Part " + string(p.State), Key: "part/" + p.Subject(), Why: why, Since: p.Since})
	}
	for i, p := range s.Problems {
		if !shown[p] {
			c.add(Condition{Rank: Degraded, Word: "Problem", Key: fmt.Sprint("problem/", i), Why: p})
		}
	}
	c.nodes(s, f)
}

// rotation adds the machines that are replaced, and why that does not go on.
func (c *list) rotation(r *api.RotationSummary) {
	if r == nil {
		return
	}
	for i, line := range r.Alarms {
		why, halted := strings.CutPrefix(line, "rotation halted: ")
		one := Condition{Rank: Degraded, Word: "Rotation halted", Key: fmt.Sprint("rotation/", i), Why: why}
		if !halted {
			one.Word, one.Why = "Rotation refused", strings.Replace(line, " is refused: ", ": ", 1)
		}
		c.add(one)
	}
	if len(r.Alarms) == 0 && r.Left > 0 {
		c.add(Condition{Rank: Changing, Word: "Rotating", Key: "rotation", Why: r.Text})
	}
}

// nodes adds the nodes that do not serve. Facts has more about those of node health.
func (c *list) nodes(s api.Summary, f Facts) {
	words := map[api.UnsteadyState][2]string{
		api.UnsteadyRepair: {"Repairing", "in repair"}, api.UnsteadyQuarantined: {"Node in quarantine", "in quarantine"}, api.UnsteadySilent: {"Node silent", "silent"},
	}
	for _, n := range s.Nodes {
		known := slices.ContainsFunc(f.Nodes, func(u Unfit) bool { return u.ID == n.ID })
		if word, ok := words[n.State]; ok && !known {
			c.add(Condition{Rank: Repairing, Word: word[0], Key: "node/" + n.ID, Why: "node " + n.ID + ": " + word[1]})
		}
	}
}

// reason returns why a hold of an object holds; otherwise the text.
func reason(s api.Summary, kind api.HoldKind, name, text string) string {
	for _, h := range s.Holds {
		if h.Direction == api.DirectionUp && h.Kind == kind && h.Name == name {
			return h.Why
		}
	}
	return text
}

// BadSignal describes a signal without a value.
func BadSignal(a api.AppSummaryTick) string {
	text := "signal of app " + a.Name + " failed"
	if a.Verdict == api.VerdictStale {
		text = "signal of app " + a.Name + " is stale"
	}
	switch a.Source {
	case api.FromDefault:
		text += "; default signal stands in"
	case api.FromHeld:
		text += "; its last value counts"
	}
	return text
}

// BadAdvisor describes an advisor that failed or is stale.
func BadAdvisor(a api.AppSummaryTick) string {
	text := "advisor " + a.Name + " failed"
	if a.Verdict == api.VerdictStale {
		text = "advisor " + a.Name + " is stale"
	}
	if a.Source == api.FromHeld {
		return text + "; its last value counts"
	}
	return text + "; it raises nothing"
}

// changing adds that nodes start or drain.
func (c *list) changing(s api.Summary) {
	if _, target, ok := s.Ordered(); ok && s.Joined < target {
		c.add(Condition{Rank: Changing, Word: "Scaling out", Key: "out", Why: "capacity of " + number(target-s.Joined) + " is starting"})
	}
	draining := 0
	for _, n := range s.Nodes {
		if n.State == api.UnsteadyDraining {
			draining++
		}
	}
	if draining > 0 {
		c.add(Condition{Rank: Changing, Word: "Scaling in", Key: "in", Why: prose.Count(draining, "node") + are(draining) + " draining", Down: true})
	}
}
