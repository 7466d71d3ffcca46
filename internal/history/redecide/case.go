package redecide

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/internal/config"
	"github.com/weirkeeper/weirkeeper/internal/history"
	"github.com/weirkeeper/weirkeeper/internal/platform/strictjson"
	"github.com/weirkeeper/weirkeeper/resource"
	"github.com/weirkeeper/weirkeeper/sigproto"
)

// writtenCase is a hand-written line of "weir decide".
type writtenCase struct {
	Now         moment           `json:"now"`
	Policy      json.RawMessage  `json:"policy"`
	Pool        *writtenPool     `json:"pool"`
	History     resource.Request `json:"history"`
	Signals     []writtenSignal  `json:"signals"`
	Offset      float64          `json:"offset"`
	Pinned      *float64         `json:"pinned"`
	NoScaleDown reason           `json:"no_scale_down"`
	Barred      reason           `json:"barred"` // by node health
	State       api.PoolState    `json:"state"`
}

type writtenPool struct {
	Target    *float64         `json:"target_capacity"`
	Fulfilled *float64         `json:"fulfilled_capacity"` // ignored: the sum of the nodes is used
	Joined    *float64         `json:"non_orphan_fulfilled_capacity"`
	Total     resource.Request `json:"total"`
	Allocated resource.Request `json:"allocated"` // ignored: no rule reads it
	Groups    []writtenGroup   `json:"groups"`
	Nodes     []writtenNode    `json:"nodes"`
}

type writtenGroup struct {
	ID     string  `json:"id"`
	Target *count  `json:"target"`
	Min    count   `json:"min"`
	Max    *amount `json:"max"` // absent: no upper bound
	Stale  bool    `json:"stale"`
}

type writtenNode struct {
	ID        string  `json:"id"`
	Group     string  `json:"group"`
	Weight    *amount `json:"weight"` // absent: 1
	Tasks     count   `json:"tasks"`
	Batch     count   `json:"batch"`
	Safe      *bool   `json:"safe"` // absent: it is
	Cordoned  bool    `json:"cordoned"`
	Uptime    float64 `json:"uptime"` // seconds
	State     string  `json:"state"`
	Stale     bool    `json:"stale"`
	Draining  bool    `json:"draining"`
	Other     bool    `json:"cordoned_by_other"`
	Protected bool    `json:"protected"`
	Priority  float64 `json:"priority"`
	Unhealthy bool    `json:"unhealthy"`
	Repairing bool    `json:"repairing"`
}

type writtenSignal struct {
	App       string            `json:"app"`
	Resources *resource.Request `json:"Resources"`
	Verdict   api.Verdict       `json:"verdict"`
	Error     string            `json:"error"`
	At        moment            `json:"at"` // when it was given; absent: now
}

// lineReader answers lines. It stores the policy of the last one, which is mostly
// that of the next. Its zero value is ready.
type lineReader struct {
	policy []byte
	blank  api.Case // with that policy, and no pool
}

// readCase returns the case of a line: that of a record, or of a hand-written line.
func (r *lineReader) readCase(line []byte) (api.Case, error) {
	var of struct {
		Case  json.RawMessage `json:"case"`
		Every json.RawMessage `json:"every_ns"`
		// EverySeconds is in place of Every if the durations of the record are in seconds, as commands print them.
		EverySeconds json.RawMessage `json:"every_seconds"`
	}
	if err := json.Unmarshal(line, &of); err != nil {
		if _, syntax := errors.AsType[*json.SyntaxError](err); syntax {
			return api.Case{}, fmt.Errorf("%w: want a JSON object", err)
		}
		return api.Case{}, strictjson.Plain(err)
	}
	if of.Case != nil || of.Every != nil || of.EverySeconds != nil {
		return recordedCase(line)
	}
	var w writtenCase
	if err := decodeStrictly(line, &w); err != nil {
		return api.Case{}, err
	}
	return r.caseOf(w)
}

// recordedCase returns the case of a record.
func recordedCase(line []byte) (c api.Case, err error) {
	record, err := history.ReadPrinted(line)
	switch {
	case err != nil:
		return c, err
	case record.Case == nil || record.Failed != "" || record.Paused != nil:
		return c, errors.New("the record is of a tick without a decision")
	case record.Schema != resolve.Schema:
		return c, fmt.Errorf("the record has schema %d, and this weir decides records of schema %d; weir explain shows it", record.Schema, resolve.Schema)
	}
	return *record.Case, nil
}

