package api

import (
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/resource"
)

// ActionSummary counts the requests of one kind to one group.
type ActionSummary struct {
	Op     ActionOp `json:"op"`
	Group  string   `json:"group,omitempty"`
	Target int      `json:"target,omitempty"` // of "set target"
	Calls  int      `json:"calls"`
	Failed int      `json:"failed,omitempty"`
	Error  string   `json:"error,omitempty"` // of the first that failed
}

// SummaryNotRequested is VerdictNotRequested in a summary, where an empty verdict is VerdictValue.
const SummaryNotRequested Verdict = "not_requested"

// AppSummaryTick is the request that counted for one app, or what counted of one advisor.
type AppSummaryTick struct {
	Name    string         `json:"app"`               // of an advisor: "APP~NAME"
	Source  RequestSource  `json:"source,omitempty"`  // empty: its own signal
	Verdict Verdict        `json:"verdict,omitempty"` // of its own signal; empty: Value
	Request RequestSummary `json:"request"`
	// Version is the release whose response counts; empty: unknown. Latency is the time of the response.
	Version string        `json:"version,omitempty"`
	Yanked  string        `json:"yanked,omitempty"` // why that release was withdrawn
	Latency time.Duration `json:"latency_ns,omitempty"`
	// Shadow is the response of the shadow candidate, in the tick that compares it.
	Shadow *ShadowSummary `json:"shadow,omitempty"`
	// Raise are the app's advisors. The Request of the app includes theirs.
	Raise []AppSummaryTick `json:"raise,omitempty"`
}

// GroupSummary is the target of one group before and after the decision.
type GroupSummary struct {
	ID       string  `json:"id"`
	Before   int     `json:"before,omitempty"`    // 0: equal to Target, or zero
	FromZero bool    `json:"from_zero,omitempty"` // the target before was 0, and is not any more
	Target   int     `json:"target"`
	Exists   float64 `json:"fulfilled"`
	Backoff  bool    `json:"backoff,omitempty"`
}

// Hold is one cause that kept a pool from growing or shrinking as far as it would without it.
type Hold struct {
	Direction Direction `json:"direction"`
	Kind      HoldKind  `json:"kind"`
	Name      string    `json:"name"` // of the order, limit, group, app or rule
	Why       string    `json:"why"`
	// Until is when a cooldown ends; zero: another kind.
	Until time.Time `json:"until,omitzero"`
}

// HoldKind is the kind of a Hold.
type HoldKind string

const (
	HoldOrder     HoldKind = "order"     // an operator's pause, offset or pin
	HoldLimit     HoldKind = "limit"     // min_capacity, max_capacity, max_weight_to_add, max_weight_to_remove, max_tasks_to_kill
	HoldBudget    HoldKind = "budget"    // a budget of the policy, or the disruption budget
	HoldCooldown  HoldKind = "cooldown"  // after the last change
	HoldBreaker   HoldKind = "breaker"   // of node health
	HoldIgnorance HoldKind = "ignorance" // something that the decision needs is unknown
	HoldInGroup   HoldKind = "group"     // a group is in backoff, busy, or at its bound
	HoldHeadroom  HoldKind = "headroom"  // no group can add a machine for free places
	HoldBoot      HoldKind = "boot"      // machines of a group never join
	HoldWindow    HoldKind = "window"    // work waits for a window
	HoldInNodes   HoldKind = "nodes"     // single nodes stay
	HoldProvider  HoldKind = "provider"  // a request failed
	HoldInRule    HoldKind = "rule"      // any other rule
)

// LimitsSummary are the bounds of the target.
type LimitsSummary struct {
	Min float64  `json:"min"`
	Max *float64 `json:"max,omitempty"` // nil: no upper bound
}

