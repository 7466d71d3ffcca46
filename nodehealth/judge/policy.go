package judge

import "slices"

// Policy is the "health" block of a pool file. A nil pointer and an empty text are
// keys that are absent; WithDefaults fills them.
type Policy struct {
	Enabled *bool `yaml:"enabled" json:"enabled,omitempty"` // true; false: nothing is judged
	Mode    Mode  `yaml:"mode" json:"mode,omitempty"`       // observe
	Owner   Owner `yaml:"owner" json:"owner,omitempty"`     // self
	// Exclusive: nodes hold identities that no two machines may have at a time.
	Exclusive bool      `yaml:"exclusive" json:"exclusive,omitempty"`
	Detection Detection `yaml:"detection" json:"detection"`
	Recovery  Recovery  `yaml:"recovery" json:"recovery,omitzero"`
	Safety    Safety    `yaml:"safety" json:"safety,omitzero"`
	// Reasons are what differs for one reason of a failure, such as the type of a
	// condition, by its name.
	Reasons map[string]Reason `yaml:"reasons" json:"reasons,omitempty"`
}

// Mode says whether orders are carried out.
type Mode string

const (
	Observe Mode = "observe" // orders are marked, and nobody carries them out
	Act     Mode = "act"     // orders are carried out; "enforce" is read as act
)

// Owner says who heals.
type Owner string

const (
	OwnerSelf     Owner = "self" // Weirkeeper; the provider's own replacing is off
	OwnerProvider Owner = "asg"  // the provider, to which unfit machines are reported; an Auto Scaling group where there is one
)

// Detection says how failures are found.
type Detection struct {
	Interval *Duration `yaml:"interval" json:"interval,omitempty"` // between rounds; 30 s
	// NodeUpdateTimeout is the grace of a node since its launch; 300 s.
	NodeUpdateTimeout *Duration `yaml:"node_update_timeout" json:"node_update_timeout,omitempty"`
	// NodeStartupTimeout is by when a node must have sent its first heartbeat; 600 s.
	NodeStartupTimeout *Duration `yaml:"node_startup_timeout" json:"node_startup_timeout,omitempty"`
	// Tolerate is for how long a node is suspect before it is unhealthy: at least
	// until every other node had its turn; one interval.
	Tolerate *Duration `yaml:"tolerate" json:"tolerate,omitempty"`
	// UnknownAlarm is how long nothing need be known of a node; 10 min.
	UnknownAlarm *Duration `yaml:"unknown_alarm" json:"unknown_alarm,omitempty"`
	// Conditional joins the modes; ANY_FAILED. "AT_LEAST 2" is AT_LEAST with its quorum.
	Conditional Conditional     `yaml:"recovery_conditional" json:"recovery_conditional,omitempty"`
	Quorum      *int            `yaml:"quorum" json:"quorum,omitempty"` // of AT_LEAST only
	Modes       []DetectionMode `yaml:"detection_modes" json:"detection_modes"`
}

// Conditional says how many modes must fail.
type Conditional string

const (
	AnyFailed Conditional = "ANY_FAILED" // one
	AllFailed Conditional = "ALL_FAILED" // each
	AtLeast   Conditional = "AT_LEAST"   // as many as the quorum
)

// ModeType is one way to look at a node.
type ModeType string

const (
	NodeStatus       ModeType = "NODE_STATUS_POLLING"       // the provider's word about the instance
	HypervisorStatus ModeType = "HYPERVISOR_STATUS_POLLING" // and about what it runs on
	PollURL          ModeType = "NODE_STATUS_POLL_URL"      // a request to the node
	LBStatus         ModeType = "LB_STATUS_POLLING"         // what a load balancer sees
	LifecycleEvents  ModeType = "LIFECYCLE_EVENTS"          // hints, and the state in the provider's list
	AgentHeartbeat   ModeType = "AGENT_HEARTBEAT"           // what the node says of itself
)

// DetectionMode is one entry of detection_modes.
type DetectionMode struct {
	Type    ModeType `yaml:"type" json:"type"`
	Options Options  `yaml:"options" json:"options,omitzero"`
}

