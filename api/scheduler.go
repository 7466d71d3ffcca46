package api

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a SchedulerState.
const (
	MaxSchedulerKind   = 64        // bytes of its kind
	MaxSchedulerText   = 512       // bytes of its why
	MaxSchedulerPeriod = time.Hour // of its period
	MaxAccepts         = 32        // keys in its accepts
	MaxSchedulerLines  = 20        // lines of its problems
)

// SchedulerState is what the scheduler of a pool reports about itself in each period. A scheduler with Rows false speaks for all
// nodes of its pool: while it is silent or not fresh, the silence of a node proves nothing.
type SchedulerState struct {
	Pool   string        `json:"pool"`
	Kind   string        `json:"kind"`            // for people, such as "kubernetes"
	Rows   bool          `json:"rows"`            // it runs the applications of Weirkeeper's own rows; false: it has work of its own only
	Fresh  bool          `json:"fresh"`           // what it reports about all nodes is current
	AsOf   time.Time     `json:"as_of,omitzero"`  // when that was current, by its clock
	Period time.Duration `json:"period"`          // from one report to the next, above 0
	Nodes  int           `json:"nodes,omitempty"` // that it reports
	Why    string        `json:"why,omitempty"`   // why it is not fresh, for people
	// Problems are what people have to correct, a line each: nodes without an id, missing rights, work that no pool has machines for.
	Problems []string `json:"problems,omitempty"`
	// Accepts has the optional keys that its nodes accept in a cordon: AcceptsReason, AcceptsDeadline.
	Accepts []string `json:"accepts,omitempty"`
}

// Optional keys of a cordon, in SchedulerState.Accepts.
const (
	AcceptsReason   = "reason"
	AcceptsDeadline = "deadline"
)

// Validate returns an error that names the first invalid field. It does not check the pool.
func (s SchedulerState) Validate() error {
	switch {
	case s.Kind == "" || len(s.Kind) > MaxSchedulerKind || !printable(s.Kind):
		return fmt.Errorf("kind %.80q: want 1 to %d printable bytes", s.Kind, MaxSchedulerKind)
	case !isSchedulerText(s.Why):
		return fmt.Errorf("why: want at most %d printable bytes", MaxSchedulerText)
	case len(s.Problems) > MaxSchedulerLines || slices.ContainsFunc(s.Problems, func(l string) bool { return l == "" || !isSchedulerText(l) }):
		return fmt.Errorf("problems: want at most %d lines of 1 to %d printable bytes", MaxSchedulerLines, MaxSchedulerText)
	case s.Period <= 0 || s.Period > MaxSchedulerPeriod:
		return fmt.Errorf("period is %v: want above 0 and at most %v", s.Period, MaxSchedulerPeriod)
	case s.Nodes < 0 || s.Nodes > MaxPlacesNodes:
		return fmt.Errorf("nodes is %d: want 0 to %d", s.Nodes, MaxPlacesNodes)
	case len(s.Accepts) > MaxAccepts || slices.ContainsFunc(s.Accepts, func(k string) bool { return len(k) > MaxSchedulerKind || !printable(k) }):
		return fmt.Errorf("accepts: want at most %d keys of %d printable bytes", MaxAccepts, MaxSchedulerKind)
	}
	return nil
}

// NoRowsText returns the refusal of an application in a pool whose scheduler, of that kind, runs no rows.
func NoRowsText(pool, kind string) string {
	return fmt.Sprintf("pool %s runs no applications of Weirkeeper, because its scheduler (%s) has work of its own: create the work there, or use another pool", pool, kind)
}

// ProblemLines returns the problems that a scheduler reports, with its kind; none if the state is not valid.
func (s *SchedulerState) ProblemLines() (lines []string) {
	if s == nil || s.Validate() != nil {
		return nil
	}
	for _, p := range s.Problems {
		lines = append(lines, fmt.Sprintf("the scheduler (%s) reports a problem: %s", s.Kind, p))
	}
	return lines
}

func isSchedulerText(s string) bool { return len(s) <= MaxSchedulerText && printable(s) }

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// CordonedBy is the party that cordoned a node.
type CordonedBy string

// CordonedByOther: another program or a person cordoned the node, not Weirkeeper. Weirkeeper does not prefer it for removal.
const CordonedByOther CordonedBy = "other"

// MaxBlocked bounds NodeFacts.Blocked, and MaxBlockedNodes the nodes of TickRecord.Blocked.
const (
	MaxBlocked      = 8
	MaxBlockedNodes = 20
)

// BlockedTask is a task that a drain of its node cannot move now.
type BlockedTask struct {
	Task  string    `json:"task"`
	Why   string    `json:"why"`
	Since time.Time `json:"since,omitzero"`
}

// Slots are places for tasks on a node, whatever the size of the tasks.
type Slots struct {
	All  int `json:"all"`
	Used int `json:"used"`
}

// NodeGone reports that the machine of a node has ended, by a complete answer of its provider. The autoscaler repeats it for a few
// minutes, because a message may be lost. The id of a machine is never used again.
type NodeGone struct {
	Node string    `json:"node"`
	Pool string    `json:"pool"`
	At   time.Time `json:"at"` // when the autoscaler found it
}
