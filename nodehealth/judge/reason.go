package judge

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// maxReasons is the maximum number of reasons of a policy, and maxReasonName the maximum length of
// a name in bytes.
const (
	maxReasons    = 64
	maxReasonName = 64
)

// Reason configures the handling of one failure reason.
type Reason struct {
	// Wait is how long a node that fails for this reason is suspect; detection.tolerate.
	Wait *Duration `yaml:"wait" json:"wait,omitempty"`
	// Action is the action of recovery.actions that the repair begins with; the first.
	Action api.RepairAction `yaml:"action" json:"action,omitempty"`
}

func (p Policy) checkReasons(ps *problems) {
	if len(p.Reasons) > maxReasons {
		ps.add("reasons", "has %d entries: want at most %d", len(p.Reasons), maxReasons)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Reasons)) {
		at, r := fmt.Sprintf("reasons.%.*s", maxReasonName, name), p.Reasons[name]
		switch {
		case name == "" || len(name) > maxReasonName || strings.ContainsAny(name, ":;") || name != strings.TrimSpace(name):
			ps.add(at, "is not a valid name of a reason: want 1 to %d bytes without a colon or semicolon, such as DiskPressure", maxReasonName)
		case r.Wait == nil && r.Action == "":
			ps.add(at, "is empty: want wait, action, or both")
		}
		within(ps, at+".wait", r.Wait, time.Duration(*p.Detection.Interval), longest)
		if r.Action != "" && p.Recovery.indexOf(r.Action) < 0 {
			ps.add(at+".action", "is %s, which is not among recovery.actions: add it there", r.Action)
		}
	}
}

// indexOf returns the index of the first action of that name, or -1.
func (r Recovery) indexOf(name api.RepairAction) int {
	return slices.IndexFunc(r.Actions, func(a Action) bool { return a.Name == name })
}

// reasonRule is the parsed form of a Reason.
type reasonRule struct {
	wait time.Duration
	from int // index of the action
}

func reasonRules(p Policy) map[string]reasonRule {
	out := make(map[string]reasonRule, len(p.Reasons))
	for name, r := range p.Reasons {
		rule := reasonRule{wait: time.Duration(*p.Detection.Tolerate), from: max(0, p.Recovery.indexOf(r.Action))}
		if r.Wait != nil {
			rule.wait = time.Duration(*r.Wait)
		}
		out[name] = rule
	}
	return out
}

// patience is how long the failures of a node are tolerated, and the index of its first action. It
// has the shortest wait and the last action of all reasons.
type patience struct {
	wait  time.Duration
	from  int
	known bool // a failure was added
}

// addFailure adds a failure. Its reason may name several, "DiskPressure: 98 %; KernelDeadlock", each up to
// its first colon.
func (p *patience) addFailure(r *rules, reason string) {
	for part := range strings.SplitSeq(reason, "; ") {
		name, _, _ := strings.Cut(part, ":")
		rule, named := r.reasons[name]
		if !named {
			rule = reasonRule{wait: r.tolerate}
		}
		if !p.known || rule.wait < p.wait {
			p.wait = rule.wait
		}
		p.from, p.known = max(p.from, rule.from), true
	}
}
