package rotate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Policy is how the rotations of a pool go on. The zero value has no limit of its own, and a gate that a joined, fit node passes at once.
type Policy struct {
	// Rate is how many machines may be replaced within a time; 0 machines: any number.
	Rate Rate
	Gate Gate
	// StopAfter is how many new machines may fail their gate before the rotation halts; 0: one.
	StopAfter int
}

// Rate is a number of machines within a time.
type Rate struct {
	Machines int
	Within   time.Duration
}

// Gate is what a new machine must show.
type Gate struct {
	Wait   time.Duration // how long it must be fit, without a break
	Within time.Duration // from its launch to its join; 0: no limit
	Checks []string      // conditions that its node must report as good, beside those that it reports
}

// Rule selects machines that are replaced.
type Rule struct {
	Name   string // for people, and unique
	Work   api.Work
	Group  string    // empty: all groups
	Before time.Time // launched before; zero: at any time. An age counts up to then
	When   Condition
	Where  string // the text of When
	Note   api.Note
}

// key identifies a rule over several ticks.
func (r *Rule) key() string {
	if r.Before.IsZero() {
		return r.Name
	}
	return r.Name + " " + r.Before.UTC().Format(time.RFC3339Nano)
}

// matches reports whether a rule replaces a machine.
func (r *Rule) matches(now time.Time, m *Machine) (match, known bool) {
	if r.Group != "" && r.Group != m.Group || !r.Before.IsZero() && !m.Launched.Before(r.Before) {
		return false, true
	}
	at := now
	if !r.Before.IsZero() {
		at = r.Before
	}
	return r.When.Matches(SubjectOf(at, m.Instance))
}

// Machine is a machine of the pool that is not terminating.
type Machine struct {
	pools.Instance
	Joined bool
	// Silent: its node has joined, or may have, and does not report. Starting: its state is unknown now.
	Silent, Starting bool
	Unfit            string          // why it does not serve; empty: it does
	Leaves           api.DrainReason // empty: it stays
	Kept             bool            // it is never chosen: an operator or the provider protects it
}

// SubjectOf returns what a condition is about.
func SubjectOf(now time.Time, i pools.Instance) Subject {
	s := Subject{Group: i.Group, Image: i.Image, Template: i.Template, Current: i.Current, Type: i.Market.InstanceType, Zone: i.Market.Zone, Market: "on-demand", Age: -1}
	if i.Market.Spot {
		s.Market = "spot"
	}
	if !i.Launched.IsZero() {
		s.Age = max(0, now.Sub(i.Launched))
	}
	return s
}

// Input is the input of a tick.
type Input struct {
	Policy   Policy
	Now      time.Time // of the wall clock, as launch times
	Clock    time.Time // of the rules
	Rules    []Rule
	Machines []Machine
	State    *api.RotationState // nil: nothing was to be replaced
	Closed   map[api.Work]string
	Unknown  string         // why machines may be missing from the list; empty: they are not
	Limit    int            // of the disruption budget; 0: none
	Ordered  map[string]int // weight that was ordered as replacements and has replaced nothing yet, by group
	Resumed  time.Time      // when an operator resumed the rotation; zero: never
}

// Output is the result of a tick.
type Output struct {
	State    *api.RotationState
	Rotation *api.Rotation // nil: nothing is to be replaced
	// Marked are the machines to replace. The value is true if one waits.
	Marked map[string]bool
	// Trial are the machines that cannot replace another one yet, and Failed those that never will.
	Trial, Failed map[string]bool
}

// Step returns which machines are replaced, and the state for the next tick.
func Step(in Input) Output {
	s := &step{Input: in, out: Output{Marked: map[string]bool{}, Trial: map[string]bool{}, Failed: map[string]bool{}}}
	if in.State != nil {
		s.state = *in.State
	}
	s.resume()
	s.match()
	if s.left == 0 && len(s.state.Trials) == 0 && s.refused == 0 {
		if len(s.rules) > 0 && slices.ContainsFunc(s.rules, func(r api.RotationRule) bool { return r.Unknown > 0 }) {
			s.out.Rotation = &api.Rotation{Rules: s.rules}
		}
		return s.out
	}
	if s.state.Since.IsZero() {
		s.state.Since = in.Now
	}
	s.gate()
	s.refuse()
	s.mark()
	s.out.State = &s.state
	return s.out
}

type step struct {
	Input
	state   api.RotationState
	out     Output
	rules   []api.RotationRule
	matched map[string]int // the rule of a machine, by id
	left    int
	refused int
}

