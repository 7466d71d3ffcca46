package apps

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/queue"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// Starter is the party that starts newly desired instances first.
type Starter string

const (
	// StarterSelf: the harmonizer starts them. A new index is missing at once.
	StarterSelf Starter = "self"
	// StarterController: the owner of the rows starts them. After a change the harmonizer
	// waits for ResetGrace.
	StarterController Starter = "controller"
)

// Config configures a Machine. The keys have the names of Cloud Foundry's health manager where
// it had them.
type Config struct {
	DropletLost          time.Duration  `yaml:"droplet_lost"`            // silence after which the copies of a node are lost; default 3 heartbeat periods
	HeartbeatPeriod      time.Duration  `yaml:"heartbeat_period"`        // of every node; default 10 s
	NudgeKeepAlive       time.Duration  `yaml:"nudge_keep_alive"`        // time until a nudge is repeated; default 30 s
	ResetGrace           *time.Duration `yaml:"reset_grace"`             // wait after a change under StarterController; default 30 s
	FlappingDeath        *int           `yaml:"flapping_death"`          // crashes that are answered at once; default 1
	FlappingTimeout      time.Duration  `yaml:"flapping_timeout"`        // a crash after a longer healthy time counts as the first; default 500 s
	MinRestartDelay      time.Duration  `yaml:"min_restart_delay"`       // of the first delayed restart; default 60 s
	MaxRestartDelay      time.Duration  `yaml:"max_restart_delay"`       // upper bound of the doubled delay; default 480 s
	DelayTimeNoise       *time.Duration `yaml:"delay_time_noise"`        // largest random change of a delay, either way; default 5 s
	GiveupCrashNumber    *int           `yaml:"giveup_crash_number"`     // after more crashes there is no restart; default 4; 0 or less turns it off
	QueueBatchSize       int            `yaml:"queue_batch_size"`        // indices nudged in each RequestQueue; default 40
	RequestQueue         time.Duration  `yaml:"request_queue"`           // default 1 s
	ExpectedStateLost    time.Duration  `yaml:"expected_state_lost"`     // time until an app without a row is extra; default 180 s
	DropletGCGracePeriod *time.Duration `yaml:"droplet_gc_grace_period"` // how long crashes of an app without a row are kept; default 240 s
	DisruptionLimit      float64        `yaml:"disruption_limit"`        // share of indices or rows lost at once above which nudges are held; default 0.30; 1 turns it off
	DisruptionFloor      *int           `yaml:"disruption_limit_floor"`  // a loss of at most this many never holds; default 10
	Starter              Starter        `yaml:"starter"`                 // default self
	Partition            string         `yaml:"cc_partition"`            // heartbeats and exits of other partitions are ignored; empty: no filter

	// Places: a copy on a node of a pool counts only where the placer of the pool has put it. Legacy DEAs have no placer.
	Places bool `yaml:"-"`

	// StopsWholeApps is set for a controller of the first protocol revision. There, a stop
	// that lists as many copies as the app has instances stops the whole app.
	StopsWholeApps bool `yaml:"-"`

	// Partial reports whether a node sends partial heartbeats. Copies that such a heartbeat
	// omits may still run. Partial is pure; nil: no node does.
	Partial func(node string) bool `yaml:"-"`
}

// WithDefaults returns a copy in which each zero or nil field has its default.
func (c Config) WithDefaults() Config {
	orDefault(&c.HeartbeatPeriod, liveness.DefaultPeriod) // the default of droplet_lost depends on it
	for _, d := range c.periods() {
		orDefault(d.field, d.standard)
	}
	orDefault(&c.RequestQueue, time.Second)
	orDefault(&c.ResetGrace, new(30*time.Second))
	orDefault(&c.DelayTimeNoise, new(5*time.Second))
	orDefault(&c.DropletGCGracePeriod, new(240*time.Second))
	orDefault(&c.GiveupCrashNumber, new(4))
	orDefault(&c.FlappingDeath, new(1))
	orDefault(&c.QueueBatchSize, 40)
	orDefault(&c.DisruptionLimit, 0.30)
	orDefault(&c.DisruptionFloor, new(10))
	orDefault(&c.Starter, StarterSelf)
	return c
}

// Live returns the keys of the numbers that a running machine follows: those of crashes, of grace periods and of the disruption limit.
func Live() []string {
	return []string{
		"flapping_death", "flapping_timeout", "min_restart_delay", "max_restart_delay", "delay_time_noise", "giveup_crash_number",
		"reset_grace", "droplet_gc_grace_period", "disruption_limit", "disruption_limit_floor",
	}
}