func (r *lineReader) caseOf(w writtenCase) (api.Case, error) {
	switch {
	case w.Policy == nil:
		return api.Case{}, errors.New(`policy is missing: want {"scaling_limits": {...}}, as in a pool file`)
	case w.Pool == nil:
		return api.Case{}, errors.New(`pool is missing: want {"target_capacity": ..., "total": {...}}`)
	case w.Signals == nil:
		return api.Case{}, errors.New(`signals is missing: want [{"app": ..., "Resources": {...}}], or []`)
	}
	if r.policy == nil || !bytes.Equal(r.policy, w.Policy) {
		c, err := config.Policy(w.Policy)
		if err != nil {
			return api.Case{}, err
		}
		r.policy, r.blank = bytes.Clone(w.Policy), c
	}
	if err := resolve.ValidateState(w.State); err != nil {
		return api.Case{}, fmt.Errorf("state: %w", err)
	}
	c := r.blank
	c.State, c.Has = w.State, map[string]int{}
	c.Input.Now, c.Input.Offset, c.Input.Pinned = w.Now.Time, w.Offset, w.Pinned
	c.Input.NoScaleIn, c.Input.Barred = string(w.NoScaleDown), string(w.Barred)
	c.Input.History = api.PoolHistory{PerWeight: w.History}
	if err := errors.Join(w.Pool.fill(&c), fillApps(&c.Input, w.Signals)); err != nil {
		return api.Case{}, err
	}
	if w.Pool.Nodes != nil {
		c.Input.Lost = countLost(w.State.Joined, c.Nodes)
	}
	return c, nil
}

// fill takes over what the pool is.
func (p writtenPool) fill(c *api.Case) error {
	capacity := &c.Input.Capacity
	for _, k := range resource.Kinds() {
		capacity.Totals[k], _ = p.Total.Get(k)
	}
	for i, g := range p.Groups {
		most := api.Unbounded
		if g.Max != nil {
			most = g.Max.whole()
		}
		if g.Target == nil {
			return fmt.Errorf("pool.groups[%d]: target is missing", i)
		}
		target := int(*g.Target)
		c.Groups = append(c.Groups, api.GroupTarget{ID: g.ID, Target: target, Min: int(g.Min), Max: most, Stale: g.Stale})
		if !g.Stale {
			capacity.Target += float64(target)
		}
	}
	if p.Target != nil {
		if capacity.Target = *p.Target; capacity.Target+c.State.Offset < 0 {
			return fmt.Errorf("pool.target_capacity is %v: want at least 0 with the offset of state", *p.Target)
		}
	} else {
		capacity.Target -= c.State.Offset
		if c.State.Wanted != nil {
			capacity.Target = *c.State.Wanted
		}
	}
	has, seen := map[string]float64{}, map[string]bool{}
	for i, n := range p.Nodes {
		candidate, err := n.candidate()
		switch {
		case err != nil:
			return fmt.Errorf("pool.nodes[%d]: %w", i, err)
		case n.ID == "" || seen[n.ID]:
			return fmt.Errorf("pool.nodes[%d]: id %q: want each to have one of its own", i, n.ID)
		}
		seen[n.ID] = true
		c.Nodes = append(c.Nodes, candidate)
		has[n.Group] += candidate.Weight
		if candidate.Node == api.NodeIdle || candidate.Node == api.NodeRunning {
			c.Joined += candidate.Weight
		}
	}
	for group, weight := range has {
		c.Has[group] = int(min(weight, 1<<40))
	}
	if p.Joined != nil {
		c.Joined = *p.Joined
	}
	capacity.Joined = c.Joined
	return nil
}

// node is the node's state, in whatever letters.
func (n writtenNode) node() api.NodeState { return api.NodeState(strings.ToLower(n.State)) }

func (n writtenNode) candidate() (api.Candidate, error) {
	c := api.Candidate{
		ID: n.ID, Group: n.Group, Weight: 1, Instance: api.InstanceRunning, Tasks: int(n.Tasks), BatchTasks: int(n.Batch),
		Uptime: time.Duration(min(max(n.Uptime, -9e9), 9e9) * float64(time.Second)), Priority: n.Priority, Safe: n.Safe == nil || *n.Safe,
		Cordoned: n.Cordoned, Protected: n.Protected, Stale: n.Stale, Draining: n.Draining, CordonedByOther: n.Other, Unhealthy: n.Unhealthy, Repairing: n.Repairing,
	}
	if n.Weight != nil {
		c.Weight = float64(*n.Weight)
	}
	switch state := n.node(); state {
	case "unknown", "":
		c.Node = api.NodeUnknown
	case api.NodeOrphaned, api.NodeIdle, api.NodeRunning:
		c.Node = state
	default:
		return c, fmt.Errorf("node %s: state is %q: want orphaned, idle, running or unknown", n.ID, n.State)
	}
	return c, nil
}

