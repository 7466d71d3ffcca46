package apps

import (
	"errors"
	"fmt"
	"time"
)

// Config is the intervals of a Machine, under the names that Cloud Foundry's
// health manager gave them.
type Config struct {
	DropletLost     time.Duration `yaml:"droplet_lost"`      // silence after which copies are lost; 30 s
	HeartbeatPeriod time.Duration `yaml:"heartbeat_period"`  // of every node; 10 s
	NudgeKeepAlive  time.Duration `yaml:"nudge_keep_alive"`  // before a nudge is repeated; 30 s
	FlappingDeath   int           `yaml:"flapping_death"`    // crashes answered at once; 1
	FlappingTimeout time.Duration `yaml:"flapping_timeout"`  // a crash later than that is a first one; 500 s
	MinRestartDelay time.Duration `yaml:"min_restart_delay"` // of the first delayed restart; 60 s
	MaxRestartDelay time.Duration `yaml:"max_restart_delay"` // the doubling ends here; 480 s
}

// WithDefaults returns a copy in which every zero is the default.
func (c Config) WithDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.DropletLost, 30 * time.Second},
		{&c.HeartbeatPeriod, 10 * time.Second},
		{&c.NudgeKeepAlive, 30 * time.Second},
		{&c.FlappingTimeout, 500 * time.Second},
		{&c.MinRestartDelay, 60 * time.Second},
		{&c.MaxRestartDelay, 480 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.FlappingDeath == 0 {
		c.FlappingDeath = 1
	}
	return c
}

// Validate joins everything that is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"droplet_lost", c.DropletLost},
		{"heartbeat_period", c.HeartbeatPeriod},
		{"nudge_keep_alive", c.NudgeKeepAlive},
		{"flapping_timeout", c.FlappingTimeout},
		{"min_restart_delay", c.MinRestartDelay},
		{"max_restart_delay", c.MaxRestartDelay},
	} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("%s is %v, it must be above 0", d.name, d.value))
		}
	}
	if c.DropletLost <= c.HeartbeatPeriod {
		errs = append(errs, fmt.Errorf("droplet_lost (%v) must be longer than heartbeat_period (%v)", c.DropletLost, c.HeartbeatPeriod))
	}
	if c.MaxRestartDelay < c.MinRestartDelay {
		errs = append(errs, fmt.Errorf("max_restart_delay (%v) must not be below min_restart_delay (%v)", c.MaxRestartDelay, c.MinRestartDelay))
	}
	if c.FlappingDeath < 0 {
		errs = append(errs, fmt.Errorf("flapping_death is %d, it must not be negative", c.FlappingDeath))
	}
	return errors.Join(errs...)
}
