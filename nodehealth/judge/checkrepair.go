package judge

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

func (r Recovery) check(ps *problems, p Policy) {
	for i, a := range r.Actions {
		at := fmt.Sprintf("recovery.actions[%d]", i)
		if oneOf(ps, at+".name", a.Name, Start, Reboot, Rebuild, Recreate, Workflow) {
			a.Params.check(ps, at+".params", a.Name)
		}
		if p.Owner == OwnerASG && a.Name != Recreate && a.Name != Workflow {
			ps.add(at+".name", "is %s, and the owner is asg: want RECREATE or WORKFLOW", a.Name)
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

// replaces reports whether machines are replaced.
func (r Recovery) replaces() bool {
	return slices.ContainsFunc(r.Actions, func(a Action) bool { return a.Name == Recreate })
}

// checkUsed finds keys that are not their defaults, and that nothing of the policy reads.
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
	if _, beats := p.Detection.Mode(AgentHeartbeat); !beats && *p.Detection.NodeStartupTimeout != startup {
		ps.add("detection.node_startup_timeout", "is used by AGENT_HEARTBEAT only, which is not among the detection_modes: remove it")
	}
}

func (r Recovery) checkExclusive(ps *problems) {
	if r.replaces() && !slices.Contains(r.Fencing, FenceCompute) {
		ps.add("recovery.fencing", "has no COMPUTE, and the pool is exclusive: add it")
	}
	if !*r.FencingOptions.Require {
		ps.add("recovery.fencing_options.require", "is false, and the pool is exclusive: want true")
	}
	if r.NodeForceRecreate {
		ps.add("recovery.node_force_recreate", "is true, and the pool is exclusive: want false")
	}
}

func (q Params) check(ps *problems, path string, name ActionName) {
	workflow := []string{string(Workflow)}
	unused(ps, path, string(name), []key{
		{"type", q.Type != "", []string{string(Reboot)}},
		{"image", q.Image != "", []string{string(Rebuild)}},
		{"launch_first", q.LaunchFirst != nil, []string{string(Recreate)}},
		{"kind", q.Kind != "", workflow},
		{"argv", len(q.Argv) > 0, workflow},
		{"url", q.URL != "", workflow},
		{"subject", q.Subject != "", workflow},
		{"secret_file", q.SecretFile != "", workflow},
		{"input", len(q.Input) > 0, workflow},
	})
	switch name {
	case Reboot:
		oneOf(ps, path+".type", q.Type, "soft", "hard")
	case Workflow:
		q.checkWorkflow(ps, path)
	}
}

func (q Params) checkWorkflow(ps *problems, path string) {
	if !oneOf(ps, path+".kind", q.Kind, "command", "webhook", "nats") {
		return
	}
	unused(ps, path, q.Kind, []key{
		{"argv", len(q.Argv) > 0, []string{"command"}},
		{"url", q.URL != "", []string{"webhook"}},
		{"secret_file", q.SecretFile != "", []string{"webhook"}},
		{"subject", q.Subject != "", []string{"nats"}},
	})
	switch {
	case q.Kind == "command" && (len(q.Argv) == 0 || q.Argv[0] == ""):
		ps.add(path+".argv", "is missing: want the program and its arguments")
	case q.Kind == "webhook" && !strings.HasPrefix(q.URL, "http://") && !strings.HasPrefix(q.URL, "https://"):
		ps.add(path+".url", "is %q: want a URL with http or https", q.URL)
	case q.Kind == "nats" && q.Subject == "":
		ps.add(path+".subject", "is missing: want the subject of the request")
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

// keep returns how many of so many stay in service at least.
func (l Limit) keep(total int) int {
	if l.Percent {
		return int(math.Ceil(l.Value*float64(total)/100 - 1e-9))
	}
	return int(l.Value)
}