// Options of a mode. Each type uses some; others are mistakes.
type Options struct {
	Interval         *Duration `yaml:"interval" json:"interval,omitempty"`                   // of this mode; the detection's
	FailureThreshold *int      `yaml:"failure_threshold" json:"failure_threshold,omitempty"` // in a row; 2
	SuccessThreshold *int      `yaml:"success_threshold" json:"success_threshold,omitempty"` // in a row, after a failure; 2
	// FailureWindow and WindowFailures find what fails now and then: so many failures
	// within so many observations, 5 of 10. A window of 0 counts failures in a row only.
	FailureWindow  *int      `yaml:"failure_window" json:"failure_window,omitempty"`
	WindowFailures *int      `yaml:"window_failures" json:"window_failures,omitempty"`
	StaleAfter     *Duration `yaml:"stale_after" json:"stale_after,omitempty"` // 3 intervals

	ExpectedInterval *Duration `yaml:"expected_interval" json:"expected_interval,omitempty"` // between heartbeats; 5 s
	Miss             *int      `yaml:"miss" json:"miss,omitempty"`                           // heartbeats; 6
	// SelfFenceAfter is how long without contact an agent goes on; off.
	SelfFenceAfter *Duration `yaml:"self_fence_after" json:"self_fence_after,omitempty"`

	PollURL              string    `yaml:"poll_url" json:"poll_url,omitempty"`
	PollVerify           *bool     `yaml:"poll_url_ssl_verify" json:"poll_url_ssl_verify,omitempty"`                           // true
	PollErrorAsUnhealthy *bool     `yaml:"poll_url_conn_error_as_unhealthy" json:"poll_url_conn_error_as_unhealthy,omitempty"` // true
	PollHealthyResponse  string    `yaml:"poll_url_healthy_response" json:"poll_url_healthy_response,omitempty"`               // a regular expression
	PollRetryLimit       *int      `yaml:"poll_url_retry_limit" json:"poll_url_retry_limit,omitempty"`                         // attempts in all; 3
	PollRetryInterval    *Duration `yaml:"poll_url_retry_interval" json:"poll_url_retry_interval,omitempty"`                   // 3 s
	PollTimeout          *Duration `yaml:"poll_url_timeout" json:"poll_url_timeout,omitempty"`                                 // of one attempt; 2 s

	TargetGroups []string `yaml:"target_groups" json:"target_groups,omitempty"` // ARNs; none: those of the pool's groups
	Queue        string   `yaml:"queue" json:"queue,omitempty"`                 // SQS; empty: the bus alone
}

// Recovery says what is done about a sick node.
type Recovery struct {
	Actions []Action `yaml:"actions" json:"actions,omitempty"` // one after another; RECREATE
	// Fencing is how a node is made harmless before it is replaced; none.
	Fencing        []Level        `yaml:"fencing" json:"fencing,omitempty"`
	FencingOptions FencingOptions `yaml:"fencing_options" json:"fencing_options,omitzero"`
	// NodeDeleteTimeout is what RECREATE waits for the old machine's end; 180 s.
	NodeDeleteTimeout *Duration `yaml:"node_delete_timeout" json:"node_delete_timeout,omitempty"`
	// NodeForceRecreate launches even if the old machine's end was not seen.
	NodeForceRecreate bool   `yaml:"node_force_recreate" json:"node_force_recreate,omitempty"`
	Verify            Verify `yaml:"verify" json:"verify,omitzero"`
}

// ActionName is what can be done about a node.
type ActionName string

const (
	Start    ActionName = "START"    // of a stopped machine
	Reboot   ActionName = "REBOOT"   // params: type
	Rebuild  ActionName = "REBUILD"  // a new root volume; params: image
	Recreate ActionName = "RECREATE" // a new machine; params: launch_first
	Workflow ActionName = "WORKFLOW" // params: kind, and argv, url or subject; secret_file, input
)

// Action is one entry of recovery.actions.
type Action struct {
	Name   ActionName `yaml:"name" json:"name"`
	Params Params     `yaml:"params" json:"params,omitzero"`
	// Timeout is from the order until the node is ok again; by action.
	Timeout *Duration `yaml:"timeout" json:"timeout,omitempty"`
	// MaxAttempts is how often it is tried in one repair; 1.
	MaxAttempts *int `yaml:"max_attempts" json:"max_attempts,omitempty"`
}

