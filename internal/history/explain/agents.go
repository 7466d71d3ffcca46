package explain

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// maxAgents bounds the lines of Agents.
const maxAgents = 10

// Agents returns a line for each node whose agent has a problem of its own: a second agent with the same id, a wrong
// clock, or a condition without a current result.
func Agents(facts []api.NodeFacts) (lines []string) {
	for _, f := range facts {
		if f.Rival != "" {
			lines = append(lines, fmt.Sprintf("two agents have the id %s: the first one keeps it, and the other is refused: %s; stop that one, or give its machine another id", f.ID, f.Rival))
		}
		if ahead := f.ClockAhead; ahead != 0 {
			lines = append(lines, fmt.Sprintf("the clock of node %s is %s: correct it (time synchronization); its heartbeats count by their arrival, and nothing is stopped", f.ID, clockOffset(ahead)))
		}
		for _, c := range f.Conditions {
			if c.Unknown {
				lines = append(lines, fmt.Sprintf("node %s: %s is unknown: %s", f.ID, c.Type, c.Why))
			}
		}
	}
	if more := len(lines) - maxAgents; more > 0 {
		lines = append(lines[:maxAgents], fmt.Sprintf("%d more problems of agents are not shown", more))
	}
	return lines
}

// Leaving returns a line about the drain of a node: why it leaves, and when the wait for its tasks ends.
func Leaving(now time.Time, d api.Drain) string {
	text := fmt.Sprintf("leaves the pool (%s): %s since %s", d.Reason, d.State, Ago(now, d.Since))
	if left := d.Deadline.Sub(now); left > 0 {
		return text + fmt.Sprintf(", its tasks have %s more", Ago(d.Deadline, now))
	}
	return text + ", the time of its tasks is over"
}

// Tasks returns what the scheduler of a node reports beside its resources: the party that cordoned it, its slots, its overhead, and the tasks that
// its drain cannot move.
func Tasks(now time.Time, f api.NodeFacts) (lines []string) {
	if f.Draining && f.CordonedBy == api.CordonedByOther {
		lines = append(lines, "cordoned by another party than Weirkeeper: it is not preferred for removal")
	}
	if f.Slots != nil {
		lines = append(lines, fmt.Sprintf("%d of %d slots for tasks are used", f.Slots.Used, f.Slots.All))
	}
	if !f.Overhead.IsZero() {
		lines = append(lines, "overhead of the node itself: "+amounts(f.Overhead))
	}
	for _, b := range f.Blocked {
		lines = append(lines, "its drain waits for "+blockedText(now, b))
	}
	return lines
}

// amounts returns the kinds of resources that are not zero: "cpus=0.25 mem=200".
func amounts(v resource.Vector) string {
	r := resource.Request{}
	for _, k := range resource.Kinds() {
		if v[k] > 0 {
			r = r.With(k, v[k])
		}
	}
	return r.String()
}

// blockedText returns a task that a drain cannot move now, and why.
func blockedText(now time.Time, b api.BlockedTask) string {
	text := "task " + b.Task
	if !b.Since.IsZero() {
		text += " since " + Ago(now, b.Since)
	}
	return text + ": " + b.Why
}

// clockOffset returns how wrong a clock is.
func clockOffset(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).String() + " slow"
	}
	return ahead.String() + " fast"
}
