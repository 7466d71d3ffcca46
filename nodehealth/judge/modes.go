package judge

import (
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
	"github.com/weirkeeper/weirkeeper/pools"
)

// Source is where the observations of a detection mode come from.
type Source int

const (
	FromProvider Source = iota + 1 // an inspection of the instance, in rounds
	FromProbe                      // a request to the node, in rounds
	FromEvents                     // hints of the provider, and the state in its list
	FromAgent                      // heartbeats of the node's agent
)

// ModeKind describes one detection mode. modeKinds lists all of them.
type ModeKind struct {
	Type   api.DetectionType
	Source Source
	// Traffic: the mode reads what load balancers report.
	Traffic bool
	// Observe returns the observation of an inspected instance, without node and mode.
	// It is set if Source is FromProvider.
	Observe func(pools.Inspection) Observation

	control bool     // reports the control plane's view, which a heartbeat vetoes
	hint    bool     // votes only when it fails
	ended   bool     // fails for an instance that the provider's list has as stopped or interrupted
	options []string // keys of Options that it uses, besides the thresholds
	fill    func(*Options)
	check   func(o Options, ps *problems, path string, exclusive bool)
}

// modeKinds returns the detection modes, in the order in which errors list them.
func modeKinds() []ModeKind {
	often := []string{"failure_window", "window_failures"}
	poll := slices.Concat([]string{"interval", "stale_after"}, often)
	return []ModeKind{
		{Type: api.DetectNodeStatus, Source: FromProvider, Observe: observeMachine, control: true, ended: true, options: poll},
		{Type: api.DetectHypervisorStatus, Source: FromProvider, Observe: func(in pools.Inspection) Observation { return observed(in.Host) }, control: true, options: poll},
		{Type: api.DetectPollURL, Source: FromProbe, options: slices.Concat(poll, []string{"poll_url", "poll_url_ssl_verify", "poll_url_conn_error_as_unhealthy",
			"poll_url_healthy_response", "poll_url_retry_limit", "poll_url_retry_interval", "poll_url_timeout"}),
			fill: func(o *Options) {
				fill(&o.PollVerify, true)
				fill(&o.PollErrorAsUnhealthy, true)
				fill(&o.PollRetryLimit, 3)
				fill(&o.PollRetryInterval, seconds(3))
				fill(&o.PollTimeout, seconds(2))
			},
			check: func(o Options, ps *problems, path string, _ bool) { o.checkURL(ps, path) }},
		{Type: api.DetectLBStatus, Source: FromProvider, Traffic: true, Observe: func(in pools.Inspection) Observation { return observed(in.Traffic) },
			options: slices.Concat(poll, []string{"target_groups"})},
		{Type: api.DetectLifecycleEvents, Source: FromEvents, control: true, hint: true, ended: true, options: []string{"stale_after", "queue"}},
		{Type: api.DetectAgentHeartbeat, Source: FromAgent, options: slices.Concat(often, []string{"expected_interval", "miss", "self_fence_after"}),
			fill: func(o *Options) {
				fill(&o.ExpectedInterval, seconds(5))
				fill(&o.Miss, 6)
			},
			check: func(o Options, ps *problems, path string, exclusive bool) { o.checkBeat(ps, path, exclusive) }},
	}
}

// KindOfMode returns the description of a mode, or the zero value for an unknown mode.
func KindOfMode(t api.DetectionType) ModeKind {
	all := modeKinds()
	if i := slices.IndexFunc(all, func(k ModeKind) bool { return k.Type == t }); i >= 0 {
		return all[i]
	}
	return ModeKind{}
}

// ModeTypes returns the types of all modes.
func ModeTypes() []api.DetectionType {
	var types []api.DetectionType
	for _, k := range modeKinds() {
		types = append(types, k.Type)
	}
	return types
}

func (k ModeKind) uses(key string) bool { return slices.Contains(k.options, key) }

// usersOf returns the types of the modes that use a key of Options.
func usersOf(key string) []string {
	var users []string
	for _, k := range modeKinds() {
		if k.uses(key) {
			users = append(users, string(k.Type))
		}
	}
	return users
}

func observeMachine(in pools.Inspection) Observation {
	switch {
	case in.Ended:
		return Observation{Verdict: api.CheckFail, Reason: reasonTerminated}
	case in.Stopped:
		return Observation{Verdict: api.CheckFail, Reason: reasonStopped}
	}
	return observed(in.Machine)
}

func observed(s pools.HealthCheck) Observation {
	switch s.Fitness {
	case pools.Fit:
		return Observation{Verdict: api.CheckOK}
	case pools.Unfit:
		return Observation{Verdict: api.CheckFail, Reason: s.Why, Announced: s.Announced}
	}
	return Observation{Verdict: api.CheckUnknown, Reason: s.Why}
}