// follow takes over the numbers of Live. Deadlines that are set already stay.
func (c *Config) follow(next Config) {
	c.FlappingDeath, c.FlappingTimeout, c.MinRestartDelay, c.MaxRestartDelay = next.FlappingDeath, next.FlappingTimeout, next.MinRestartDelay, next.MaxRestartDelay
	c.DelayTimeNoise, c.GiveupCrashNumber, c.ResetGrace = next.DelayTimeNoise, next.GiveupCrashNumber, next.ResetGrace
	c.DropletGCGracePeriod, c.DisruptionLimit, c.DisruptionFloor = next.DropletGCGracePeriod, next.DisruptionLimit, next.DisruptionFloor
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate joins all problems of the configuration.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, p := range c.periods() {
		if *p.field <= 0 {
			bad("%s is %v; it must be above 0", p.name, *p.field)
		}
	}
	if c.DropletLost <= c.HeartbeatPeriod {
		bad("droplet_lost (%v) must be longer than heartbeat_period (%v)", c.DropletLost, c.HeartbeatPeriod)
	}
	if c.MaxRestartDelay < c.MinRestartDelay {
		bad("max_restart_delay (%v) must not be below min_restart_delay (%v)", c.MaxRestartDelay, c.MinRestartDelay)
	}
	if c.ResetGrace == nil || *c.ResetGrace < 0 {
		bad("reset_grace must be at least 0")
	}
	if c.DelayTimeNoise == nil || *c.DelayTimeNoise < 0 || *c.DelayTimeNoise > c.MinRestartDelay {
		bad("delay_time_noise must be from 0 to min_restart_delay (%v)", c.MinRestartDelay)
	}
	if c.DropletGCGracePeriod == nil || *c.DropletGCGracePeriod < 0 {
		bad("droplet_gc_grace_period must be at least 0")
	}
	if c.FlappingDeath == nil || *c.FlappingDeath < 0 {
		bad("flapping_death must be at least 0")
	}
	if err := c.rate().Validate(); err != nil {
		bad("queue_batch_size is %d in request_queue %v: %w", c.QueueBatchSize, c.RequestQueue, err)
	}
	if !(c.DisruptionLimit > 0 && c.DisruptionLimit <= 1) {
		bad("disruption_limit is %v; it must be above 0 and at most 1", c.DisruptionLimit)
	}
	if c.DisruptionFloor == nil || *c.DisruptionFloor < 0 {
		bad("disruption_limit_floor must be at least 0")
	}
	if c.Starter != StarterSelf && c.Starter != StarterController {
		bad("starter is %q; it must be %q or %q", c.Starter, StarterSelf, StarterController)
	}
	return errors.Join(errs...)
}

// period is a duration that must be above 0.
type period struct {
	name     string
	field    *time.Duration
	standard time.Duration // its default
}

func (c *Config) periods() []period {
	return []period{
		{"droplet_lost", &c.DropletLost, liveness.LostAfter(c.HeartbeatPeriod)},
		{"heartbeat_period", &c.HeartbeatPeriod, liveness.DefaultPeriod},
		{"nudge_keep_alive", &c.NudgeKeepAlive, 30 * time.Second},
		{"flapping_timeout", &c.FlappingTimeout, 500 * time.Second},
		{"min_restart_delay", &c.MinRestartDelay, 60 * time.Second},
		{"max_restart_delay", &c.MaxRestartDelay, 480 * time.Second},
		{"expected_state_lost", &c.ExpectedStateLost, 180 * time.Second},
	}
}

// overdue returns the silence after which a node certainly missed a heartbeat, and is lost in
// at most one heartbeat period.
func (c Config) overdue() time.Duration {
	return max(c.DropletLost-c.HeartbeatPeriod, liveness.ConfirmedFor(c.HeartbeatPeriod))
}

// lossLimit returns how many of the running indices may be lost at once.
func (c Config) lossLimit(of int) float64 {
	return max(c.DisruptionLimit*float64(of), float64(*c.DisruptionFloor))
}

// leastFloor is how many rows may be gone at once, however few rows there are.
const leastFloor = 3

// rowLossLimit returns how many rows may be gone or stopped at once. Lost rows lead to stops,
// so the floor shrinks with the number of rows: to half of them, but at least leastFloor.
func (c Config) rowLossLimit(of int) float64 {
	return max(c.DisruptionLimit*float64(of), min(float64(*c.DisruptionFloor), max(leastFloor, float64(of)/2)))
}

func (c Config) rate() queue.Config {
	return queue.Config{Batch: c.QueueBatchSize, Every: c.RequestQueue}
}

// stopsAtOnce returns how many copies of an app one stop may list; 0: none.
func (c Config) stopsAtOnce(a *app) int {
	if n := a.expected(); c.StopsWholeApps && n > 0 {
		return min(perStop, n-1)
	}
	return perStop
}

func (c Config) controlled() bool { return c.Starter == StarterController }

// rowlessGrace returns how long the copies of an app without a row are left alone.
func (c Config) rowlessGrace() time.Duration {
	if c.controlled() {
		return c.ExpectedStateLost
	}
	return c.DropletLost
}

// startKeepAlive returns the time after a start in which the index gets no further start.
func (c Config) startKeepAlive() time.Duration {
	if c.controlled() {
		return max(c.NudgeKeepAlive, c.DropletLost)
	}
	return c.NudgeKeepAlive
}

// freshAfter returns the time after which a new bus connection has delivered a heartbeat of
// every living node. The extra tenth of a period allows for late heartbeats.
func (c Config) freshAfter() time.Duration { return c.HeartbeatPeriod + c.HeartbeatPeriod/10 }
