package past

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/apply"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Schema is the version of a Summary. A change that older readers misread raises it.
const Schema = 1

const (
	maxListed  = 40        // orders, apps, groups, actions, holds and problems of a summary
	maxEncoded = 256 << 10 // bytes of a summary that Read accepts
)

// Summary is one tick in short. Weights are in the units of the pool's target.
type Summary struct {
	Schema int           `json:"schema"`
	Pool   string        `json:"pool"`
	At     time.Time     `json:"at"`
	Took   time.Duration `json:"took_ns"`
	Every  time.Duration `json:"every_ns"`
	DryRun bool          `json:"dry_run,omitempty"`
	Paused *pools.Note   `json:"paused,omitempty"` // an operator paused the pool: there is no decision
	Failed string        `json:"failed,omitempty"` // why the tick ended without a decision
	Before *float64      `json:"before,omitempty"` // target of the pool before the decision; nil: no decision
	Target *float64      `json:"target,omitempty"` // after it
	Wanted *float64      `json:"wanted,omitempty"` // after the actions, without an offset; nil: unknown
	// Unlimited is the target before the limits; nil: no decision.
	Unlimited *float64 `json:"unlimited,omitempty"`
	Joined    float64  `json:"joined"`
	Exists    float64  `json:"fulfilled"`
	Limits    *Limits  `json:"limits,omitempty"`
	Offset    float64  `json:"offset,omitempty"` // of an operator
	Pinned    *float64 `json:"pinned,omitempty"` // by an operator
	// Orders are the operators' orders that apply to the decision: the first ones.
	Orders  []pools.Order `json:"orders,omitempty"`
	Rule    decide.Rule   `json:"rule,omitempty"` // the rule that set the target
	Why     string        `json:"why,omitempty"`  // its reason
	Request *Request      `json:"request,omitempty"`
	// Offered are the resources of the joined nodes, in the order of Request; nil: no decision.
	Offered *Request `json:"offered,omitempty"`
	// Setpoint is the wanted request over Offered, in (0, 1]; 0: no decision.
	Setpoint float64  `json:"setpoint,omitempty"`
	Apps     []App    `json:"apps,omitempty"`   // in order of name
	Groups   []Group  `json:"groups,omitempty"` // in order of id
	Actions  []Action `json:"actions,omitempty"`
	Leaving  int      `json:"leaving,omitempty"` // nodes that drain after the actions
	// NodeCounts counts the nodes as snapshot.Record does: idle, running, orphaned, silent, pending and terminating.
	NodeCounts map[string]int `json:"node_counts,omitempty"`
	// Nodes are the first nodes that are not steady, in the order of NodeState and id. NodesOmitted counts the others.
	Nodes        []Node `json:"nodes,omitempty"`
	NodesOmitted int    `json:"nodes_omitted,omitempty"`
	Holds        []Hold `json:"holds,omitempty"`
	// Problems are the first problems of the tick.
	Problems []string `json:"problems,omitempty"`
	// Omitted counts the entries that the lists above omit, without NodesOmitted.
	Omitted int `json:"omitted,omitempty"`
}

// Request has the requested cpus, mem, disk and gpus, in this order; nil: no opinion. A list is a third of the bytes of
// an object with the names, and is decoded in a third of the time.
type Request [resource.Count]*float64

func requestOf(r resource.Request) (out Request) {
	for _, k := range resource.Kinds() {
		if x, ok := r.Get(k); ok {
			out[k] = &x
		}
	}
	return out
}

// String returns the request for people: "cpus=4 mem=2048".
func (r Request) String() string {
	var out resource.Request
	for _, k := range resource.Kinds() {
		if x := r[k]; x != nil {
			out = out.With(k, *x)
		}
	}
	return out.String()
}

// Limits are the bounds of the target.
type Limits struct {
	Min float64  `json:"min"`
	Max *float64 `json:"max,omitempty"` // nil: no upper bound
}