// resume drops the failures before an operator resumed. Machines that were launched before then are not new.
func (s *step) resume() {
	if !s.state.Since.IsZero() && s.Resumed.After(s.state.Since) {
		s.state = api.RotationState{Since: s.Resumed, Replaced: s.state.Replaced, Ended: s.state.Ended}
	}
}

// match finds the machines of each rule.
func (s *step) match() {
	s.matched = map[string]int{}
	refused := map[string]string{}
	for i := range s.Rules {
		r := &s.Rules[i]
		one := api.RotationRule{Name: r.Name, Group: r.Group, Where: r.Where, Since: r.Before, By: r.Note.By, Why: r.Note.Why, Waits: s.Closed[r.Work]}
		if one.Refused = s.state.Refused[r.key()]; one.Refused != "" {
			refused[r.key()] = one.Refused
			s.refused++
		}
		for k := range s.Machines {
			m := &s.Machines[k]
			if r.Group == "" || r.Group == m.Group {
				one.Total++
			}
			match, known := r.matches(s.Now, m)
			if !known {
				one.Unknown++
			}
			if !match {
				continue
			}
			if one.Left++; one.Left == 1 {
				one.First, one.Groups = m.ID, map[string]int{}
			}
			one.Groups[m.Group]++
			if m.Kept {
				one.Kept++
			}
			if one.Refused != "" {
				continue
			}
			if other, is := s.matched[m.ID]; !is {
				s.matched[m.ID] = i
				s.left++
			} else if s.Closed[s.Rules[other].Work] != "" && s.Closed[r.Work] == "" {
				s.matched[m.ID] = i
			}
		}
		s.rules = append(s.rules, one)
	}
	s.state.Refused = nil
	if len(refused) > 0 {
		s.state.Refused = refused
	}
}

// isNew reports whether a machine was launched since the rotation began, by the clock of the provider.
func (s *step) isNew(m *Machine) bool {
	_, old := s.matched[m.ID]
	return !old && !m.Launched.Before(s.state.Since.Add(-pools.ClockTolerance))
}

// gate examines the new machines.
func (s *step) gate() {
	before := make(map[string]api.RotationTrial, len(s.state.Trials))
	for _, t := range s.state.Trials {
		before[t.ID] = t
	}
	there, failed := map[string]bool{}, s.out.Failed
	for _, f := range s.state.Failed {
		failed[f.ID] = true
	}
	if !s.state.Halted.IsZero() {
		s.state.Trials = nil // nothing waits for them
		return
	}
	failures := slices.Clone(s.state.Failed)
	passed := slices.Clone(s.state.Passed)
	var trials []api.RotationTrial
	for k := range s.Machines {
		m := &s.Machines[k]
		there[m.ID] = true
		if _, done := slices.BinarySearch(s.state.Passed, m.ID); done || failed[m.ID] || !s.isNew(m) {
			continue
		}
		t := before[m.ID]
		t.ID = m.ID
		switch why, over := s.try(m, &t); {
		case why != "":
			failures = append(failures, api.RotationFailure{ID: m.ID, Why: why, At: s.Now})
			failed[m.ID] = true
		case over && m.Leaves == "":
			passed = append(passed, m.ID)
			s.state.Proven = true
		case !over:
			trials = append(trials, t)
		}
	}
	for _, t := range s.state.Trials {
		switch {
		case there[t.ID] || failed[t.ID]:
		case s.Unknown != "":
			trials = append(trials, t)
		case t.Since.IsZero():
			failures = append(failures, api.RotationFailure{ID: t.ID, Why: "it ended before its node joined", At: s.Now})
		}
	}
	gone := func(id string) bool { return !there[id] && s.Unknown == "" }
	slices.Sort(passed)
	slices.SortFunc(trials, func(a, b api.RotationTrial) int { return cmp.Compare(a.ID, b.ID) })
	s.state.Trials, s.state.Passed, s.state.Failed = trials, slices.DeleteFunc(passed, gone), failures
	if len(failures) >= max(1, s.Policy.StopAfter) {
		s.state.Halted = s.Now
	}
	for _, t := range trials {
		s.out.Trial[t.ID] = true
	}
}

// try examines one new machine. why is not empty if it failed. over is set if its trial is.
func (s *step) try(m *Machine, t *api.RotationTrial) (why string, over bool) {
	gate := s.Policy.Gate
	switch {
	case m.Leaves == api.DrainRepair || m.Leaves == api.DrainOrphan:
		return "it leaves: " + string(m.Leaves), true
	case m.Leaves != "":
		return "", true
	case m.Starting:
		return "", false
	case !m.Joined && !m.Silent:
		if age := s.Now.Sub(m.Launched); gate.Within > 0 && age > gate.Within {
			return fmt.Sprintf("its node has not joined within %v", gate.Within), true
		}
		return "", false
	}
	unfit := m.Unfit
	if m.Silent {
		unfit = "its node is silent"
	}
	if t.Since.IsZero() || t.Fit != (unfit == "") || t.Since.After(s.Clock) {
		t.Fit, t.Since = unfit == "", s.Clock
		return "", t.Fit && gate.Wait <= 0
	}
	switch long := s.Clock.Sub(t.Since) >= gate.Wait; {
	case long && t.Fit:
		return "", true
	case long:
		return unfit, true
	}
	return "", false
}

