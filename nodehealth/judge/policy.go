package judge

import (
	"slices"

	"github.com/weirkeeper/weirkeeper/api"
)

// Policy is the "health" block of a pool file. A nil pointer and an empty text are absent keys;
// WithDefaults fills them. A number in a field's comment is its default.
type Policy struct {
	Enabled *bool           `yaml:"enabled" json:"enabled,omitempty"` // true; if false, nothing is evaluated
	Mode    api.PolicyMode  `yaml:"mode" json:"mode,omitempty"`       // observe
	Owner   api.RepairOwner `yaml:"owner" json:"owner,omitempty"`     // self
	// Exclusive is set if no two machines may have a node's identity at the same time.
	Exclusive bool      `yaml:"exclusive" json:"exclusive,omitempty"`
	Detection Detection `yaml:"detection" json:"detection"`
	Recovery  Recovery  `yaml:"recovery" json:"recovery,omitzero"`
	Safety    Safety    `yaml:"safety" json:"safety,omitzero"`
	// Reasons holds the settings that differ for one failure reason, by its name, for example a
	// condition type.
	Reasons map[string]Reason `yaml:"reasons" json:"reasons,omitempty"`
}

// Detection configures how failures are found.
type Detection struct {
	Interval *Duration `yaml:"interval" json:"interval,omitempty"` // between rounds; 30 s
	// NodeUpdateTimeout is the grace period after a node's launch; 300 s.
	NodeUpdateTimeout *Duration `yaml:"node_update_timeout" json:"node_update_timeout,omitempty"`
	// NodeStartupTimeout is the maximum time until the first heartbeat; 600 s.
	NodeStartupTimeout *Duration `yaml:"node_startup_timeout" json:"node_startup_timeout,omitempty"`
	// Tolerate is how long a node is suspect before it is unhealthy; one interval. Every other node
	// is observed in that time.
	Tolerate *Duration `yaml:"tolerate" json:"tolerate,omitempty"`
	// UnknownAlarm is how long a node may be unknown before an alarm; 10 min.
	UnknownAlarm *Duration `yaml:"unknown_alarm" json:"unknown_alarm,omitempty"`
	// Conditional joins the modes; ANY_FAILED. "AT_LEAST 2" is AT_LEAST with its quorum.
	Conditional Conditional     `yaml:"recovery_conditional" json:"recovery_conditional,omitempty"`
	Quorum      *int            `yaml:"quorum" json:"quorum,omitempty"` // of AT_LEAST only
	Modes       []DetectionMode `yaml:"detection_modes" json:"detection_modes"`
}

// Conditional states how many modes must fail.
type Conditional string

const (
	AnyFailed Conditional = "ANY_FAILED" // one
	AllFailed Conditional = "ALL_FAILED" // each
	AtLeast   Conditional = "AT_LEAST"   // as many as the quorum
)

// DetectionMode is one entry of detection_modes.
type DetectionMode struct {
	Type    api.DetectionType `yaml:"type" json:"type"`
	Options Options           `yaml:"options" json:"options,omitzero"`
}

// Options of a mode. Each type uses some; the others are rejected.
type Options struct {
	Interval         *Duration `yaml:"interval" json:"interval,omitempty"`                   // of this mode; default: that of the detection
	FailureThreshold *int      `yaml:"failure_threshold" json:"failure_threshold,omitempty"` // in a row; 2
	SuccessThreshold *int      `yaml:"success_threshold" json:"success_threshold,omitempty"` // in a row, after a failure; 2
	// FailureWindow and WindowFailures detect intermittent failures: WindowFailures failures within
	// FailureWindow observations, 5 of 10. With a window of 0 only failures in a row count.
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

	TargetGroups []string `yaml:"target_groups" json:"target_groups,omitempty"` // ARNs; empty: those of the pool's groups
	Queue        string   `yaml:"queue" json:"queue,omitempty"`                 // SQS; empty: events come over the bus only
}

// Recovery configures the repair of an unhealthy node.
type Recovery struct {
	Actions []Action `yaml:"actions" json:"actions,omitempty"` // in this order; RECREATE
	// Fencing lists how a node is fenced before it is replaced; empty.
	Fencing        []Level        `yaml:"fencing" json:"fencing,omitempty"`
	FencingOptions FencingOptions `yaml:"fencing_options" json:"fencing_options,omitzero"`
	// NodeDeleteTimeout is how long RECREATE waits for the end of the old machine; 180 s.
	NodeDeleteTimeout *Duration `yaml:"node_delete_timeout" json:"node_delete_timeout,omitempty"`
	// NodeForceRecreate launches a new machine even if the end of the old one was not confirmed.
	NodeForceRecreate bool   `yaml:"node_force_recreate" json:"node_force_recreate,omitempty"`
	Verify            Verify `yaml:"verify" json:"verify,omitzero"`
}

// Action is one entry of recovery.actions.
type Action struct {
	Name   api.RepairAction `yaml:"name" json:"name"`
	Params Params           `yaml:"params" json:"params,omitzero"`
	// Timeout is the time from the order until the node is ok again; the default depends on the
	// action.
	Timeout *Duration `yaml:"timeout" json:"timeout,omitempty"`
	// MaxAttempts is how often one repair tries the action; 1.
	MaxAttempts *int `yaml:"max_attempts" json:"max_attempts,omitempty"`
}

