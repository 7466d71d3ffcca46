package harmonizer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Config configures a Harmonizer. Its intervals have the names that Cloud Foundry's health
// manager gave them.
type Config struct {
	Cluster string
	Pools   []string    // counts are published for these even without apps
	Apps    apps.Config // the rules' intervals
	Labels  []string    // app labels that get sums by value; default: framework and runtime

	// Shadow turns on shadow mode: the harmonizer publishes nothing and compares its nudges
	// with those of another harmonizer.
	Shadow            bool
	MaxShadowingDelay time.Duration // longest time between the same nudge of both; default 10 s
	CheckShadowing    time.Duration // how often mismatches are logged; default 30 s

	// Unconfirmed: schedulers do not confirm nudges, as cloud controllers. Otherwise a nudge that no scheduler confirms
	// within its keep-alive is a problem in the status.
	Unconfirmed bool

	// LeaseTTL is how long the lease lasts after its last renewal; default 15 s. A takeover takes that long and an
	// election, so an alarm starts after two of them without a leader.
	LeaseTTL time.Duration
}

// WithDefaults returns a copy in which each omitted interval has its default.
func (c Config) WithDefaults() Config {
	c.Apps = c.Apps.WithDefaults()
	if c.Labels == nil {
		c.Labels = []string{"framework", "runtime"}
	}
	if c.MaxShadowingDelay == 0 {
		c.MaxShadowingDelay = 10 * time.Second
	}
	if c.CheckShadowing == 0 {
		c.CheckShadowing = 30 * time.Second
	}
	if c.LeaseTTL == 0 {
		c.LeaseTTL = 15 * time.Second
	}
	return c
}

// Validate joins all problems of the configuration.
func (c Config) Validate() error {
	errs := []error{c.Apps.Validate()}
	if !names.Valid(c.Cluster) {
		errs = append(errs, fmt.Errorf("cluster %q is not a valid name", c.Cluster))
	}
	for _, p := range c.Pools {
		if !names.Valid(p) {
			errs = append(errs, fmt.Errorf("pool %q is not a valid name", p))
		}
	}
	for i, l := range c.Labels {
		if !names.Valid(l) || slices.Contains(c.Labels[:i], l) {
			errs = append(errs, fmt.Errorf("label %q is not a valid name, or is listed twice", l))
		}
	}
	if c.MaxShadowingDelay < 0 {
		errs = append(errs, fmt.Errorf("max_shadowing_delay is %v; it must be above 0", c.MaxShadowingDelay))
	}
	if c.CheckShadowing < 0 {
		errs = append(errs, fmt.Errorf("check_shadowing is %v; it must be above 0", c.CheckShadowing))
	}
	if c.LeaseTTL < 0 {
		errs = append(errs, fmt.Errorf("lease is %v; it must be above 0", c.LeaseTTL))
	}
	return errors.Join(errs...)
}
