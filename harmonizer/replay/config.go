package replay

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Config configures a replay.
type Config struct {
	// Apps has the numbers of the rules. The default starter is the controller. The default
	// delay_time_noise is 0, so that a replay shows exact deadlines.
	Apps apps.Config
	// ExpectedStateUpdate is the time between two reads of the expected state, in whole
	// seconds; default 60 s.
	ExpectedStateUpdate time.Duration
	Pool                string // of apps whose row has no pool; default "default"
	Classic             bool   // nudges are written as api.Nudge instead of on health.start and health.stop
	Events              bool   // print findings too
}

// WithDefaults returns a copy in which each zero field has its default.
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

// Validate joins all problems of the configuration.
func (c Config) Validate() error {
	errs := []error{c.Apps.Validate()}
	if c.ExpectedStateUpdate < time.Second || c.ExpectedStateUpdate%time.Second != 0 {
		errs = append(errs, fmt.Errorf("expected_state_update is %v; a replay needs whole seconds", c.ExpectedStateUpdate))
	}
	if !names.Valid(c.Pool) {
		errs = append(errs, fmt.Errorf("pool %q is not a valid name", c.Pool))
	}
	return errors.Join(errs...)
}

// partition returns the cc_partition of the messages.
func (c Config) partition() string {
	if c.Apps.Partition == "" {
		return message.Partition
	}
	return c.Apps.Partition
}
