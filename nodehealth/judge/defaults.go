package judge

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// WithDefaults returns a copy in which every absent key has its default, and "AT_LEAST
// 2", "enforce" and the letters of a REBOOT's type are written in one way.
func (p Policy) WithDefaults() Policy {
	fill(&p.Enabled, true)
	p.Mode = orElse(p.Mode, Observe)
	if p.Mode == "enforce" {
		p.Mode = Act
	}
	p.Owner = orElse(p.Owner, OwnerSelf)
	p.Detection = p.Detection.withDefaults()
	p.Recovery = p.Recovery.withDefaults(p.Exclusive)
	p.Safety = p.Safety.withDefaults()
	return p
}

func (d Detection) withDefaults() Detection {
	fill(&d.Interval, seconds(30))
	fill(&d.NodeUpdateTimeout, seconds(300))
	fill(&d.NodeStartupTimeout, max(seconds(600), *d.NodeUpdateTimeout))
	fill(&d.Tolerate, *d.Interval)
	fill(&d.UnknownAlarm, seconds(600))
	d.Conditional = orElse(d.Conditional, AnyFailed)
	if k, ok := strings.CutPrefix(string(d.Conditional), string(AtLeast)+" "); ok && d.Quorum == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(k)); err == nil {
			d.Conditional, d.Quorum = AtLeast, &n
		}
	}
	d.Modes = slices.Clone(d.Modes)
	for i := range d.Modes {
		d.Modes[i].Options = d.Modes[i].Options.withDefaults(d.Modes[i].Type, *d.Interval)
	}
	return d
}

func (o Options) withDefaults(t ModeType, interval Duration) Options {
	threshold := 2
	switch t {
	case AgentHeartbeat:
		fill(&o.ExpectedInterval, seconds(5))
		fill(&o.Miss, 6)
		interval = *o.ExpectedInterval
	case LifecycleEvents:
		threshold = 1
	case PollURL:
		fill(&o.Interval, interval)
		fill(&o.PollVerify, true)
		fill(&o.PollErrorAsUnhealthy, true)
		fill(&o.PollRetryLimit, 3)
		fill(&o.PollRetryInterval, seconds(3))
		fill(&o.PollTimeout, seconds(2))
	default:
		fill(&o.Interval, interval)
	}
	if o.Interval != nil {
		interval = *o.Interval
	}
	fill(&o.FailureThreshold, threshold)
	fill(&o.SuccessThreshold, threshold)
	if t != AgentHeartbeat {
		fill(&o.StaleAfter, 3*interval)
	}
	return o
}

func (r Recovery) withDefaults(exclusive bool) Recovery {
	r.Actions = slices.Clone(r.Actions)
	if len(r.Actions) == 0 {
		r.Actions = []Action{{Name: Recreate}}
	}
	for i := range r.Actions {
		r.Actions[i] = r.Actions[i].withDefaults(exclusive)
	}
	fill(&r.FencingOptions.Require, true)
	fill(&r.FencingOptions.Timeout, seconds(180))
	fill(&r.NodeDeleteTimeout, seconds(180))
	fill(&r.Verify.HealthyFor, seconds(120))
	return r
}

func (a Action) withDefaults(exclusive bool) Action {
	timeout := map[ActionName]Duration{Start: seconds(300), Reboot: seconds(240), Rebuild: seconds(900), Recreate: seconds(900)}
	fill(&a.Timeout, orElse(timeout[a.Name], seconds(600)))
	fill(&a.MaxAttempts, 1)
	switch a.Name {
	case Reboot:
		a.Params.Type = orElse(strings.ToLower(a.Params.Type), "soft")
	case Recreate:
		fill(&a.Params.LaunchFirst, !exclusive)
	}
	return a
}

func (s Safety) withDefaults() Safety {
	fill(&s.MaxUnhealthy, Limit{20, true})
	fill(&s.MaxUnhealthyZone, Limit{50, true})
	fill(&s.MaxInProgress, Limit{1, false})
	fill(&s.Rate.PerHour, 6)
	fill(&s.Rate.Burst, 2)
	fill(&s.Backoff.Initial, seconds(60))
	fill(&s.Backoff.Factor, 2)
	fill(&s.Backoff.Max, max(seconds(3600), *s.Backoff.Initial))
	fill(&s.MaxAttempts, 3)
	fill(&s.Window, Duration(6*time.Hour))
	fill(&s.MinAvailable, Limit{80, true})
	fill(&s.TripReset.HealthyBelow, Limit{10, true})
	fill(&s.TripReset.For, seconds(300))
	fill(&s.TripReset.ManualAfter, 3)
	return s
}

// fill sets a key that is absent.
func fill[T any](key **T, value T) {
	if *key == nil {
		*key = &value
	}
}

func orElse[T comparable](value, def T) T {
	var absent T
	if value == absent {
		return def
	}
	return value
}

func seconds(n int) Duration { return Duration(n) * Duration(time.Second) }
