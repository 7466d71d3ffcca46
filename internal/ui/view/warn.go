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

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/internal/history/explain"
	"github.com/weirkeeper/weirkeeper/nodehealth/events"
)

// addHealth adds the status of node health, with a warning for unhealthy machines. A pool without a health policy does
// not respond, which is no problem.
func addHealth(s *api.PoolStatus, h answer[api.HealthStatus]) {
	switch {
	case errors.Is(h.err, events.ErrNoResponse):
		return
	case h.err != nil:
		warn(s, "%v", h.err)
		return
	}
	s.Health = &h.value
	if trouble := healthTrouble(h.value); trouble != "" {
		warn(s, "%s", trouble)
	}
}

func warn(s *api.PoolStatus, format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// maxCrashing bounds the applications whose crashes have a cause in one status.
const maxCrashing = 10

// crashing returns the applications with instances that crash repeatedly, in order: those with a cause, and the rest.
func crashing(c api.InstanceCounts) (first, rest []string) {
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
func (p Pool) crashesOf(ctx context.Context, c api.InstanceCounts) map[string]api.HarmonizerStatus {
	crashes := map[string]api.HarmonizerStatus{}
	first, _ := crashing(c)
	for _, name := range first {
		h, err := Harmonizer(ctx, p.Bus, p.Cluster, api.HarmonizerQuery{App: name, Crashes: true})
		if err != nil {
			break
		}
		crashes[name] = h
	}
	return crashes
}

func warnOfApps(s *api.PoolStatus, c api.InstanceCounts, crashes map[string]api.HarmonizerStatus) {
	if !c.Complete {
		warn(s, "instance counts are not complete, and no signal is given them: %s", c.Why)
	}
	s.Warnings = append(s.Warnings, failedWork(c)...)
	first, rest := crashing(c)
	for _, name := range first {
		warn(s, "%s", explain.Crashes(time.Now(), name, c.Apps[name], givenUp(crashes[name].App), crashes[name].Crashes))
	}
	if len(rest) > 0 {
		warn(s, "%s", explain.MoreCrashes(rest))
	}
}

// givenUp returns the number of instances that the harmonizer does not start again.
func givenUp(e *api.AppExplanation) (n int) {
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

// warnOfPending adds the problems that the scheduler reports, and the first reason of each application whose instances wait. One that a
// machine ends is added after three ticks.
func warnOfPending(s *api.PoolStatus, pending answer[api.Pending]) {
	if pending.err != nil { // without a placer, a cloud controller places instances
		warnOfShort(s)
		return
	}
	s.Warnings = append(s.Warnings, pending.value.State.ProblemLines()...)
	warnOfWaits(s, time.Now(), pending.value)
}

func warnOfWaits(s *api.PoolStatus, now time.Time, p api.Pending) {
	patience := 3 * time.Second
	if s.LastTick != nil {
		patience = 3 * max(s.LastTick.Every, time.Second)
	}
	known := slices.Clone(s.Warnings)
	seen, more := map[string]bool{}, false
	for _, w := range WaitReasons(now, p, s.LastTick) {
		switch {
		case seen[w.App], !w.Lasts && now.Sub(w.Since) <= patience, slices.Contains(known, w.Line):
		case len(seen) == MaxReasons:
			more = true
		default:
			seen[w.App] = true
			warn(s, "%s", w.Line)
		}
	}
	if more {
		warn(s, "instances of further applications wait; \"weir app status\" lists them")
	}
}

// warnOfShort adds for which copies no group could add a machine at the last tick.
func warnOfShort(s *api.PoolStatus) {
	if s.LastTick == nil || s.LastTick.Case == nil || s.LastTick.Case.Places == nil {
		return
	}
	short := s.LastTick.Case.Places.Short
	for _, app := range short[:min(len(short), MaxReasons)] {
		copies := fmt.Sprintf("%d copies of %s wait", app.Copies, app.App)
		if app.Copies == 1 {
			copies = "1 copy of " + app.App + " waits"
		}
		warn(s, "%s: %s", copies, app.Why)
	}
}

// warnOfSilence adds a first warning if ticks are overdue.
func warnOfSilence(s *api.PoolStatus, now time.Time, r api.TickRecord) {
	var p *api.Process
	if s.Processes != nil {
		p = &s.Processes.Autoscaler
	}
	if text := Silence(now, r, p); text != "" {
		s.Warnings = slices.Insert(s.Warnings, 0, text)
	}
}

// Silence returns since when the pool has no tick, or the autoscaler of this bootstrap hangs, and what happens next. It is empty if
// neither is so. r is the last tick; p is the autoscaler's process, nil if bootstrap does not answer.
func Silence(now time.Time, r api.TickRecord, p *api.Process) string {
	text := explain.Overdue(now, r, p)
	if text == "" && p != nil && p.Alive != nil && p.Alive.Overdue {
		text = explain.Silence(now, *p.Alive) // of a standby: another host holds the pool
	}
	return text
}

// silentNodes returns the nodes that the harmonizer reports as silent just now, and that run as of that tick.
func silentNodes(h api.HarmonizerStatus, pool string, r api.TickRecord) []api.SilentNode {
	return slices.DeleteFunc(slices.Clone(h.Silent), func(n api.SilentNode) bool {
		return n.Pool != pool || r.Case == nil || !slices.ContainsFunc(r.Case.Nodes, func(c api.Candidate) bool {
			return c.ID == n.Node && c.Instance == api.InstanceRunning
		})
	})
}

// heldLines returns the halted updates of the pool, and what keeps the harmonizer from starts and stops, which includes
// requests without an answer.
func heldLines(h api.HarmonizerStatus, pool string) []string {
	return slices.Concat(HaltedLines(h, pool), WrongLines(h, pool), HeldLines(h.DisruptionLimit), UnansweredLines(time.Now(), h, pool))
}

// warnOfNodes adds one warning for the nodes that are silent now, and one for the nodes
// that the last tick had no facts of.
func warnOfNodes(s *api.PoolStatus, now time.Time, r api.TickRecord) {
	if len(s.Silent) > 0 {
		warn(s, "%s", explain.SilentNodes(now, s.Silent))
	}
	before := slices.DeleteFunc(slices.Clone(r.Snapshot.Silent), func(id string) bool {
		return slices.ContainsFunc(s.Silent, func(n api.SilentNode) bool { return n.Node == id })
	})
	switch len(before) {
	case 0:
	case 1:
		warn(s, "node %s was silent at the last tick: what it runs is unknown, so the pool does not shrink; \"weir node status %s\" shows its last verdicts", before[0], before[0])
	default:
		warn(s, "%d nodes were silent at the last tick: what they run is unknown, so the pool does not shrink: %s", len(before), explain.List(before))
	}
}

func warnOfTick(s *api.PoolStatus, r api.TickRecord) {
	s.Warnings = append(s.Warnings, explain.Warnings(time.Now(), r)...)
	if r.Detail != nil && r.Result != nil && r.Case != nil {
		warnOfDecision(s, r.At, *r.Case, *r.Result, *r.Detail)
	}
}

func warnOfDecision(s *api.PoolStatus, tick time.Time, c api.Case, a api.CaseResult, d api.TickDetail) {
	for _, app := range d.Apps {
		if app.Fallback {
			warn(s, "%s", explain.Fallback(time.Now(), tick, app))
		}
	}
	who := "the signals request"
	for _, step := range a.Steps {
		if step.Rule == api.RulePlaces && step.After > step.Before {
			who = "copies without a place need"
		}
		most := c.Input.Policy.Limits.Max
		switch {
		case step.Rule != api.RuleLimits || step.Before <= most:
		case c.Input.Pinned != nil:
			warn(s, "an operator pinned %s, but scaling_limits.max_capacity is %s: the pool has at most %[2]s", explain.Number(*c.Input.Pinned), explain.Number(most))
		default:
			warn(s, "%s a target of %s, but scaling_limits.max_capacity is %s: raise it, or expect instances without room", who, explain.Number(step.Before), explain.Number(most))
		}
	}
	warnOfPlaces(s, c)
}

// warnOfPlaces adds why it is not known where copies fit, which free places are missing, and which copies no machine can hold.
func warnOfPlaces(s *api.PoolStatus, c api.Case) {
	if c.NoPlaces != "" {
		warn(s, "%s", c.NoPlaces)
	}
	if c.Places == nil {
		return
	}
	for _, h := range c.Places.Headroom {
		if h.Why != "" {
			warn(s, "%s", h.Text())
		}
	}
	for _, app := range c.Places.Never[:min(len(c.Places.Never), MaxReasons)] {
		warn(s, "%s", NeverLine(app))
	}
}

// addOrders adds the current orders of operators to the status. The last tick may be older than they are.
func addOrders(s *api.PoolStatus, orders answer[api.Orders]) {
	if orders.err != nil {
		warn(s, "%v", orders.err)
		return
	}
	current := orders.value.InForce(time.Now())
	if current.Pause != nil {
		warn(s, "the pool is paused %s; \"weir resume\" ends it", explain.Note(*current.Pause))
	}
	s.Orders = &current
	if current.Offset != nil {
		warn(s, "an offset of %s applies, %s", Signed(current.Offset.Weight), explain.Note(current.Offset.Note))
	}
	if current.Pin != nil {
		warn(s, "the target is pinned at %s, %s", Pinned(*current.Pin), explain.Note(current.Pin.Note))
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
func Pinned(p api.Pin) string {
	if p.Bound != "" {
		return p.Bound
	}
	return explain.Number(p.Target)
}

// Census returns the number of machines in each state, healthy ones last.
func Census(c api.Census) string {
	names := slices.Sorted(maps.Keys(c.States))
	slices.SortStableFunc(names, func(a, b api.HealthState) int { return cmp.Compare(fitness(a), fitness(b)) })
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
func fitness(s api.HealthState) int {
	switch s {
	case api.StateHealthy:
		return 2
	case api.StateFresh, api.StateRequested:
		return 1
	}
	return 0
}

// healthTrouble returns one line with the problems of node health; empty if there is no problem.
func healthTrouble(s api.HealthStatus) string {
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
	if s.Mode == api.ModeAct && s.RepairOwner != "" {
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
