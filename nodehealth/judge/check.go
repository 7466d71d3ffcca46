package judge

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/resource"
)

// Validate returns all mistakes of p, joined, each a [Problem], or nil. Absent keys count as their
// defaults.
func (p Policy) Validate() error {
	p = p.WithDefaults()
	var ps problems
	oneOf(&ps, "mode", p.Mode, api.ModeObserve, api.ModeAct)
	oneOf(&ps, "owner", p.Owner, api.OwnerSelf, api.OwnerProvider)
	p.Detection.check(&ps, p.Exclusive)
	p.Recovery.check(&ps, p)
	p.Safety.check(&ps)
	p.checkReasons(&ps)
	p.checkUsed(&ps)
	p.checkAvailable(&ps)
	return errors.Join(ps...)
}

// Abilities is what a provider can do.
type Abilities struct {
	Actions    []api.RepairAction
	Modes      []api.DetectionType
	Fencing    []Level
	OwnsRepair bool // it can replace unhealthy machines by itself
}

// Fits returns each requirement of p that the abilities do not cover, joined, each a [Problem].
func (p Policy) Fits(can Abilities) error {
	p = p.WithDefaults()
	var ps problems
	if p.Owner == api.OwnerProvider && !can.OwnsRepair {
		ps.add("owner", "is %s, but the pool's provider does not replace machines: want %s", p.Owner, api.OwnerSelf)
	}
	for i, m := range p.Detection.Modes {
		needs(&ps, fmt.Sprintf("detection.detection_modes[%d].type", i), m.Type, can.Modes)
	}
	for i, a := range p.Recovery.Actions {
		needs(&ps, fmt.Sprintf("recovery.actions[%d].name", i), a.Name, can.Actions)
	}
	for i, l := range p.Recovery.Fencing {
		needs(&ps, fmt.Sprintf("recovery.fencing[%d]", i), l, can.Fencing)
	}
	return errors.Join(ps...)
}

func needs[T ~string](ps *problems, path string, value T, can []T) {
	if !slices.Contains(can, value) {
		ps.add(path, "is %s, which the provider of this pool does not support: want %s", value, listed(can))
	}
}

// Warnings returns settings that are valid but rarely intended.
func (p Policy) Warnings() []*Problem {
	var out []*Problem
	if len(p.Detection.Modes) == 1 && p.Detection.Modes[0].Type == api.DetectLifecycleEvents {
		out = append(out, &Problem{"detection.detection_modes", "is LIFECYCLE_EVENTS alone: a failure without an event is never found; add NODE_STATUS_POLLING"})
	}
	return append(out, p.neverFit()...)
}

// neverFit returns the actions that fit no machine that the modes can find.
func (p Policy) neverFit() []*Problem {
	for _, m := range p.Detection.Modes {
		if m.Type != api.DetectLifecycleEvents {
			return nil
		}
	}
	var out []*Problem
	for i, a := range p.WithDefaults().Recovery.Actions {
		if !a.canHelp(Stopped) && !a.canHelp(Terminated) && !a.canHelp(Spot) {
			out = append(out, &Problem{fmt.Sprintf("recovery.actions[%d].name", i), fmt.Sprintf("is %s, and LIFECYCLE_EVENTS finds machines that are stopped, "+
				"terminated or reclaimed (Spot): the action never fits; add NODE_STATUS_POLLING, or use RECREATE", a.Name)})
		}
	}
	return out
}

