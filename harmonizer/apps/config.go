package apps

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/queue"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// Starter is who starts what is newly desired, before the harmonizer does.
type Starter string

// Starters.
const (
	// StarterSelf: nobody else does. A new index is missing at once.
	StarterSelf Starter = "self"
	// StarterController: whoever owns the rows does. What it changed is left alone
	// for ResetGrace.
	StarterController Starter = "controller"
)

// Config is the numbers of a Machine, under the names that Cloud Foundry's
// health manager gave them where it had them.
type Config struct {
	DropletLost          time.Duration  `yaml:"droplet_lost"`            // silence after which copies are lost; 3 heartbeat periods
	HeartbeatPeriod      time.Duration  `yaml:"heartbeat_period"`        // of every node; 10 s
	NudgeKeepAlive       time.Duration  `yaml:"nudge_keep_alive"`        // before a nudge is repeated; 30 s
	ResetGrace           *time.Duration `yaml:"reset_grace"`             // under StarterController, after a change; 30 s
	FlappingDeath        *int           `yaml:"flapping_death"`          // crashes answered at once; 1
	FlappingTimeout      time.Duration  `yaml:"flapping_timeout"`        // a crash later than that is a first one; 500 s
	MinRestartDelay      time.Duration  `yaml:"min_restart_delay"`       // of the first delayed restart; 60 s
	MaxRestartDelay      time.Duration  `yaml:"max_restart_delay"`       // the doubling ends here; 480 s
	DelayTimeNoise       *time.Duration `yaml:"delay_time_noise"`        // a delay is off by at most that; 5 s
	GiveupCrashNumber    *int           `yaml:"giveup_crash_number"`     // more crashes are answered no more; 4, off if not above 0
	QueueBatchSize       int            `yaml:"queue_batch_size"`        // nudged indices in each RequestQueue; 40
	RequestQueue         time.Duration  `yaml:"request_queue"`           // 1 s
	ExpectedStateLost    time.Duration  `yaml:"expected_state_lost"`     // an app without a row is extra after that; 180 s
	DropletGCGracePeriod *time.Duration `yaml:"droplet_gc_grace_period"` // what crashed is remembered so long without a row; 240 s
	Brake                float64        `yaml:"brake"`                   // share of indices, or rows, lost at once that holds nudges; 0.30, 1 is off
	BrakeFloor           *int           `yaml:"brake_floor"`             // so many never do; 10
	Starter              Starter        `yaml:"starter"`                 // self
	Partition            string         `yaml:"cc_partition"`            // others' beats and exits are passed over; empty: none are

	// StopsWholeApps is true for a controller of the first protocol revision: a stop that
	// lists as many copies as the app has instances stops the whole app there.
	StopsWholeApps bool `yaml:"-"`

	// Partial tells the nodes that send partial heartbeats: what those do not list
	// may run nevertheless. It is pure; nil is none.
	Partial func(node string) bool `yaml:"-"`
}

// WithDefaults returns a copy in which every zero, and every nil, is the default.
func (c Config) WithDefaults() Config {
	orDefault(&c.HeartbeatPeriod, liveness.DefaultPeriod) // that of droplet_lost follows it
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
	orDefault(&c.Brake, 0.30)
	orDefault(&c.BrakeFloor, new(10))
	orDefault(&c.Starter, StarterSelf)
	return c
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate joins everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, p := range c.periods() {
		if *p.field <= 0 {
			bad("%s is %v, it must be above 0", p.name, *p.field)
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
	if !(c.Brake > 0 && c.Brake <= 1) {
		bad("brake is %v, it must be above 0 and at most 1", c.Brake)
	}
	if c.BrakeFloor == nil || *c.BrakeFloor < 0 {
		bad("brake_floor must be at least 0")
	}
	if c.Starter != StarterSelf && c.Starter != StarterController {
		bad("starter is %q, it must be %q or %q", c.Starter, StarterSelf, StarterController)
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

// overdue is the silence after which a node is a heartbeat period, or less, from
// being lost, and has missed a beat for sure.
func (c Config) overdue() time.Duration {
	return max(c.DropletLost-c.HeartbeatPeriod, liveness.ConfirmedFor(c.HeartbeatPeriod))
}

// tooMany is how many of what runs may be lost at once.
func (c Config) tooMany(of int) float64 { return max(c.Brake*float64(of), float64(*c.BrakeFloor)) }

// leastFloor is how many rows of the smallest world may be gone at once.
const leastFloor = 3

// tooManyRows is how many rows may be gone or stopped at once, of so many. It ends in
// stops, so the floor scales with a small world: at most half of what there is, or
// leastFloor.
func (c Config) tooManyRows(of int) float64 {
	return max(c.Brake*float64(of), min(float64(*c.BrakeFloor), max(leastFloor, float64(of)/2)))
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

// unseen is how long the copies of an app without a row are left alone.
func (c Config) unseen() time.Duration {
	if c.controlled() {
		return c.ExpectedStateLost
	}
	return c.DropletLost
}

// startKeepAlive is how long a start keeps an index from the next one.
func (c Config) startKeepAlive() time.Duration {
	if c.controlled() {
		return max(c.NudgeKeepAlive, c.DropletLost)
	}
	return c.NudgeKeepAlive
}

// startIn is how long after its own beginning a bus tells all that it carries:
// every living node has had its turn to beat. The tenth of a period on top is
// for beats that come late.
func (c Config) startIn() time.Duration { return c.HeartbeatPeriod + c.HeartbeatPeriod/10 }
