package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/autoscaler"
	"github.com/weirkeeper/weirkeeper/autoscaler/decide"
	"github.com/weirkeeper/weirkeeper/autoscaler/resolve"
	"github.com/weirkeeper/weirkeeper/bootstrap"
	"github.com/weirkeeper/weirkeeper/harmonizer"
	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/explain"
	"github.com/weirkeeper/weirkeeper/internal/state"
	"github.com/weirkeeper/weirkeeper/nodehealth"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
	"github.com/weirkeeper/weirkeeper/pools"
	"github.com/weirkeeper/weirkeeper/pools/local/placerbus"
	"github.com/weirkeeper/weirkeeper/pools/plan"
)

// warnOfHealth adds a warning for unhealthy machines. A pool without a health policy does
// not respond, which is no problem.
func (p Pool) warnOfHealth(ctx context.Context, s *Status) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	h, err := p.nodeHealth().Status(ctx, nodehealth.StatusQuery{})
	switch {
	case errors.Is(err, events.ErrNoResponse):
		return
	case err != nil:
		s.warn("%v", err)
		return
	}
	s.Health = &h
	if trouble := healthTrouble(h); trouble != "" {
		s.warn("%s", trouble)
	}
}

func (s *Status) warn(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// maxCrashing bounds the applications of which one status shows why they crash.
const maxCrashing = 10

// crashing returns the applications with instances that crash repeatedly, in order: those with a cause, and the rest.
func crashing(c message.Counts) (first, rest []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Apps)) {
		if c.Apps[name].Flapping > 0 {
			first = append(first, name)
		}
	}
	n := min(len(first), maxCrashing)
	return first[:n], first[n:]
}

// crashesOf requests the crashes of the first applications that crash repeatedly. Without a response the warning has no
// cause.
func (p Pool) crashesOf(ctx context.Context, c message.Counts) map[string]harmonizer.Status {
	crashes := map[string]harmonizer.Status{}
	first, _ := crashing(c)
	for _, name := range first {
		h, err := Harmonizer(ctx, p.Bus, p.Cluster, harmonizer.StatusQuery{App: name, Crashes: true})
		if err != nil {
			break
		}
		crashes[name] = h
	}
	return crashes
}

func (s *Status) warnOfApps(c message.Counts, crashes map[string]harmonizer.Status) {
	if !c.Complete {
		s.warn("instance counts are not complete, and no signal is given them: %s", c.Why)
	}
	first, rest := crashing(c)
	for _, name := range first {
		s.warn("%s", explain.Crashes(time.Now(), name, c.Apps[name], givenUp(crashes[name].App), crashes[name].Crashes))
	}
	if len(rest) > 0 {
		s.warn("%s", explain.MoreCrashes(rest))
	}
}

// givenUp returns the number of instances that the harmonizer does not start again.
func givenUp(e *apps.Explanation) (n int) {
	if e == nil {
		return 0
	}
	for _, i := range e.Indices {
		if i.GivenUp {
			n++
		}
	}
	return n
}

// warnOfPending adds a warning for instances that wait for room longer than three ticks.
func (p Pool) warnOfPending(ctx context.Context, s *Status) {
	pending, err := placerbus.GetPending(ctx, p.Bus.Conn(), p.Cluster, p.Name)
	if err != nil {
		return // without a placer, a cloud controller places instances
	}
	for _, c := range pending.Rejected[:min(len(pending.Rejected), MaxReasons)] {
		s.warn("%s", WaitsLine(c))
	}
	if pending.Total == 0 || s.LastTick == nil {
		return
	}
	if lines := Impossible(pending); lines != nil {
		s.Warnings = append(s.Warnings, lines...)
		return
	}
	if oldest := pending.Copies[0]; time.Since(oldest.Since) > 3*max(s.LastTick.Every, time.Second) {
		s.warn("%s", explain.Waiting(time.Now(), pending.Total, oldest.App, oldest.Index, oldest.Since))
	}
}

// warnOfSilence adds a first warning if ticks are overdue.
func (s *Status) warnOfSilence(now time.Time, r autoscaler.Record) {
	var p *bootstrap.Process
	if s.Processes != nil {
		p = &s.Processes.Autoscaler
	}
	text := explain.Overdue(now, r, p)
	if text == "" && p != nil && p.Alive != nil && p.Alive.Overdue {
		text = explain.Silence(now, *p.Alive) // of a standby: another host holds the pool
	}
	if text != "" {
		s.Warnings = slices.Insert(s.Warnings, 0, text)
	}
}

// silentNodes requests from the harmonizer the nodes that are silent just now, and returns
// those that run as of that tick, and what keeps it from starts and stops. That includes
// requests of this pool without an answer.
func (p Pool) silentNodes(ctx context.Context, r autoscaler.Record) (silent []apps.SilentNode, held []string) {
	h, err := Harmonizer(ctx, p.Bus, p.Cluster, harmonizer.StatusQuery{Totals: true})
	if err != nil {
		return nil, nil // the counts have the warning that the harmonizer does not answer
	}
	return slices.DeleteFunc(h.Silent, func(n apps.SilentNode) bool {
		return !slices.ContainsFunc(r.Case.Nodes, func(c plan.Candidate) bool {
			return c.ID == n.Node && c.Instance == pools.InstanceRunning
		})
	}), append(HeldLines(h.DisruptionLimit), UnansweredLines(time.Now(), h, p.Name)...)
}