// refuse refuses the rules that match a new machine, because their machines would be replaced again and again.
func (s *step) refuse() {
	for i := range s.Rules {
		r, of := &s.Rules[i], &s.rules[i]
		for k := range s.Machines {
			m := &s.Machines[k]
			late := !m.Launched.Before(s.state.Since) && (r.Before.IsZero() || !m.Launched.Before(r.Before))
			if of.Left == 0 || of.Refused != "" || !late || !(m.Joined || m.Silent) || r.Group != "" && r.Group != m.Group || !r.When.matchesNew(SubjectOf(s.Now, m.Instance)) {
				continue
			}
			of.Refused = fmt.Sprintf("the new machine %s matches %s too: a replacement changes nothing; correct the condition or what the group launches", m.ID, r.Where)
			s.state.Refused = maps.Clone(s.state.Refused)
			if s.state.Refused == nil {
				s.state.Refused = map[string]string{}
			}
			s.state.Refused[r.key()] = of.Refused
		}
	}
	maps.DeleteFunc(s.matched, func(_ string, rule int) bool { return s.rules[rule].Refused != "" })
	s.left = len(s.matched)
}

// mark marks the machines to replace, and bounds how many may be replaced now.
func (s *step) mark() {
	out := &api.Rotation{Rules: s.rules, Left: s.left, Replaced: s.state.Replaced, Trials: len(s.state.Trials)}
	s.out.Rotation = out
	if !s.state.Halted.IsZero() {
		out.Halted = s.haltText()
		return
	}
	heaviest := map[string]int{}
	for k := range s.Machines {
		m := &s.Machines[k]
		rule, is := s.matched[m.ID]
		if !is {
			continue
		}
		waits := m.Kept || s.rules[rule].Waits != ""
		s.out.Marked[m.ID] = waits
		heaviest[m.Group] = max(heaviest[m.Group], machineWeight(m.Weight))
	}
	under := 0
	for group, weight := range s.Ordered {
		one := max(1, heaviest[group])
		under += (weight + one - 1) / one
	}
	out.Begin, out.End = s.bounds(under)
	if len(s.state.Trials) > 0 {
		out.Waits = s.trialText()
	}
}

// haltText returns "the new machine a-7 failed its health gate: ..., so no machine is replaced; ...".
func (s *step) haltText() string {
	last := s.state.Failed[len(s.state.Failed)-1]
	text := "the new machine " + last.ID
	if n := len(s.state.Failed); n > 1 {
		text = fmt.Sprintf("%d new machines failed, the last one is %s. It", n, last.ID)
	}
	return text + " failed its health gate: " + last.Why + "; no machine is replaced until \"weir pool rotate --resume\""
}

// machineWeight returns the weight of a machine as a part of a target.
func machineWeight(w float64) int {
	const most = 1 << 40
	return int(max(1, min(w, most)))
}

// bounds returns how many more machines may get a replacement, and how many may leave. under have one that has replaced nothing.
func (s *step) bounds(under int) (begin, end *int) {
	narrow := func(n int) {
		if n = max(0, n); begin == nil || n < *begin {
			begin = &n
		}
	}
	if !s.state.Proven {
		narrow(1 - under)
	}
	if s.Limit > 0 {
		narrow(s.Limit - under)
	}
	ended := 0
	s.state.Ended = slices.DeleteFunc(slices.Clone(s.state.Ended), func(e api.RotationEnd) bool { return s.Clock.Sub(e.At) >= s.Policy.Rate.Within })
	for _, e := range s.state.Ended {
		ended += e.Machines
	}
	if most := s.Policy.Rate.Machines; most > 0 {
		narrow(most - ended - under)
		end = new(max(0, most-ended))
	}
	return begin, end
}

// trialText returns "1 new machine must be fit for 10m0s, a-7 first".
func (s *step) trialText() string {
	n, machines := len(s.state.Trials), "new machine"
	if n > 1 {
		machines += "s"
	}
	return fmt.Sprintf("%d %s must be fit for %v before the next one leaves, %s first", n, machines, s.Policy.Gate.Wait, s.state.Trials[0].ID)
}