// Params of an action. Each action uses some; others are mistakes.
type Params struct {
	Type        string            `yaml:"type" json:"type,omitempty"`                 // of REBOOT: soft (default) or hard
	Image       string            `yaml:"image" json:"image,omitempty"`               // of REBUILD: empty is the machine's own
	LaunchFirst *bool             `yaml:"launch_first" json:"launch_first,omitempty"` // of RECREATE: true, on exclusive pools false
	Kind        string            `yaml:"kind" json:"kind,omitempty"`                 // of WORKFLOW: command, webhook or nats
	Argv        []string          `yaml:"argv" json:"argv,omitempty"`                 // of a command; no shell
	URL         string            `yaml:"url" json:"url,omitempty"`                   // of a webhook
	Subject     string            `yaml:"subject" json:"subject,omitempty"`           // of a NATS request
	SecretFile  string            `yaml:"secret_file" json:"secret_file,omitempty"`   // signs a webhook
	Input       map[string]string `yaml:"input" json:"input,omitempty"`               // values may hold {{ node.physicalid }}
}

// Level is one way of fencing.
type Level string

const (
	FenceService Level = "SERVICE" // its agent stops the workers, and takes no work
	FenceTraffic Level = "TRAFFIC" // load balancers leave it
	FenceNetwork Level = "NETWORK" // nothing reaches it
	FenceCompute Level = "COMPUTE" // stopped or terminated
)

// FencingOptions bound the fencing.
type FencingOptions struct {
	// Require: without confirmation there is no replacement; on exclusive pools always.
	Require *bool     `yaml:"require" json:"require,omitempty"` // true
	Timeout *Duration `yaml:"timeout" json:"timeout,omitempty"` // 180 s
}

// Verify says when a repair has succeeded.
type Verify struct {
	HealthyFor *Duration `yaml:"healthy_for" json:"healthy_for,omitempty"` // 120 s
}

// Safety bounds what is done at a time, and ever.
type Safety struct {
	MaxUnhealthy     *Limit    `yaml:"max_unhealthy" json:"max_unhealthy,omitempty"`           // of the eligible; 20 %
	MaxUnhealthyZone *Limit    `yaml:"max_unhealthy_zone" json:"max_unhealthy_zone,omitempty"` // of a zone's; 50 %
	MaxInProgress    *Limit    `yaml:"max_in_progress" json:"max_in_progress,omitempty"`       // repairs at a time; 1
	Rate             Rate      `yaml:"rate" json:"rate,omitzero"`
	Backoff          Backoff   `yaml:"backoff" json:"backoff,omitzero"`
	MaxAttempts      *int      `yaml:"max_attempts" json:"max_attempts,omitempty"` // repairs of a lineage within the window; 3
	Window           *Duration `yaml:"window" json:"window,omitempty"`             // 6 h; a quarantine lasts as long
	// MinAvailable is how many of the pool stay in service, but at least one may
	// always be taken out. It counts what repairs take out, not what is down; 80 %.
	MinAvailable *Limit    `yaml:"min_available" json:"min_available,omitempty"`
	Schedule     []Freeze  `yaml:"schedule" json:"schedule,omitempty"`
	TripReset    TripReset `yaml:"trip_reset" json:"trip_reset,omitzero"`
}

// Rate bounds the repairs that are begun.
type Rate struct {
	PerHour *int `yaml:"per_hour" json:"per_hour,omitempty"` // 6
	Burst   *int `yaml:"burst" json:"burst,omitempty"`       // 2
}

// Backoff is the wait between two repairs of one lineage. Up to a tenth is added,
// by a hash of the lineage and the number of the repair.
type Backoff struct {
	Initial *Duration `yaml:"initial" json:"initial,omitempty"` // 60 s
	Factor  *float64  `yaml:"factor" json:"factor,omitempty"`   // 2
	Max     *Duration `yaml:"max" json:"max,omitempty"`         // 3600 s
}

// Freeze is a time without repairs: from each minute that the cron expression
// names, in UTC, for so long.
type Freeze struct {
	Cron     string   `yaml:"cron" json:"cron"`         // minute hour day-of-month month day-of-week
	Duration Duration `yaml:"duration" json:"duration"` // up to 24 h
}

// TripReset says when an open breaker closes.
type TripReset struct {
	HealthyBelow *Limit    `yaml:"healthy_below" json:"healthy_below,omitempty"` // at most so many are sick; 10 %
	For          *Duration `yaml:"for" json:"for,omitempty"`                     // for so long; 300 s
	// ManualAfter is how many trips within the window are the last that close
	// by themselves; 3.
	ManualAfter *int `yaml:"manual_after" json:"manual_after,omitempty"`
}

// Mode returns the entry of that type.
func (d Detection) Mode(t ModeType) (DetectionMode, bool) {
	i := slices.IndexFunc(d.Modes, func(m DetectionMode) bool { return m.Type == t })
	if i < 0 {
		return DetectionMode{}, false
	}
	return d.Modes[i], true
}
