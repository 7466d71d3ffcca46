package awstest

import (
	"cmp"
	"time"
)

// Config is what a Server is like. The zero value is usable.
type Config struct {
	Region  string    // default us-west-2
	Account string    // twelve digits; default 123456789012
	Queue   string    // name of the one SQS queue; default weir-notices
	Start   time.Time // the clock at the beginning; default 2024-01-02 00:00 UTC

	// Direct: the server does not listen; its clients call Do.
	Direct bool
	// PageSize is how much a page holds at most, whatever a request asks for; 0: as AWS does.
	PageSize int

	Boot  time.Duration // from order to in service; default 30 s
	Leave time.Duration // from the end's beginning to its end; default 30 s
	// Check is how long a group takes to notice an instance that it did not end; default 30 s.
	Check time.Duration
	// Retry is when a group or fleet orders again what it did not get; default 1 min.
	Retry time.Duration
	// Modify is how long a fleet is being modified, and refuses to be modified again;
	// default 5 s, negative: not at all.
	Modify time.Duration
	// Drain is the deregistration delay of every target group; default 30 s.
	Drain time.Duration
	// Changes has the queue tell of changes of instances' states, and of launches and
	// ends in groups.
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
	// Weight is its WeightedCapacity; 0: the group has none, each instance counts 1.
	Weight int
}

// ASG is an Auto Scaling group to be made. Its markets are all types in all zones.
type ASG struct {
	Name              string
	Tags              map[string]string
	Min, Max, Desired int
	Zones             []string // default: the region's a, b and c
	// Types are tried in this order; default m5.large. More than one, or one with a
	// weight, make a mixed instances policy.
	Types []Type
	Spot  bool // its instances are spot instances
	// TargetGroups are names of AddTargetGroup: who comes into service is registered there.
	TargetGroups []string
	// ProtectNew: new instances are protected from scale-in.
	ProtectNew bool
	// Cold: what is desired does not exist yet when AddGroup returns.
	Cold bool
}

// SpotFleet is a Spot Fleet request of type maintain to be made.
type SpotFleet struct {
	ID     string            // sfr-...; default: a new one
	Tags   map[string]string // of the request
	Specs  []LaunchSpec
	Target int
	// TargetGroups are names of AddTargetGroup; it only tells of them.
	TargetGroups []string
	// Heals: it replaces unhealthy instances, as it says; it never does here.
	Heals bool
	// Template: its specifications are overrides of a launch template, and told of as such.
	Template bool
	// Cold: the request is just submitted and has no instances when AddFleet returns.
	Cold bool
}

// LaunchSpec is one launch specification of a fleet.
type LaunchSpec struct {
	Type   string
	Zone   string
	Weight float64           // its WeightedCapacity; 0: none, an instance counts 1
	Tags   map[string]string // of the instances
}

// Quota is a limit of the account in a region, in vCPUs.
type Quota string

const (
	OnDemandVCPU Quota = "on-demand"
	SpotVCPU     Quota = "spot"
)

// Call is one request that came in.
type Call struct {
	At      time.Time // virtual
	Service string    // ec2, autoscaling, elasticloadbalancing, sqs
	Action  string
	Params  map[string]string // the form's fields, or the JSON's as text
	Write   bool              // it is of the kind that changes something
	Err     string            // the code it was answered with; empty: done
}

// Ending is the end of one instance.
type Ending struct {
	At       time.Time // when it began
	Instance string
	Owner    string // its group's name or fleet's id
	By       Cause
}

// Cause is why an instance ended.
type Cause string

const (
	ByTerminate    Cause = "TerminateInstances"
	ByGroup        Cause = "TerminateInstanceInAutoScalingGroup"
	ByScaleIn      Cause = "scale-in"     // a lower desired or target capacity: Amazon chose it
	ByRefresh      Cause = "refresh"      // an instance refresh replaced it
	ByInterruption Cause = "interruption" // Amazon took a spot instance back
	ByLoss         Cause = "loss"         // Server.Lose
	ByCancel       Cause = "cancel"       // Server.CancelFleet
	ByHealth       Cause = "unhealthy"    // it was marked so, or stopped, and its group replaced it
)

// Instance is one instance as it is, whatever requests are told.
type Instance struct {
	ID             string
	Owner          string // its group's name or fleet's id
	Market         Market
	Weight         float64
	State          string // EC2's: pending, running, stopping, stopped, shutting-down, terminated
	Lifecycle      string // Auto Scaling's: Pending, InService, Terminating; empty in a fleet
	Unhealthy      bool   // as its group has it
	Protected      bool
	Spot           bool
	Launched       time.Time
	Boots          int      // how often it has begun to run: launches, starts, reboots, new root volumes
	Reboots        int      // that were asked for
	SecurityGroups []string // of its interface
	Tags           map[string]string
}

// Bucket is a token bucket: it holds Size requests and gets Refill per (virtual) second.
type Bucket struct {
	Size   float64
	Refill float64
}
