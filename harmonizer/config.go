package harmonizer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/cloudfoundry"
	"github.com/weirkeeper/weirkeeper/internal/platform/names"
)

// Config configures a Harmonizer. Its intervals have the names that Cloud Foundry's health
// manager gave them.
type Config struct {
	Cluster string
	Pools   []string    // counts are published for these even without apps
	Apps    apps.Config // the rules' intervals
	Labels  []string    // app labels that get sums by value; default: framework and runtime

	// Shadow turns on shadow mode: the harmonizer publishes nothing and writes nothing.
	Shadow bool
	// CloudFoundry adds parts of Cloud Foundry's health manager. The zero value adds none.
	CloudFoundry cloudfoundry.Features

	// LeaseTTL is how long the lease lasts after its last renewal; default 15 s. A takeover takes that long and an
	// election, so an alarm starts after two of them without a leader.
	LeaseTTL time.Duration
}

// WithDefaults returns a copy in which each omitted interval has its default.
func (c Config) WithDefaults() Config {
	c.Apps, c.CloudFoundry = c.Apps.WithDefaults(), c.CloudFoundry.WithDefaults()
	if c.Labels == nil {
		c.Labels = []string{"framework", "runtime"}
	}
	if c.LeaseTTL == 0 {
		c.LeaseTTL = 15 * time.Second
	}
	return c
}

// Validate joins all problems of the configuration.
func (c Config) Validate() error {
	errs := []error{c.Apps.Validate(), c.CloudFoundry.Validate()}
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
	if c.LeaseTTL < 0 {
		errs = append(errs, fmt.Errorf("lease is %v; it must be above 0", c.LeaseTTL))
	}
	return errors.Join(errs...)
}
