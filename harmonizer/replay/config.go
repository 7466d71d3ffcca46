package replay

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/names"
)

// Config of a replay.
type Config struct {
	// Apps is the rules' numbers. Without a starter it is the controller, and
	// without a delay_time_noise there is none: a replay tells what was due.
	Apps apps.Config
	// ExpectedStateUpdate is the time between two readings of the expected
	// world, whole seconds; 60 s.
	ExpectedStateUpdate time.Duration
	Pool                string // of apps whose row names none; "default"
	Classic             bool   // nudges go out as message.Request instead of on health.start and health.stop
	Events              bool   // print what was found too
}

// WithDefaults returns a copy in which every zero is the default.
func (c Config) WithDefaults() Config {
	if c.Apps.Starter == "" {
		c.Apps.Starter = apps.StarterController
	}
	if c.Apps.DelayTimeNoise == nil {
		c.Apps.DelayTimeNoise = new(time.Duration(0))
	}
	c.Apps = c.Apps.WithDefaults()
	if c.ExpectedStateUpdate == 0 {
		c.ExpectedStateUpdate = time.Minute
	}
	if c.Pool == "" {
		c.Pool = "default"
	}
	return c
}

// Validate joins everything that is wrong with the configuration.
func (c Config) Validate() error {
	errs := []error{c.Apps.Validate()}
	if c.ExpectedStateUpdate < time.Second || c.ExpectedStateUpdate%time.Second != 0 {
		errs = append(errs, fmt.Errorf("expected_state_update is %v, a replay needs whole seconds", c.ExpectedStateUpdate))
	}
	if !names.Valid(c.Pool) {
		errs = append(errs, fmt.Errorf("pool is not a name: %q", c.Pool))
	}
	return errors.Join(errs...)
}

// partition is the cc_partition of what is heard and asked for.
func (c Config) partition() string {
	if c.Apps.Partition == "" {
		return message.Partition
	}
	return c.Apps.Partition
}