func (d Detection) check(ps *problems, exclusive bool) {
	within(ps, "detection.interval", d.Interval, 5*time.Second, time.Hour)
	within(ps, "detection.node_update_timeout", d.NodeUpdateTimeout, 0, longest)
	within(ps, "detection.node_startup_timeout", d.NodeStartupTimeout, time.Duration(*d.NodeUpdateTimeout), longest)
	within(ps, "detection.tolerate", d.Tolerate, time.Duration(*d.Interval), longest)
	within(ps, "detection.unknown_alarm", d.UnknownAlarm, time.Second, longest)
	votes := d.checkModes(ps, exclusive)
	switch {
	case strings.HasPrefix(string(d.Conditional), string(AtLeast)+" "):
		ps.add("detection.recovery_conditional", "is %q: want AT_LEAST and a number, without quorum", d.Conditional)
	case !oneOf(ps, "detection.recovery_conditional", d.Conditional, AnyFailed, AllFailed, AtLeast):
	case d.Conditional != AtLeast && d.Quorum != nil:
		ps.add("detection.quorum", "is used by AT_LEAST only, and recovery_conditional is %s: remove it", d.Conditional)
	case d.Conditional == AtLeast && (d.Quorum == nil || *d.Quorum < 1 || *d.Quorum > votes):
		ps.add("detection.quorum", "is %s: want 1 to %d, the number of modes that vote", text(d.Quorum), votes)
	}
}

// checkModes checks the modes and returns how many of them vote.
func (d Detection) checkModes(ps *problems, exclusive bool) (votes int) {
	if len(d.Modes) == 0 {
		ps.add("detection.detection_modes", "is missing: want at least one of %s", listed(ModeTypes()))
	}
	seen := map[api.DetectionType]int{}
	for i, m := range d.Modes {
		at := fmt.Sprintf("detection.detection_modes[%d]", i)
		if first, twice := seen[m.Type]; twice {
			ps.add(at+".type", "is %s, the same as detection_modes[%d]: want each type once", m.Type, first)
			continue
		}
		seen[m.Type] = i
		if !KindOfMode(m.Type).hint {
			votes++
		}
		if oneOf(ps, at+".type", m.Type, ModeTypes()...) {
			m.Options.check(ps, at+".options", m.Type, exclusive)
			if m.Options.Interval != nil && *m.Options.Interval != *d.Interval {
				within(ps, at+".options.interval", m.Options.Interval, 5*time.Second, time.Hour)
			}
		}
	}
	return votes
}

// key is a key that some users read, and whether the policy has it.
type key struct {
	name  string
	given bool
	users []string
}

func unused(ps *problems, path, user string, keys []key) {
	for _, k := range keys {
		if !k.given || slices.Contains(k.users, user) {
			continue
		}
		ps.add(path+"."+k.name, "is not used by %s, only by %s: remove it", user, strings.Join(k.users, ", "))
	}
}

func (o Options) check(ps *problems, path string, t api.DetectionType, exclusive bool) {
	keys := []key{
		{name: "interval", given: o.Interval != nil},
		{name: "failure_window", given: o.FailureWindow != nil},
		{name: "window_failures", given: o.WindowFailures != nil},
		{name: "stale_after", given: o.StaleAfter != nil},
		{name: "expected_interval", given: o.ExpectedInterval != nil},
		{name: "miss", given: o.Miss != nil},
		{name: "self_fence_after", given: o.SelfFenceAfter != nil},
		{name: "poll_url", given: o.PollURL != ""},
		{name: "poll_url_ssl_verify", given: o.PollVerify != nil},
		{name: "poll_url_conn_error_as_unhealthy", given: o.PollErrorAsUnhealthy != nil},
		{name: "poll_url_healthy_response", given: o.PollHealthyResponse != ""},
		{name: "poll_url_retry_limit", given: o.PollRetryLimit != nil},
		{name: "poll_url_retry_interval", given: o.PollRetryInterval != nil},
		{name: "poll_url_timeout", given: o.PollTimeout != nil},
		{name: "target_groups", given: len(o.TargetGroups) > 0},
		{name: "queue", given: o.Queue != ""},
	}
	for i := range keys {
		keys[i].users = usersOf(keys[i].name)
	}
	unused(ps, path, string(t), keys)
	if n, k := o.FailureWindow, o.WindowFailures; n != nil && k != nil {
		if *n < 0 || *n > maxWindow {
			ps.add(path+".failure_window", "is %d: want 0 to %d", *n, maxWindow)
		} else {
			count(ps, path+".window_failures", k, max(1, *n))
		}
	}
	count(ps, path+".failure_threshold", o.FailureThreshold, 100)
	count(ps, path+".success_threshold", o.SuccessThreshold, 100)
	if o.Interval != nil {
		within(ps, path+".stale_after", o.StaleAfter, time.Duration(*o.Interval), longest)
	}
	if check := KindOfMode(t).check; check != nil {
		check(o, ps, path, exclusive)
	}
}