// App is the request that counted for one app.
type App struct {
	Name    string         `json:"app"`
	Source  decide.Source  `json:"source,omitempty"`  // empty: its own signal
	Verdict decide.Verdict `json:"verdict,omitempty"` // of its own signal; empty: Value
	Request Request        `json:"request"`
	// Version is the release whose response counts; empty: unknown. Latency is the time of the response.
	Version string        `json:"version,omitempty"`
	Latency time.Duration `json:"latency_ns,omitempty"`
	// Shadow is the response of the shadow candidate, in the tick that compares it.
	Shadow *Shadow `json:"shadow,omitempty"`
}

// Shadow compares a shadow candidate with the app's own signal.
type Shadow struct {
	Version    string         `json:"version,omitempty"`
	Verdict    decide.Verdict `json:"verdict,omitempty"` // empty: Value
	Request    Request        `json:"request"`
	Compared   bool           `json:"compared,omitempty"`   // false: one of the two failed, or their inputs differ
	Difference string         `json:"difference,omitempty"` // empty: they agree, or are not compared
}

// NotRequested is the verdict of a signal that no request was sent to.
const NotRequested decide.Verdict = "not_requested"

// Group is the target of one group before and after the decision.
type Group struct {
	ID      string  `json:"id"`
	Before  int     `json:"before,omitempty"` // 0: equal to Target, or zero
	Target  int     `json:"target"`
	Exists  float64 `json:"fulfilled"`
	Backoff bool    `json:"backoff,omitempty"`
}

// Action counts the requests of one kind to one group.
type Action struct {
	Op     apply.Op `json:"op"`
	Group  string   `json:"group,omitempty"`
	Target int      `json:"target,omitempty"` // of "set target"
	Calls  int      `json:"calls"`
	Failed int      `json:"failed,omitempty"`
	Error  string   `json:"error,omitempty"` // of the first that failed
}

// Of returns the summary of a tick. It does not change the record. Equal records have equal summaries.
func Of(r autoscaler.Record) Summary {
	s := Summary{
		Schema: Schema, Pool: r.Pool, At: r.At, Took: r.Took, Every: r.Every, DryRun: r.DryRun, Failed: decide.OneLine(r.Failed),
		Wanted: r.State.Wanted, Joined: r.Snapshot.Joined, Exists: r.Snapshot.Fulfilled, Actions: actionsOf(r.Actions), Leaving: len(r.Drains),
		Holds: Holds(r),
	}
	if r.Paused != nil {
		s.Paused = new(noteOf(*r.Paused))
	}
	for _, p := range r.Problems {
		s.Problems = append(s.Problems, decide.OneLine(p))
	}
	if decided(r) {
		s.decision(r)
	}
	s.nodes(r)
	s.Orders = bounded(&s, s.Orders)
	s.Apps = bounded(&s, s.Apps)
	s.Groups = bounded(&s, s.Groups)
	s.Actions = bounded(&s, s.Actions)
	s.Holds = bounded(&s, s.Holds)
	s.Problems = bounded(&s, s.Problems)
	return s
}

// decided reports whether a record has a decision.
func decided(r autoscaler.Record) bool { return r.Case != nil && r.Result != nil && r.Detail != nil }

// noteOf returns the note with bounded texts.
func noteOf(n pools.Note) pools.Note {
	n.By, n.Why = decide.OneLine(n.By), decide.OneLine(n.Why)
	return n
}

