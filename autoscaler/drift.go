package autoscaler

import (
	"github.com/weirkeeper/weirkeeper/pools"
)

// Drift says what becomes of a target that somebody else has set.
type Drift string

const (
	Obey    Drift = "obey"    // what is found is the target; so is the empty Drift
	Correct Drift = "correct" // what was asked for last is
)

// Drifted is a group whose target somebody else has set.
type Drifted struct {
	Group string `json:"group"`
	Asked int    `json:"asked"` // by us, last
	Found int    `json:"found"`
}

// drifted returns the groups that have another target than they were asked for. A
// group that nobody knows what it was asked for has none.
func drifted(groups []pools.GroupSnapshot, asked map[string]int) []Drifted {
	var out []Drifted
	for _, g := range groups {
		if want, known := asked[g.ID]; known && want != g.Target {
			out = append(out, Drifted{g.ID, want, g.Target})
		}
	}
	return out
}

// settleAsked returns what each group of the pool counts as having been asked for.
func (l *Loop) settleAsked(groups []pools.GroupSnapshot) map[string]int {
	asked := make(map[string]int, len(groups))
	for _, g := range groups {
		asked[g.ID] = g.Target
		if want, known := l.state.Asked[g.ID]; known && l.config.Drift == Correct {
			asked[g.ID] = want
		}
	}
	return asked
}

// counted returns which target of a group counts, when that much of it is leaving.
// Of a target that somebody has raised, what leaves is taken off the surplus first.
func counted(g pools.GroupSnapshot, asked, leaving int) int {
	if g.Target < asked {
		return asked - leaving
	}
	return min(g.Target-leaving, asked)
}
