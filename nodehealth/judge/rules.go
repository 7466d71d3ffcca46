package judge

import (
	"slices"
	"time"
)

// rules is a policy as the Judge reads it: everything given, everything parsed.
type rules struct {
	enabled, observe bool
	mode             Mode

	interval, grace, startup, tolerate, blind time.Duration

	conditional Conditional
	quorum      int
	modes       []modeRule
	beat        int // index of AGENT_HEARTBEAT, -1 without
	beatEvery   time.Duration
	silence     time.Duration // of a node that failed by it

	actions      []Action
	fencing      []Level
	mustFence    bool // a replacement waits for the confirmation
	exclusive    bool
	fenceTimeout time.Duration
	healthyFor   time.Duration

	sick, zone, inProgress, available, healed Limit
	perHour                                   float64
	burst                                     float64
	backoff, backoffMax                       time.Duration
	factor                                    float64
	repairs, trips                            int
	window, healedFor                         time.Duration
	freezes                                   []freeze
}

// modeRule is one mode's.
type modeRule struct {
	mode                ModeType
	failures, successes int
	stale               time.Duration // 0: by silence
	control             bool          // the control plane's word, which a heartbeat vetoes
	hint                bool          // votes only when it fails
}

// compile returns the rules of a valid policy with its defaults.
func compile(p Policy) rules {
	d, rec, s := p.Detection, p.Recovery, p.Safety
	r := rules{
		enabled: *p.Enabled, observe: p.Mode != Act, mode: p.Mode,
		interval: time.Duration(*d.Interval), grace: time.Duration(*d.NodeUpdateTimeout), startup: time.Duration(*d.NodeStartupTimeout),
		tolerate: time.Duration(*d.Tolerate), blind: time.Duration(*d.UnknownAlarm),
		conditional: d.Conditional, beat: -1,
		actions: rec.Actions, fencing: rec.Fencing, mustFence: p.Exclusive || *rec.FencingOptions.Require, exclusive: p.Exclusive,
		fenceTimeout: time.Duration(*rec.FencingOptions.Timeout), healthyFor: time.Duration(*rec.Verify.HealthyFor),
		sick: *s.MaxUnhealthy, zone: *s.MaxUnhealthyZone, inProgress: *s.MaxInProgress, available: *s.MinAvailable, healed: *s.TripReset.HealthyBelow,
		perHour: float64(*s.Rate.PerHour), burst: float64(*s.Rate.Burst),
		backoff: time.Duration(*s.Backoff.Initial), backoffMax: time.Duration(*s.Backoff.Max), factor: *s.Backoff.Factor,
		repairs: *s.MaxAttempts, trips: *s.TripReset.ManualAfter,
		window: time.Duration(*s.Window), healedFor: time.Duration(*s.TripReset.For),
	}
	if d.Quorum != nil {
		r.quorum = *d.Quorum
	}
	for i, m := range d.Modes {
		r.modes = append(r.modes, ruleOf(m))
		if m.Type == AgentHeartbeat {
			r.beat, r.beatEvery = i, time.Duration(*m.Options.ExpectedInterval)
			r.silence = r.beatEvery * time.Duration(*m.Options.Miss)
		}
	}
	for _, f := range s.Schedule {
		c, _ := parseCron(f.Cron) // Validate has seen that it parses
		r.freezes = append(r.freezes, freeze{c, time.Duration(f.Duration)})
	}
	return r
}

func ruleOf(m DetectionMode) modeRule {
	rule := modeRule{
		mode: m.Type, failures: *m.Options.FailureThreshold, successes: *m.Options.SuccessThreshold,
		control: m.Type == NodeStatus || m.Type == HypervisorStatus || m.Type == LifecycleEvents,
		hint:    m.Type == LifecycleEvents,
	}
	if m.Options.StaleAfter != nil {
		rule.stale = time.Duration(*m.Options.StaleAfter)
	}
	return rule
}

func (r *rules) modeIndex(t ModeType) int {
	return slices.IndexFunc(r.modes, func(m modeRule) bool { return m.mode == t })
}

// frozenUntil returns when the schedule's freeze that covers now ends; zero if none does.
func (r *rules) frozenUntil(now time.Time) time.Time {
	var last time.Time
	for _, f := range r.freezes {
		if t := f.until(now); t.After(last) {
			last = t
		}
	}
	return last
}