func (o Options) checkBeat(ps *problems, path string, exclusive bool) {
	within(ps, path+".expected_interval", o.ExpectedInterval, time.Second, time.Hour)
	if *o.Miss < 2 || *o.Miss > 100 {
		ps.add(path+".miss", "is %d: want 2 to 100", *o.Miss)
	}
	if o.SelfFenceAfter == nil {
		return
	}
	if !exclusive {
		ps.add(path+".self_fence_after", "is for exclusive pools only: remove it, or set exclusive")
	}
	within(ps, path+".self_fence_after", o.SelfFenceAfter, time.Duration(*o.Miss)*time.Duration(*o.ExpectedInterval), longest)
}

func (o Options) checkURL(ps *problems, path string) {
	if !strings.HasPrefix(o.PollURL, "http://") && !strings.HasPrefix(o.PollURL, "https://") {
		ps.add(path+".poll_url", "is %q: want a URL with http or https", o.PollURL)
	}
	count(ps, path+".poll_url_retry_limit", o.PollRetryLimit, 20)
	within(ps, path+".poll_url_retry_interval", o.PollRetryInterval, 0, time.Hour)
	within(ps, path+".poll_url_timeout", o.PollTimeout, 100*time.Millisecond, time.Minute)
}

// within checks a duration if it is present.
func within(ps *problems, path string, d *Duration, least, most time.Duration) {
	if d == nil || time.Duration(*d) >= least && time.Duration(*d) <= most {
		return
	}
	ps.add(path, "is %v: want %v to %v", *d, least, most)
}

func count(ps *problems, path string, n *int, most int) {
	if *n < 1 || *n > most {
		ps.add(path, "is %d: want 1 to %d", *n, most)
	}
}

func oneOf[T ~string](ps *problems, path string, value T, allowed ...T) bool {
	if slices.Contains(allowed, value) {
		return true
	}
	ps.add(path, "is %q: want %s", value, listed(allowed))
	return false
}

func listed[T ~string](values []T) string {
	if len(values) == 0 {
		return "none"
	}
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	return strings.Join(names, ", ")
}

