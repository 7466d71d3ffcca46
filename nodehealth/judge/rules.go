package judge

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirkeeper/weirkeeper/api"
)

// rules is the parsed form of a policy, with all defaults.
type rules struct {
	enabled, observe bool
	mode             api.PolicyMode

	interval, grace, startup, tolerate, noData time.Duration

	conditional Conditional
	quorum      int
	modes       []modeRule
	beat        int // index of AGENT_HEARTBEAT, -1 without
	beatEvery   time.Duration
	silence     time.Duration // heartbeat silence after which a node fails

	actions      []Action
	fencing      []Level
	mustFence    bool // a replacement waits for the confirmation of the fencing
	exclusive    bool
	fenceTimeout time.Duration
	healthyFor   time.Duration

	unhealthy, zone, inProgress, available, recovered Limit
	perHour                                           float64
	burst                                             float64
	backoff, backoffMax                               time.Duration
	factor                                            float64
	repairs, trips                                    int
	window, recoveredFor                              time.Duration
	freezes                                           []freeze
	reasons                                           map[string]reasonRule
}

// modeRule is the parsed form of one mode.
type modeRule struct {
	ModeKind
	failures, successes int
	window, within      int           // failures within that window; 0: only in a row
	stale               time.Duration // 0: the silence
}

// compile returns the rules of a valid policy with its defaults.
func compile(p Policy) *rules {
	d, rec, s := p.Detection, p.Recovery, p.Safety
	r := &rules{
		enabled: *p.Enabled, observe: p.Mode != api.ModeAct, mode: p.Mode,
		interval: time.Duration(*d.Interval), grace: time.Duration(*d.NodeUpdateTimeout), startup: time.Duration(*d.NodeStartupTimeout),
		tolerate: time.Duration(*d.Tolerate), noData: time.Duration(*d.UnknownAlarm),
		conditional: d.Conditional, beat: -1,
		actions: rec.Actions, fencing: rec.Fencing, mustFence: p.Exclusive || *rec.FencingOptions.Require, exclusive: p.Exclusive,
		fenceTimeout: time.Duration(*rec.FencingOptions.Timeout), healthyFor: time.Duration(*rec.Verify.HealthyFor),
		unhealthy: *s.MaxUnhealthy, zone: *s.MaxUnhealthyZone, inProgress: *s.MaxInProgress, available: *s.MinAvailable, recovered: *s.TripReset.HealthyBelow,
		perHour: float64(*s.Rate.PerHour), burst: float64(*s.Rate.Burst),
		backoff: time.Duration(*s.Backoff.Initial), backoffMax: time.Duration(*s.Backoff.Max), factor: *s.Backoff.Factor,
		repairs: *s.MaxAttempts, trips: *s.TripReset.ManualAfter,
		window: time.Duration(*s.Window), recoveredFor: time.Duration(*s.TripReset.For),
	}
	r.reasons = reasonRules(p)
	if d.Quorum != nil {
		r.quorum = *d.Quorum
	}
	for i, m := range d.Modes {
		r.modes = append(r.modes, ruleOf(m))
		if m.Type == api.DetectAgentHeartbeat {
			r.beat, r.beatEvery = i, time.Duration(*m.Options.ExpectedInterval)
			r.silence = r.beatEvery * time.Duration(*m.Options.Miss)
		}
	}
	for _, f := range s.Schedule {
		c, _ := parseCron(f.Cron) // Validate has checked it
		r.freezes = append(r.freezes, freeze{c, time.Duration(f.Duration)})
	}
	return r
}

func ruleOf(m DetectionMode) modeRule {
	rule := modeRule{
		failures: *m.Options.FailureThreshold, successes: *m.Options.SuccessThreshold,
		ModeKind: KindOfMode(m.Type),
	}
	if m.Options.FailureWindow != nil {
		rule.window, rule.within = *m.Options.FailureWindow, *m.Options.WindowFailures
	}
	if m.Options.StaleAfter != nil {
		rule.stale = time.Duration(*m.Options.StaleAfter)
	}
	return rule
}

func (r *rules) modeIndex(t api.DetectionType) int {
	return slices.IndexFunc(r.modes, func(m modeRule) bool { return m.Type == t })
}

// WithDefaults returns a copy with the default for every absent key. It also normalizes "AT_LEAST
// 2", "enforce" and the case of a REBOOT's type.
func (p Policy) WithDefaults() Policy {
	fill(&p.Enabled, true)
	p.Mode = orElse(p.Mode, api.ModeObserve)
	if p.Mode == "enforce" {
		p.Mode = api.ModeAct
	}
	p.Owner = orElse(p.Owner, api.OwnerSelf)
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

func (o Options) withDefaults(t api.DetectionType, interval Duration) Options {
	threshold := 2
	k := KindOfMode(t)
	if k.hint {
		threshold = 1
	}
	if k.uses("interval") {
		fill(&o.Interval, interval)
	}
	if k.fill != nil {
		k.fill(&o)
	}
	if o.Interval != nil {
		interval = *o.Interval
	}
	fill(&o.FailureThreshold, threshold)
	fill(&o.SuccessThreshold, threshold)
	if k.uses("failure_window") {
		fill(&o.FailureWindow, 10)
		fill(&o.WindowFailures, max(1, (*o.FailureWindow+1)/2))
	}
	if k.uses("stale_after") {
		fill(&o.StaleAfter, 3*interval)
	}
	return o
}

func (r Recovery) withDefaults(exclusive bool) Recovery {
	r.Actions = slices.Clone(r.Actions)
	if len(r.Actions) == 0 {
		r.Actions = []Action{{Name: api.ActionRecreate}}
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
	timeout := map[api.RepairAction]Duration{api.ActionStart: seconds(300), api.ActionReboot: seconds(240), api.ActionRebuild: seconds(900), api.ActionRecreate: seconds(900)}
	fill(&a.Timeout, orElse(timeout[a.Name], seconds(600)))
	fill(&a.MaxAttempts, 1)
	switch a.Name {
	case api.ActionReboot:
		a.Params.Type = orElse(strings.ToLower(a.Params.Type), "soft")
	case api.ActionRecreate:
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