// Params of an action. Each action uses some; the others are rejected.
type Params struct {
	Type        string            `yaml:"type" json:"type,omitempty"`                 // of REBOOT: soft (default) or hard
	Image       string            `yaml:"image" json:"image,omitempty"`               // of REBUILD; empty: the machine's own image
	LaunchFirst *bool             `yaml:"launch_first" json:"launch_first,omitempty"` // of RECREATE: true, on exclusive pools false
	Kind        string            `yaml:"kind" json:"kind,omitempty"`                 // of WORKFLOW: command, webhook or nats
	Argv        []string          `yaml:"argv" json:"argv,omitempty"`                 // of a command; no shell
	URL         string            `yaml:"url" json:"url,omitempty"`                   // of a webhook
	Subject     string            `yaml:"subject" json:"subject,omitempty"`           // of a NATS request
	SecretFile  string            `yaml:"secret_file" json:"secret_file,omitempty"`   // signs a webhook
	Input       map[string]string `yaml:"input" json:"input,omitempty"`               // values may contain {{ node.physicalid }}
}

// Level is one kind of fencing.
type Level string

const (
	FenceService Level = "SERVICE" // the agent stops the workers and accepts no work
	FenceTraffic Level = "TRAFFIC" // load balancers remove it
	FenceNetwork Level = "NETWORK" // its network is cut off
	FenceCompute Level = "COMPUTE" // stopped or terminated
)

// FencingOptions limit the fencing.
type FencingOptions struct {
	// Require forbids a replacement without confirmed fencing; true, and always true in exclusive
	// pools.
	Require *bool     `yaml:"require" json:"require,omitempty"` // true
	Timeout *Duration `yaml:"timeout" json:"timeout,omitempty"` // 180 s
}

// Verify configures when a repair has succeeded.
type Verify struct {
	HealthyFor *Duration `yaml:"healthy_for" json:"healthy_for,omitempty"` // 120 s
}

// Safety limits how many repairs run at a time, and how often.
type Safety struct {
	MaxUnhealthy     *Limit    `yaml:"max_unhealthy" json:"max_unhealthy,omitempty"`           // of the eligible nodes; 20 %
	MaxUnhealthyZone *Limit    `yaml:"max_unhealthy_zone" json:"max_unhealthy_zone,omitempty"` // of a zone's eligible nodes; 50 %
	MaxInProgress    *Limit    `yaml:"max_in_progress" json:"max_in_progress,omitempty"`       // repairs at a time; 1
	Rate             Rate      `yaml:"rate" json:"rate,omitzero"`
	Backoff          Backoff   `yaml:"backoff" json:"backoff,omitzero"`
	MaxAttempts      *int      `yaml:"max_attempts" json:"max_attempts,omitempty"` // repairs of a lineage within the window; 3
	Window           *Duration `yaml:"window" json:"window,omitempty"`             // 6 h; a quarantine lasts as long
	// MinAvailable is how many nodes of the pool stay in service, but one may always be taken out.
	// It counts the nodes that repairs take out, not those that are down; 80 %.
	MinAvailable *Limit    `yaml:"min_available" json:"min_available,omitempty"`
	Schedule     []Freeze  `yaml:"schedule" json:"schedule,omitempty"`
	TripReset    TripReset `yaml:"trip_reset" json:"trip_reset,omitzero"`
}

// Rate limits how many repairs begin.
type Rate struct {
	PerHour *int `yaml:"per_hour" json:"per_hour,omitempty"` // 6
	Burst   *int `yaml:"burst" json:"burst,omitempty"`       // 2
}

// Backoff is the wait between two repairs of one lineage. Up to a tenth is added, from a hash of
// the lineage and the number of the repair.
type Backoff struct {
	Initial *Duration `yaml:"initial" json:"initial,omitempty"` // 60 s
	Factor  *float64  `yaml:"factor" json:"factor,omitempty"`   // 2
	Max     *Duration `yaml:"max" json:"max,omitempty"`         // 3600 s
}

// Freeze is a time without repairs: it begins at each minute that the cron expression names, in
// UTC, and lasts for Duration.
type Freeze struct {
	Cron     string   `yaml:"cron" json:"cron"`         // minute hour day-of-month month day-of-week
	Duration Duration `yaml:"duration" json:"duration"` // up to 24 h
}

// TripReset configures when an open breaker closes.
type TripReset struct {
	HealthyBelow *Limit    `yaml:"healthy_below" json:"healthy_below,omitempty"` // maximum of unhealthy nodes; 10 %
	For          *Duration `yaml:"for" json:"for,omitempty"`                     // duration below it; 300 s
	// ManualAfter is the number of trips within the window after which a breaker needs a manual
	// release; 3.
	ManualAfter *int `yaml:"manual_after" json:"manual_after,omitempty"`
}

// Mode returns the entry of that type, and false if it is missing.
func (d Detection) Mode(t api.DetectionType) (DetectionMode, bool) {
	i := slices.IndexFunc(d.Modes, func(m DetectionMode) bool { return m.Type == t })
	if i < 0 {
		return DetectionMode{}, false
	}
	return d.Modes[i], true
}