// fillApps copies the responses of the signals. An app with a response has its own
// signal, even if the policy does not list the app.
func fillApps(in *api.DecisionInput, signals []writtenSignal) error {
	in.Apps = append(make([]api.AppInput, 0, len(in.Apps)+len(signals)), in.Apps...)
	for i, app := range in.Apps {
		in.Apps[i].Raise = slices.Clone(app.Raise)
		in.Apps[i].Configured = app.Configured || slices.ContainsFunc(signals, func(w writtenSignal) bool { return w.App == app.Name })
	}
	seen := map[string]bool{}
	for i, s := range signals {
		opinion, err := s.opinion(in.Now)
		switch {
		case err != nil:
			return fmt.Errorf("signals[%d]: %w", i, err)
		case seen[s.App]:
			return fmt.Errorf("signals[%d]: app %q has answered already", i, s.App)
		}
		seen[s.App] = true
		if s.App == sigproto.DefaultApp {
			in.Default = opinion
			continue
		}
		if advisor := advisorOf(in, s.App); advisor != nil {
			advisor.Opinion = opinion
			continue
		}
		at := slices.IndexFunc(in.Apps, func(a api.AppInput) bool { return a.Name == s.App })
		if at < 0 {
			at = len(in.Apps)
			in.Apps = append(in.Apps, api.AppInput{Name: s.App, Configured: true, HoldFor: config.DefaultHold})
		}
		in.Apps[at].Opinion = opinion
	}
	return nil
}

// advisorOf returns the advisor of that name, "APP~NAME", that the policy lists; nil: it lists none.
func advisorOf(in *api.DecisionInput, name string) *api.AdvisorInput {
	for i := range in.Apps {
		for j := range in.Apps[i].Raise {
			if a := &in.Apps[i].Raise[j]; a.Name == name {
				return a
			}
		}
	}
	return nil
}

func (s writtenSignal) opinion(now time.Time) (api.Opinion, error) {
	o := api.Opinion{Verdict: s.Verdict, Why: s.Error, At: now}
	if !s.At.IsZero() {
		o.At = s.At.Time
	}
	switch {
	case s.App == "":
		return o, errors.New("app is missing")
	case s.Resources != nil && (s.Error != "" || s.Verdict != "" && s.Verdict != api.VerdictValue):
		return o, fmt.Errorf("app %s: has Resources, and also an error or a verdict without a value: remove one", s.App)
	case s.Error != "":
		o.Verdict = api.VerdictFailed
	case s.Verdict != "" && s.Verdict != api.VerdictValue:
		if !slices.Contains([]api.Verdict{api.VerdictNoOpinion, api.VerdictStale, api.VerdictFailed}, s.Verdict) {
			return o, fmt.Errorf("verdict is %q: want value, no_opinion, stale or failed", s.Verdict)
		}
	case s.Resources == nil:
		return o, errors.New("want Resources, verdict or error")
	default:
		if err := s.Resources.Validate(); err != nil {
			return o, fmt.Errorf("app %s: %w", s.App, err)
		}
		o.Verdict, o.Request = api.VerdictValue, *s.Resources
	}
	return o, nil
}

// countLost counts the nodes that had joined and are not there any more.
func countLost(joined []string, nodes []api.Candidate) int {
	there := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		there[n.ID] = true
	}
	count := 0
	for _, id := range joined {
		if !there[id] {
			count++
		}
	}
	return count
}

// moment is a time: seconds since 1970, or as RFC 3339 writes it.
type moment struct{ time.Time }

// UnmarshalJSON reads either form.
func (m *moment) UnmarshalJSON(data []byte) error {
	var seconds float64
	if err := json.Unmarshal(data, &seconds); err == nil {
		if math.Abs(seconds) > 1<<40 {
			return fmt.Errorf("time %s is out of range", data)
		}
		whole, part := math.Modf(seconds)
		m.Time = time.Unix(int64(whole), int64(part*1e9)).UTC()
		return nil
	}
	if err := json.Unmarshal(data, &m.Time); err != nil {
		return fmt.Errorf("time %s: want seconds since 1970, or a time such as 2026-01-02T15:04:05Z", data)
	}
	return nil
}

// amount is a number of at least 0, or "inf".
type amount float64

// UnmarshalJSON reads either form.
func (a *amount) UnmarshalJSON(data []byte) error {
	if string(data) == `"inf"` {
		*a = api.Unlimited
		return nil
	}
	var x float64
	if err := json.Unmarshal(data, &x); err != nil || x < 0 {
		return fmt.Errorf(`%s: want a number of at least 0, or "inf"`, data)
	}
	*a = amount(x)
	return nil
}

// count is a whole number of at least 0. 2.0 is one.
type count int

// UnmarshalJSON reads it.
func (c *count) UnmarshalJSON(data []byte) error {
	var x float64
	if err := json.Unmarshal(data, &x); err != nil || x < 0 || x > 1<<40 || x != math.Trunc(x) {
		return fmt.Errorf("%s: want a whole number of at least 0", data)
	}
	*c = count(x)
	return nil
}

// whole returns it as the maximum of a group.
func (a amount) whole() int {
	if a >= 1<<40 {
		return api.Unbounded
	}
	return int(a)
}

// reason is a text, or true if no text is given.
type reason string

// UnmarshalJSON reads true, false or a text.
func (r *reason) UnmarshalJSON(data []byte) error {
	switch strings.TrimSpace(string(data)) {
	case "true":
		*r = "no_scale_down is set"
	case "false", "null":
		*r = ""
	default:
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return fmt.Errorf("no_scale_down is %s: want true, false or a text", data)
		}
		*r = reason(text)
	}
	return nil
}
