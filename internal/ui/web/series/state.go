package series

import (
	"cmp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/condition"
)

// State is a condition of a pool with how long it lasts.
type State struct {
	condition.Condition
	Lasts string // "for 33 min"; empty: unknown, or Why has it
}

// Cut returns a text with at most n characters.
func Cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// States returns all states that hold at now, worst first. Of one rank the longest is first, then the order of the
// text. last is the last tick of the ring; nil without one. The list has at least one state.
func States(now time.Time, r *Ring, last *api.Summary, f condition.Facts) (out []State) {
	for _, c := range condition.Of(now, last, f) {
		if c.Since.IsZero() {
			c.Since = r.since(c)
		}
		out = append(out, State{c, lasting(c, now)})
	}
	sortStates(out)
	return out
}

// StatesAt returns the states that held at the last tick at that time or earlier, as its tick reported them. Without a tick
// there is no state.
func StatesAt(r *Ring, at time.Time) (out []State) {
	i := r.before(at)
	if i < 0 {
		return nil
	}
	for _, s := range r.Spans(Held, r.time(i), r.time(i)) {
		c := condition.Condition{Rank: s.Rank, Word: s.Word, Why: s.Text, Key: s.Name, Since: s.From, Down: s.Down}
		out = append(out, State{c, lasting(c, r.time(i))})
	}
	if len(out) == 0 {
		out = append(out, State{Condition: condition.Condition{Rank: condition.Steady, Word: "Steady"}})
	}
	sortStates(out)
	return out
}

func sortStates(list []State) {
	slices.SortStableFunc(list, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), a.Since.Compare(b.Since), cmp.Compare(a.Why, b.Why))
	})
}

// since returns since when the ring has a condition of the last tick.
func (r *Ring) since(c condition.Condition) time.Time {
	if c.Rank == condition.Steady {
		return r.First()
	}
	for _, s := range r.open {
		if s.Kind == Held && s.Name == c.Key {
			return s.From
		}
	}
	if c.Rank == condition.NoTick {
		return r.Last()
	}
	return time.Time{}
}

// lasting returns how long a condition lasts, if it needs an operator.
func lasting(c condition.Condition, now time.Time) string {
	d := now.Sub(c.Since)
	if c.Since.IsZero() || d < time.Second || !c.Rank.NeedsAttention() || c.Key == "no tick" {
		return ""
	}
	return "for " + condition.Duration(d)
}

// SeverityOfRank returns how bad a rank is for the apps of a pool.
func SeverityOfRank(r condition.Rank) Severity {
	switch r.Severity() {
	case api.SeverityError:
		return Failed
	case api.SeverityWarning:
		return Stale
	}
	return Fine
}