// UnsteadyNode is a node that is not steady. A node of NodeCounts that is not in the list is steady, or omitted.
type UnsteadyNode struct {
	ID    string        `json:"id"`
	Group string        `json:"group,omitempty"` // empty: unknown
	State UnsteadyState `json:"state"`
	// Launched is when its instance began; missing: unknown.
	Launched time.Time `json:"launched,omitzero"`
	// Why is why it is drained. Until is when waiting for its tasks ends.
	Why   string    `json:"why,omitempty"`
	Until time.Time `json:"until,omitzero"`
	// Tasks are those that a draining node still has. Placed: each of them has a place on another node, by the scheduler.
	Tasks  int  `json:"tasks,omitempty"`
	Placed bool `json:"placed,omitempty"`
}

// BootTimes are quantiles of the times from the launch of a machine to its join.
type BootTimes struct {
	P50 time.Duration `json:"p50_ns"`
	P95 time.Duration `json:"p95_ns"`
}

// UnsteadyState is the state of a node that is not steady.
type UnsteadyState string

const (
	UnsteadyRepair      UnsteadyState = "repair"      // drained for a repair, or being repaired
	UnsteadyQuarantined UnsteadyState = "quarantined" // node health quarantines it
	UnsteadySilent      UnsteadyState = "silent"      // its facts are missing
	UnsteadyDraining    UnsteadyState = "draining"    // it leaves, and accepts no tasks
	UnsteadyStarting    UnsteadyState = "starting"    // its instance exists, and it has not joined
	UnsteadyEnded       UnsteadyState = "ended"       // its instance terminates, or does not exist any more
)

// RequestSummary has the requested cpus, mem, disk and gpus, in this order; nil: no opinion. A list is a third of the bytes of
// an object with the names, and is decoded in a third of the time.
type RequestSummary [resource.Count]*float64

// String returns the request for people: "cpus=4 mem=2048".
func (r RequestSummary) String() string {
	var out resource.Request
	for _, k := range resource.Kinds() {
		if x := r[k]; x != nil {
			out = out.With(k, *x)
		}
	}
	return out.String()
}

// ShadowSummary compares a shadow candidate with the app's own signal.
type ShadowSummary struct {
	Version    string         `json:"version,omitempty"`
	Verdict    Verdict        `json:"verdict,omitempty"` // empty: Value
	Request    RequestSummary `json:"request"`
	Compared   bool           `json:"compared,omitempty"`   // false: one of the two failed, or their inputs differ
	Difference string         `json:"difference,omitempty"` // empty: they agree, or are not compared
}