// warnOfNodes adds one warning for the nodes that are silent now, and one for the nodes
// that the last tick had no facts of.
func (s *Status) warnOfNodes(now time.Time, r autoscaler.Record) {
	if len(s.Silent) > 0 {
		s.warn("%s", explain.SilentNodes(now, s.Silent))
	}
	before := slices.DeleteFunc(slices.Clone(r.Snapshot.Silent), func(id string) bool {
		return slices.ContainsFunc(s.Silent, func(n apps.SilentNode) bool { return n.Node == id })
	})
	switch len(before) {
	case 0:
	case 1:
		s.warn("node %s was silent at the last tick: what it runs is unknown, so the pool does not shrink; \"weir node status %s\" shows its last verdicts", before[0], before[0])
	default:
		s.warn("%d nodes were silent at the last tick: what they run is unknown, so the pool does not shrink: %s", len(before), explain.List(before))
	}
}

func (s *Status) warnOfTick(r autoscaler.Record) {
	add := s.warn
	if r.Failed != "" {
		add("%s", explain.TickFailed(time.Now(), r.At, r.Failed))
	}
	for _, p := range r.Problems {
		add("last tick: %s", p)
	}
	for _, d := range r.Drift {
		add("%s", explain.Drift(time.Now(), r.At, d))
	}
	for _, q := range r.State.Backoffs {
		add("%s", explain.Group(time.Now(), q))
	}
	if r.Detail != nil && r.Result != nil && r.Case != nil {
		s.warnOfDecision(r.At, *r.Case, *r.Result, *r.Detail)
	}
	for _, action := range r.Actions {
		if action.Error != "" {
			add("%s", explain.Action(time.Now(), r.At, action))
		}
	}
}

func (s *Status) warnOfDecision(tick time.Time, c resolve.Case, a resolve.Result, d autoscaler.Detail) {
	for _, app := range d.Apps {
		if app.Fallback {
			s.warn("%s", explain.Fallback(time.Now(), tick, app))
		}
	}
	for _, step := range a.Steps {
		if most := c.Input.Policy.Limits.Max; step.Rule == decide.RuleLimits && step.Before > most {
			s.warn("the signals request a target of %s, but scaling_limits.max_capacity is %s: raise it, or expect instances without room", explain.Number(step.Before), explain.Number(most))
		}
	}
}

// warnOfOrders adds the current orders of operators to the status. The last tick may be
// older than they are.
func (p Pool) warnOfOrders(ctx context.Context, s *Status) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	orders, err := state.OpenOrders(ctx, p.Bus.JetStream(), p.Cluster, p.Name, state.CreateNothing)
	if err != nil {
		s.warn("%v", err)
		return
	}
	current, err := orders.List(ctx)
	if err != nil {
		s.warn("%v", err)
		return
	}
	current = current.InForce(time.Now())
	if current.Pause != nil {
		s.warn("the pool is paused %s; \"weir resume\" ends it", explain.Note(*current.Pause))
	}
	s.Orders = &current
	if current.Offset != nil {
		s.warn("an offset of %s applies, %s", Signed(current.Offset.Weight), explain.Note(current.Offset.Note))
	}
	if current.Pin != nil {
		s.warn("the target is pinned at %s, %s", Pinned(*current.Pin), explain.Note(current.Pin.Note))
	}
}

// Signed formats a weight with its sign.
func Signed(x float64) string {
	if x > 0 {
		return "+" + explain.Number(x)
	}
	return explain.Number(x)
}

// Pinned formats the target of a pin.
func Pinned(p pools.Pin) string {
	if p.Bound != "" {
		return p.Bound
	}
	return explain.Number(p.Target)
}

// Census returns the number of machines in each state, healthy ones last.
func Census(c judge.Census) string {
	names := slices.Sorted(maps.Keys(c.States))
	slices.SortStableFunc(names, func(a, b judge.NodeState) int { return cmp.Compare(fitness(a), fitness(b)) })
	var texts []string
	for _, state := range names {
		texts = append(texts, fmt.Sprintf("%d %s", c.States[state], state))
	}
	if c.Unknown > 0 {
		texts = append(texts, fmt.Sprintf("%d without data", c.Unknown))
	}
	return strings.Join(texts, ", ")
}

// fitness orders states: a higher number is a healthier machine.
func fitness(s judge.NodeState) int {
	switch s {
	case judge.Healthy:
		return 2
	case judge.Fresh, judge.Requested:
		return 1
	}
	return 0
}

// healthTrouble returns one line with the problems of node health; empty if there is no problem.
func healthTrouble(s nodehealth.Status) string {
	var parts []string
	unhealthy := 0
	for state, n := range s.Census.States {
		if fitness(state) == 0 {
			unhealthy += n
		}
	}
	if unhealthy > 0 {
		parts = append(parts, Census(s.Census))
	}
	for _, b := range s.Open {
		parts = append(parts, explain.Breaker(time.Now(), b))
	}
	if s.Mode == judge.Act && s.RepairOwner != "" {
		parts = append(parts, "nothing is repaired: "+s.RepairOwner)
	}
	if len(s.Alarms) > 0 && len(parts) == 0 {
		parts = append(parts, strings.TrimSpace(s.Alarms[0].Node+" "+s.Alarms[0].Why))
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("node health, mode %s: %s; \"weir node status\" shows more", s.Mode, strings.Join(parts, "; "))
}