// decision adds the decision of a record.
func (s *Summary) decision(r autoscaler.Record) {
	in := r.Case.Input
	s.Before, s.Target = new(in.Capacity.Target+r.Case.State.Offset), new(r.Result.Target)
	s.Offset, s.Pinned = in.Offset, in.Pinned
	for _, o := range r.Orders {
		s.Orders = append(s.Orders, pools.Order{Kind: o.Kind, Subject: decide.OneLine(o.Subject), Note: noteOf(o.Note)})
	}
	s.Limits = &Limits{Min: in.Policy.Limits.Min}
	if in.Policy.Limits.Max < decide.Unlimited {
		s.Limits.Max = new(in.Policy.Limits.Max)
	}
	for _, step := range r.Result.Steps {
		if step.Rule == decide.RuleLimits {
			s.Unlimited = new(step.Before)
		}
	}
	step := deciding(r.Result.Steps)
	s.Rule, s.Why, s.Request = step.Rule, decide.OneLine(step.Why), new(requestOf(r.Detail.Request))
	s.Offered, s.Setpoint = new(requestOf(resource.Of(in.Capacity.Totals))), in.Policy.Setpoint
	s.apps(r)
	exists, held := map[string]float64{}, map[string]bool{}
	for _, g := range r.Snapshot.Groups {
		exists[g.ID] = g.Fulfilled
	}
	for _, q := range r.State.Backoffs {
		held[q.Group] = true
	}
	for _, share := range r.Detail.Distribution.Shares {
		g := Group{ID: share.Group, Target: share.After, Exists: exists[share.Group], Backoff: held[share.Group]}
		if share.Before != share.After {
			g.Before = share.Before
		}
		s.Groups = append(s.Groups, g)
	}
}

// apps adds the request and the signal of each app.
func (s *Summary) apps(r autoscaler.Record) {
	opinions, shadows := map[string]decide.Opinion{}, map[string]*Shadow{}
	for _, app := range r.Case.Input.Apps {
		opinions[app.Name] = app.Opinion
	}
	for _, c := range r.Shadows {
		shadows[c.App] = &Shadow{
			Version: decide.OneLine(c.Version), Verdict: shortVerdict(c.Verdict), Request: requestOf(c.Request),
			Compared: c.Compared, Difference: decide.OneLine(c.Difference),
		}
	}
	for _, app := range r.Detail.Apps {
		own := opinions[app.App]
		one := App{
			Name: app.App, Source: app.Source, Verdict: shortVerdict(own.Verdict), Request: requestOf(app.Request),
			Version: decide.OneLine(own.Version), Latency: own.Latency.Round(time.Microsecond), Shadow: shadows[app.App],
		}
		if one.Source == decide.FromSignal {
			one.Source = ""
		}
		s.Apps = append(s.Apps, one)
	}
}

// shortVerdict returns the verdict as a summary states it.
func shortVerdict(v decide.Verdict) decide.Verdict {
	switch v {
	case decide.Value:
		return ""
	case decide.NotRequested:
		return NotRequested
	}
	return v
}

// deciding returns the step that set the target: the last one that changed it, or else the one of the rule "target".
func deciding(steps []decide.Step) (step decide.Step) {
	for _, s := range slices.Backward(steps) {
		if s.After != s.Before {
			return s
		}
		if s.Rule == decide.RuleTarget || s.Rule == decide.RuleInput {
			step = s
		}
	}
	return step
}

// actionsOf counts the actions by kind and group, in their order.
func actionsOf(actions []apply.Action) (out []Action) {
	for _, a := range actions {
		i := slices.IndexFunc(out, func(o Action) bool { return o.Op == a.Op && o.Group == a.Group })
		if i < 0 {
			i, out = len(out), append(out, Action{Op: a.Op, Group: a.Group})
		}
		one := &out[i]
		one.Calls++
		if a.Op == apply.OpSetTarget {
			one.Target = a.Target
		}
		if a.Error != "" {
			if one.Failed++; one.Error == "" {
				one.Error = decide.OneLine(a.Error)
			}
		}
	}
	return out
}

// bounded returns the first entries of a list, and counts the others.
func bounded[T any](s *Summary, list []T) []T {
	if more := len(list) - maxListed; more > 0 {
		s.Omitted += more
		return list[:maxListed:maxListed]
	}
	return list
}

// Read decodes a stored summary. It accepts keys of later versions, and rejects a summary with another schema.
func Read(data []byte) (s Summary, err error) {
	if len(data) > maxEncoded {
		return s, fmt.Errorf("read a summary of %d bytes: want at most %d", len(data), maxEncoded)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read a summary: %w; another version of weir wrote it", err)
	}
	if s.Schema != Schema {
		return s, fmt.Errorf("read a summary of schema %d: this weir reads schema %d; use the newer weir", s.Schema, Schema)
	}
	return s, nil
}
