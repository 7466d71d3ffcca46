package series

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Rank orders the states of a pool. A lower rank is worse.
type Rank int

const (
	NoTick     Rank = iota // nothing controls the pool, and all its values are old
	NotServed              // instances of its apps are missing
	AtLimit                // it wants more than max_capacity
	Degraded               // a signal, a group or scale-in does not work
	Repairing              // nodes are in repair
	Paused                 // by an operator
	Changing               // nodes start or drain
	Steady                 // nothing to do
	worstGroup = Repairing
)

// NeedsAttention reports whether a person should look.
func (r Rank) NeedsAttention() bool { return r <= worstGroup }

// State is one condition that holds of a pool.
type State struct {
	Rank  Rank
	Word  string    // "At maximum"
	Why   string    // one line, with a duration; may be empty
	Since time.Time // zero: unknown
	Down  bool      // of Changing: the pool shrinks
}

// maxReason is the length of a reason, in characters.
const maxReason = 64

// Short returns the reason with at most 64 characters.
func (s State) Short() string { return Cut(s.Why, maxReason) }

// Cut returns a text with at most n characters.
func Cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// words has the rank and the word of the notes that are states.
var words = map[NoteKind]State{
	Failure:         {Rank: NoTick, Word: "Tick failed"},
	AtMaximum:       {Rank: AtLimit, Word: "At maximum"},
	BadSignal:       {Rank: Degraded, Word: "Signal failed"},
	Backoff:         {Rank: Degraded, Word: "Group backoff"},
	Blocked:         {Rank: Degraded, Word: "Scale-in blocked"},
	NodeRepair:      {Rank: Repairing, Word: "Repairing"},
	NodeQuarantined: {Rank: Repairing, Word: "Node in quarantine"},
	NodeSilent:      {Rank: Repairing, Word: "Node silent"},
	Pause:           {Rank: Paused, Word: "Paused"},
	NodeDraining:    {Rank: Changing, Word: "Scaling in", Down: true},
}

// States returns all states that hold at now, worst first. Of one rank the longest is first, then the order of the
// text. The list has at least one state.
func States(r *Ring, f Facts, now time.Time) []State {
	var out []State
	if s, ok := noTick(r, f, now); ok {
		out = append(out, s)
	}
	out = append(out, instances(r, f, now)...)
	draining := 0
	for _, span := range r.open {
		word, is := words[span.Kind]
		if !is || span.To.UnixMilli() != r.Last().UnixMilli() {
			continue
		}
		if span.Kind == NodeDraining {
			draining++
			continue
		}
		out = append(out, word.with(r, span, now))
	}
	if !slices.ContainsFunc(out, func(s State) bool { return s.Rank == NoTick }) {
		out = append(out, changing(r, draining)...)
	}
	slices.SortStableFunc(out, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), a.Since.Compare(b.Since), cmp.Compare(a.Why, b.Why))
	})
	if len(out) == 0 {
		out = append(out, State{Rank: Steady, Word: "Steady", Since: r.First()})
	}
	return out
}

// noTick returns the state of a pool without a tick for 3 periods.
func noTick(r *Ring, f Facts, now time.Time) (State, bool) {
	s := State{Rank: NoTick, Word: "No tick"}
	if r.Len() == 0 {
		s.Why = "no tick is recorded"
		return s, true
	}
	age := now.Sub(r.Last())
	if age <= max(held*r.every, 10*time.Second) {
		return s, false
	}
	s.Why, s.Since = "last tick "+Duration(age)+" ago", r.Last()
	switch f.Holder {
	case "":
		s.Why += "; no process holds the lease"
	default:
		s.Why += "; lease held by " + f.Holder
	}
	return s, true
}

// with returns the state of a span.
func (s State) with(r *Ring, span Span, now time.Time) State {
	s.Since = span.From
	lasts := lasting(span.From, now)
	switch span.Kind {
	case Pause:
		s.Why = span.Text
		return s
	case NodeRepair, NodeQuarantined, NodeSilent:
		s.Why = "node " + span.Name + ": " + span.Text + lasts
		return s
	case BadSignal:
		if x, ok := r.Latest(Key{Quantity: Verdict, Name: span.Name}); ok && Severity(x) == Stale {
			s.Word = "Signal stale"
		}
	}
	s.Why = span.Text + lasts
	return s
}

// lasting returns " for 33 min".
func lasting(from, now time.Time) string {
	if d := now.Sub(from); !from.IsZero() && d >= time.Second {
		return " for " + Duration(d)
	}
	return ""
}

// instances returns the states of the apps. The ring has since when they hold.
func instances(r *Ring, f Facts, now time.Time) (out []State) {
	add := func(rank Rank, word string, kind NoteKind, app, text string) {
		var since time.Time
		for _, span := range r.open {
			if span.Kind == kind && span.Name == app {
				since = span.From
			}
		}
		out = append(out, State{Rank: rank, Word: word, Why: "app " + app + ": " + text + lasting(since, now), Since: since})
	}
	for _, a := range f.Apps {
		if a.Missing > 0 {
			add(NotServed, "Instances missing", Missing, a.App, missing(a))
		}
		if a.Flapping > 0 {
			add(Degraded, "Instances flapping", Flapping, a.App, Count(a.Flapping, "instance")+" flapping")
		}
	}
	return out
}

// missing describes the missing instances of an app.
func missing(a Instances) string {
	text := fmt.Sprintf("%d of %s missing", a.Missing, Count(a.Expected, "instance"))
	if a.Why != "" {
		text += " (" + a.Why + ")"
	}
	return text
}

// changing returns the state of a pool whose nodes start or drain.
func changing(r *Ring, draining int) (out []State) {
	joined, known := r.Latest(Key{Quantity: Joined})
	target, also := r.Latest(Key{Quantity: Target})
	if known && also && joined < target {
		out = append(out, State{Rank: Changing, Word: "Scaling out", Why: "capacity of " + strconv.FormatFloat(target-joined, 'g', 6, 64) + " is starting"})
	}
	if draining > 0 {
		out = append(out, State{Rank: Changing, Word: "Scaling in", Why: Count(draining, "node") + map[bool]string{true: " is", false: " are"}[draining == 1] + " draining", Down: true})
	}
	return out
}

// Count returns "1 node" or "2 nodes".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Duration returns a duration for people, in its largest unit: "39 s", "21 min", "2 h", "3 d".
func Duration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// Severity returns how bad a rank is for the apps of a pool.
func (r Rank) Severity() Severity {
	switch {
	case r <= NotServed:
		return Failed
	case r.NeedsAttention():
		return Stale
	}
	return Fine
}
