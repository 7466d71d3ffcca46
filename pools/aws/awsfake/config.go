package awsfake

import (
	"cmp"
	"time"
)

// Config is the configuration of a Server. The zero value is usable.
type Config struct {
	Region  string    // default us-west-2
	Account string    // twelve digits; default 123456789012
	Queue   string    // name of the one SQS queue; default weir-notices
	Start   time.Time // start time of the clock; default 2024-01-02 00:00 UTC

	// Serial is the number before that of the first id. Servers with serials that are far apart never have the same id.
	Serial int

	// PageSize is the maximum page size for all requests. 0: as AWS does.
	PageSize int

	Boot  time.Duration // from launch to running; default 30 s
	Leave time.Duration // from shutting-down to terminated; default 30 s
	// Check is how long a group takes to detect that an instance does not run. Default 30 s.
	Check time.Duration
	// Retry is when a group or fleet retries a failed launch. Default 1 min.
	Retry time.Duration
	// Modify is how long a fleet is in modification and rejects another one. Default 5 s. Negative:
	// no time.
	Modify time.Duration
	// Drain is the deregistration delay of every target group; default 30 s.
	Drain time.Duration
	// Changes sends queue messages for state changes of instances, and for launches and
	// terminations in groups.
	Changes bool
}

func (c Config) withDefaults() Config {
	c.Region = cmp.Or(c.Region, "us-west-2")
	c.Account = cmp.Or(c.Account, "123456789012")
	c.Queue = cmp.Or(c.Queue, "weir-notices")
	if c.Start.IsZero() {
		c.Start = time.Date(2024, 1, 2, 0, 0, 0, 0, time.UTC)
	}
	c.Boot = cmp.Or(c.Boot, 30*time.Second)
	c.Leave = cmp.Or(c.Leave, 30*time.Second)
	c.Check = cmp.Or(c.Check, 30*time.Second)
	c.Retry = cmp.Or(c.Retry, time.Minute)
	c.Modify = cmp.Or(c.Modify, 5*time.Second)
	c.Drain = cmp.Or(c.Drain, 30*time.Second)
	return c
}

// Market is an instance type in a zone.
type Market struct{ Type, Zone string }

// Type is an instance type that a group may launch.
type Type struct {
	Name string
	// Weight is its WeightedCapacity. 0: unset, each instance counts 1.
	Weight int
}

// ASG describes an Auto Scaling group to create. Its markets are all types in all zones.
type ASG struct {
	Name              string
	Tags              map[string]string
	Min, Max, Desired int
	Zones             []string // default: the region's a, b and c
	// Types are tried in this order. Default m5.large. Several types, or a type with a weight, mean
	// a mixed instances policy.
	Types []Type
	Spot  bool // launch spot instances
	// TargetGroups are names of AddTargetGroup. Instances in service are registered there.
	TargetGroups []string
	// ProtectNew: new instances are protected from scale-in.
	ProtectNew bool
	// Cold: the desired instances do not exist yet when AddGroup returns.
	Cold bool
}

// SpotFleet describes a Spot Fleet request of type maintain to create.
type SpotFleet struct {
	ID     string            // sfr-...; default: generated
	Tags   map[string]string // of the request
	Specs  []LaunchSpec
	Target int
	// TargetGroups are names of AddTargetGroup. The request only lists them.
	TargetGroups []string
	// ReplacesUnhealthy sets replaceUnhealthyInstances in the description. The fleet never replaces unhealthy
	// instances.
	ReplacesUnhealthy bool
	// Template: the specifications are overrides of a launch template, and described as such.
	Template bool
	// Cold: when AddFleet returns, the request is only submitted and has no instances.
	Cold bool
}

// LaunchSpec is one launch specification of a fleet.
type LaunchSpec struct {
	Type   string
	Zone   string
	Weight float64           // its WeightedCapacity; 0: none, each instance counts 1
	Tags   map[string]string // of the instances
}

// Quota is a limit of the account in a region, in vCPUs.
type Quota string

const (
	OnDemandVCPU Quota = "on-demand"
	SpotVCPU     Quota = "spot"
)

// Call is one received request.
type Call struct {
	At      time.Time // by the server's clock
	Service string    // as in the signature: ec2, autoscaling, elasticloadbalancing, sqs, monitoring
	Key     string    // id of the access key that signed the request
	Action  string
	Params  map[string]string // the form's fields, or the JSON's as text
	Write   bool              // the action changes something
	Err     string            // error code of the response; empty: success
}

// Ending is the end of one instance.
type Ending struct {
	At       time.Time // the start of the end
	Instance string
	Owner    string // its group's name or fleet's id
	By       Cause
}

// Cause is why an instance ended.
type Cause string

const (
	ByTerminate    Cause = "TerminateInstances"
	ByGroup        Cause = "TerminateInstanceInAutoScalingGroup"
	ByScaleIn      Cause = "scale-in"     // a lower desired or target capacity: the group or fleet chose it
	ByRefresh      Cause = "refresh"      // an instance refresh replaced it
	ByInterruption Cause = "interruption" // a spot interruption
	ByLoss         Cause = "loss"         // Server.Lose
	ByCancel       Cause = "cancel"       // Server.CancelFleet
	ByHealth       Cause = "unhealthy"    // it was unhealthy or stopped, and its group replaced it
)

// Instance is the real state of one instance, independent of lag.
type Instance struct {
	ID             string
	Owner          string // its group's name or fleet's id
	Market         Market
	Weight         float64
	State          string // EC2's: pending, running, stopping, stopped, shutting-down, terminated
	Lifecycle      string // Auto Scaling's: Pending, InService, Terminating; empty in a fleet
	Unhealthy      bool   // as its group marks it
	Protected      bool
	Spot           bool
	Launched       time.Time
	Boots          int      // number of launches, starts, reboots and new root volumes
	Reboots        int      // number of requested reboots
	SecurityGroups []string // of its network interface
	Tags           map[string]string
}

// Bucket is a token bucket of Size requests. It gets Refill requests a second of the server's
// clock.
type Bucket struct {
	Size   float64
	Refill float64
}