func text(n *int) string {
	if n == nil {
		return "missing"
	}
	return fmt.Sprint(*n)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func (r Recovery) check(ps *problems, p Policy) {
	for i, a := range r.Actions {
		at := fmt.Sprintf("recovery.actions[%d]", i)
		if oneOf(ps, at+".name", a.Name, api.ActionStart, api.ActionReboot, api.ActionRebuild, api.ActionRecreate, api.ActionWorkflow) {
			a.Params.check(ps, at+".params", a.Name)
		}
		if p.Owner == api.OwnerProvider && a.Name != api.ActionRecreate && a.Name != api.ActionWorkflow {
			ps.add(at+".name", "is %s, but the owner is %s: want RECREATE or WORKFLOW", a.Name, p.Owner)
		}
		within(ps, at+".timeout", a.Timeout, time.Second, 24*time.Hour)
		count(ps, at+".max_attempts", a.MaxAttempts, 10)
	}
	for i, l := range r.Fencing {
		at := fmt.Sprintf("recovery.fencing[%d]", i)
		if oneOf(ps, at, l, FenceService, FenceTraffic, FenceNetwork, FenceCompute) && slices.Index(r.Fencing, l) != i {
			ps.add(at, "is %s a second time: remove it", l)
		}
	}
	within(ps, "recovery.fencing_options.timeout", r.FencingOptions.Timeout, time.Second, 24*time.Hour)
	within(ps, "recovery.node_delete_timeout", r.NodeDeleteTimeout, time.Second, 24*time.Hour)
	within(ps, "recovery.verify.healthy_for", r.Verify.HealthyFor, 0, 24*time.Hour)
	if p.Exclusive {
		r.checkExclusive(ps)
	}
}

// replaces reports whether an action replaces machines.
func (r Recovery) replaces() bool {
	return slices.ContainsFunc(r.Actions, func(a Action) bool { return a.Name == api.ActionRecreate })
}

// checkAvailable reports actions that take a machine out of service in a policy that forbids it.
func (p Policy) checkAvailable(ps *problems) {
	all := p.Safety.MinAvailable
	if !all.Percent || all.Value < 100 {
		return
	}
	for i, a := range p.Recovery.Actions {
		if a.Name == api.ActionRecreate && !*a.Params.LaunchFirst {
			ps.add("safety.min_available", "is 100%%, and recovery.actions[%d] ends a machine before its replacement joins (launch_first: false): "+
				"want less, such as 80%%, or launch_first: true", i)
		}
	}
}

// checkUsed reports keys that differ from their defaults and that the policy does not use.
func (p Policy) checkUsed(ps *problems) {
	r, def := p.Recovery, Recovery{}.withDefaults(p.Exclusive)
	options, usual := r.FencingOptions, def.FencingOptions
	for _, k := range []key{
		{name: "fencing", given: len(r.Fencing) > 0},
		{name: "fencing_options", given: *options.Require != *usual.Require || *options.Timeout != *usual.Timeout},
		{name: "node_delete_timeout", given: *r.NodeDeleteTimeout != *def.NodeDeleteTimeout},
		{name: "node_force_recreate", given: r.NodeForceRecreate},
	} {
		if k.given && !r.replaces() {
			ps.add("recovery."+k.name, "is used by RECREATE only, which is not among the actions: remove it")
		}
	}
	startup := max(seconds(600), *p.Detection.NodeUpdateTimeout)
	if _, beats := p.Detection.Mode(api.DetectAgentHeartbeat); !beats && *p.Detection.NodeStartupTimeout != startup {
		ps.add("detection.node_startup_timeout", "is used by AGENT_HEARTBEAT only, which is not among the detection_modes: remove it")
	}
}

func (r Recovery) checkExclusive(ps *problems) {
	if r.replaces() && !slices.Contains(r.Fencing, FenceCompute) {
		ps.add("recovery.fencing", "has no COMPUTE, but the pool is exclusive: add it")
	}
	if !*r.FencingOptions.Require {
		ps.add("recovery.fencing_options.require", "is false, but the pool is exclusive: want true")
	}
	if r.NodeForceRecreate {
		ps.add("recovery.node_force_recreate", "is true, but the pool is exclusive: want false")
	}
}

func (q Params) check(ps *problems, path string, name api.RepairAction) {
	workflow := []string{string(api.ActionWorkflow)}
	unused(ps, path, string(name), []key{
		{"type", q.Type != "", []string{string(api.ActionReboot)}},
		{"image", q.Image != "", []string{string(api.ActionRebuild)}},
		{"launch_first", q.LaunchFirst != nil, []string{string(api.ActionRecreate)}},
		{"kind", q.Kind != "", workflow},
		{"argv", len(q.Argv) > 0, workflow},
		{"url", q.URL != "", workflow},
		{"subject", q.Subject != "", workflow},
		{"secret_file", q.SecretFile != "", workflow},
		{"input", len(q.Input) > 0, workflow},
	})
	switch name {
	case api.ActionReboot:
		oneOf(ps, path+".type", q.Type, "soft", "hard")
	case api.ActionWorkflow:
		q.checkWorkflow(ps, path)
	}
}

// WorkflowKind describes the params of one kind of workflow.
type WorkflowKind struct {
	Name   string
	params []string // keys that it uses, in addition to kind and input
	// check returns the wrong key and the mistake, or two empty strings for valid params.
	check func(q Params) (key, what string)
}

// WorkflowKinds returns the kinds of workflows, in the order in which errors list them.
// Package nodehealth/workflow runs each of them.
func WorkflowKinds() []WorkflowKind {
	return []WorkflowKind{
		{"command", []string{"argv"}, func(q Params) (key, what string) {
			if len(q.Argv) == 0 || q.Argv[0] == "" {
				return "argv", "is missing: want the program and its arguments"
			}
			return "", ""
		}},
		{"webhook", []string{"url", "secret_file"}, func(q Params) (key, what string) {
			if !strings.HasPrefix(q.URL, "http://") && !strings.HasPrefix(q.URL, "https://") {
				return "url", fmt.Sprintf("is %q: want a URL with http or https", q.URL)
			}
			return "", ""
		}},
		{"nats", []string{"subject"}, func(q Params) (key, what string) {
			if q.Subject == "" {
				return "subject", "is missing: want the subject of the request"
			}
			return "", ""
		}},
	}
}

func (q Params) checkWorkflow(ps *problems, path string) {
	kinds := WorkflowKinds()
	names := make([]string, len(kinds))
	keys := []key{
		{name: "argv", given: len(q.Argv) > 0}, {name: "url", given: q.URL != ""},
		{name: "secret_file", given: q.SecretFile != ""}, {name: "subject", given: q.Subject != ""},
	}
	for i, k := range kinds {
		names[i] = k.Name
		for j := range keys {
			if slices.Contains(k.params, keys[j].name) {
				keys[j].users = append(keys[j].users, k.Name)
			}
		}
	}
	if !oneOf(ps, path+".kind", q.Kind, names...) {
		return
	}
	unused(ps, path, q.Kind, keys)
	if key, what := kinds[slices.Index(names, q.Kind)].check(q); what != "" {
		ps.add(path+"."+key, "%s", what)
	}
}

func (s Safety) check(ps *problems) {
	for _, l := range []struct {
		name  string
		limit *Limit
	}{
		{"max_unhealthy", s.MaxUnhealthy}, {"max_unhealthy_zone", s.MaxUnhealthyZone},
		{"max_in_progress", s.MaxInProgress}, {"trip_reset.healthy_below", s.TripReset.HealthyBelow},
	} {
		if !l.limit.sane() || l.limit.Value == 0 {
			ps.add("safety."+l.name, "is %v: want a number of nodes of at least 1, or more than 0%% and at most 100%%; to repair nothing, set mode: observe", *l.limit)
		}
	}
	if !s.MinAvailable.sane() {
		ps.add("safety.min_available", "is %v: want a number of nodes, or 0%% to 100%%", *s.MinAvailable)
	}
	count(ps, "safety.rate.per_hour", s.Rate.PerHour, 3600)
	count(ps, "safety.rate.burst", s.Rate.Burst, 1000)
	count(ps, "safety.max_attempts", s.MaxAttempts, 100)
	count(ps, "safety.trip_reset.manual_after", s.TripReset.ManualAfter, 100)
	within(ps, "safety.window", s.Window, time.Minute, longest)
	within(ps, "safety.trip_reset.for", s.TripReset.For, 0, 24*time.Hour)
	within(ps, "safety.backoff.initial", s.Backoff.Initial, 0, 24*time.Hour)
	within(ps, "safety.backoff.max", s.Backoff.Max, time.Duration(*s.Backoff.Initial), 24*time.Hour)
	if f := *s.Backoff.Factor; !finite(f) || f < 1 || f > 10 {
		ps.add("safety.backoff.factor", "is %v: want 1 to 10", f)
	}
	for i, f := range s.Schedule {
		at := fmt.Sprintf("safety.schedule[%d]", i)
		if _, err := parseCron(f.Cron); err != nil {
			ps.add(at+".cron", "is %q: %v", f.Cron, err)
		}
		within(ps, at+".duration", &f.Duration, time.Minute, 24*time.Hour)
	}
}

// minimum returns the minimum of nodes in service, of total nodes.
func (l Limit) minimum(total int) int {
	if l.Percent {
		return int(resource.Ceil(l.Value * float64(total) / 100))
	}
	return int(l.Value)
}