// Summary is one tick in short. Weights are in the units of the pool's target.
type Summary struct {
	Schema int           `json:"schema"`            // version of this form
	Pool   string        `json:"pool"`              // its name
	At     time.Time     `json:"at"`                // when the tick began
	Took   time.Duration `json:"took_ns"`           // length of the tick
	Every  time.Duration `json:"every_ns"`          // the pool's tick
	DryRun bool          `json:"dry_run,omitempty"` // nothing was changed
	Paused *Note         `json:"paused,omitempty"`  // an operator paused the pool: there is no decision
	Failed string        `json:"failed,omitempty"`  // why the tick ended without a decision
	Before *float64      `json:"before,omitempty"`  // target of the pool before the decision; nil: no decision
	Target *float64      `json:"target,omitempty"`  // after it
	Wanted *float64      `json:"wanted,omitempty"`  // after the actions, without an offset; nil: unknown
	// Unlimited is the target before a pin and the limits: the need. nil: no decision.
	Unlimited *float64 `json:"unlimited,omitempty"`
	Joined    float64  `json:"joined"`    // capacity whose nodes have joined
	Exists    float64  `json:"fulfilled"` // capacity that exists
	// Boot has the boot times of the groups whose machines have not all joined; missing: none was measured, or all joined.
	Boot   *BootTimes     `json:"boot,omitempty"`
	Limits *LimitsSummary `json:"limits,omitempty"` // bounds of the target; nil: no decision
	Offset float64        `json:"offset,omitempty"` // of an operator
	Pinned *float64       `json:"pinned,omitempty"` // by an operator
	// Orders are the operators' orders that apply to the decision: the first ones.
	Orders  []Order         `json:"orders,omitempty"`
	Rule    Rule            `json:"rule,omitempty"`    // the rule that set the target
	Why     string          `json:"why,omitempty"`     // its reason
	Request *RequestSummary `json:"request,omitempty"` // resources that all apps need; nil: no decision
	// Offered are the resources of the joined nodes, in the order of Request; nil: no decision.
	Offered *RequestSummary `json:"offered,omitempty"`
	// Setpoint is the wanted request over Offered, in (0, 1]; 0: no decision.
	Setpoint float64          `json:"setpoint,omitempty"`
	Apps     []AppSummaryTick `json:"apps,omitempty"`    // in order of name
	Groups   []GroupSummary   `json:"groups,omitempty"`  // in order of id
	Actions  []ActionSummary  `json:"actions,omitempty"` // requests to the provider, in their order
	Leaving  int              `json:"leaving,omitempty"` // nodes that drain after the actions
	// NodeCounts counts the nodes as Snapshot does: idle, running, orphaned, silent, pending and terminating.
	NodeCounts map[string]int `json:"node_counts,omitempty"`
	// Disruption is how many more nodes may be out of service; missing: any number, or no decision.
	Disruption *int `json:"disruption,omitempty"`
	// DisruptionLimit is how many nodes may be out of service at a time; missing: any number, or no decision.
	DisruptionLimit int `json:"disruption_limit,omitempty"`
	// Nodes are the first nodes that are not steady, in the order of NodeState and id. NodesOmitted counts the others.
	Nodes        []UnsteadyNode `json:"nodes,omitempty"`
	NodesOmitted int            `json:"nodes_omitted,omitempty"` // nodes that are not steady and not listed
	Holds        []Hold         `json:"holds,omitempty"`         // what kept the pool from growing or shrinking
	// Rotation has the machines that are replaced; missing: none.
	Rotation *RotationSummary `json:"rotation,omitempty"`
	// Cost is that of the record. Beyond 40 parts, those of a cause are one part.
	Cost *Cost `json:"cost,omitempty"`
	// Configuration is what changed in the files since the tick before.
	Configuration *ConfigurationChange `json:"configuration,omitempty"`
	// Parts are the first parts that are unknown or gone, the longest unknown first.
	Parts []Part `json:"parts,omitempty"`
	// Problems are the first problems of the tick.
	Problems []string `json:"problems,omitempty"`
	// Omitted counts the entries that the lists above omit, without NodesOmitted.
	Omitted int `json:"omitted,omitempty"`
}

// Ordered returns the weight that the groups were ordered to have before and after the tick, which is whole: the target as people
// read it. Before and Target have fractions, and a difference of these alone orders nothing. ok is false without a decision.
func (s Summary) Ordered() (before, after float64, ok bool) {
	if s.Before == nil || s.Target == nil {
		return 0, 0, false
	}
	if len(s.Groups) == 0 || s.Omitted > 0 {
		return resource.Ceil(*s.Before), resource.Ceil(*s.Target), true
	}
	for _, g := range s.Groups {
		after += float64(g.Target)
		if before += float64(g.Before); g.Before == 0 && !g.FromZero {
			before += float64(g.Target)
		}
	}
	return before, after, true
}

// Acted reports whether the tick moved the target or requested something.
func (s Summary) Acted() bool {
	before, after, ok := s.Ordered()
	return ok && before != after || len(s.Actions) > 0
}

// Change is one difference of two ticks.
type Change struct {
	What string `json:"what"` // "target", "pause", "app web", "group blue"...
	From string `json:"from"` // empty: it was not there
	To   string `json:"to"`   // empty: it is not there any more
	// Order is the kind of the operator's order that began, changed or ended; empty: the change has another cause.
	Order OrderKind `json:"-"`
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
