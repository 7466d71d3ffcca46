package explain

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// maxAgents bounds the lines of Agents.
const maxAgents = 10

// Agents returns a line for each node whose agent has a problem of its own: a second agent with the same id, or a wrong
// clock.
func Agents(facts []api.NodeFacts) (lines []string) {
	for _, f := range facts {
		if f.Rival != "" {
			lines = append(lines, fmt.Sprintf("two agents have the id %s: the first one keeps it, and the other is refused: %s; stop that one, or give its machine another id", f.ID, f.Rival))
		}
		if ahead := f.ClockAhead; ahead != 0 {
			lines = append(lines, fmt.Sprintf("the clock of node %s is %s: correct it (time synchronization); its heartbeats count by their arrival, and nothing is stopped", f.ID, clockOffset(ahead)))
		}
	}
	if more := len(lines) - maxAgents; more > 0 {
		lines = append(lines[:maxAgents], fmt.Sprintf("%d more problems of agents are not shown", more))
	}
	return lines
}

// clockOffset returns how wrong a clock is.
func clockOffset(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).String() + " slow"
	}
	return ahead.String() + " fast"
}
