package harmonizer

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/internal/names"
)

// Config is what a Harmonizer needs to know. Its intervals have the names that
// Cloud Foundry's health manager gave them.
type Config struct {
	Cluster string
	Pools   []string    // whose counts are published even while no app names them
	Apps    apps.Config // the rules' intervals
	Labels  []string    // of apps, by whose values there are sums; framework and runtime

	// Shadow: nothing is published, and what would have been nudged is compared
	// with what another harmonizer nudges.
	Shadow            bool
	MaxShadowingDelay time.Duration // between the same nudge of both; 10 s
	CheckShadowing    time.Duration // how often what only one did is told; 30 s
}

// WithDefaults returns a copy in which every interval left out is the default.
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
	return c
}

// Validate joins everything that is wrong with the configuration.
func (c Config) Validate() error {
	errs := []error{c.Apps.Validate()}
	if !names.Valid(c.Cluster) {
		errs = append(errs, fmt.Errorf("cluster %q is not a name", c.Cluster))
	}
	for _, p := range c.Pools {
		if !names.Valid(p) {
			errs = append(errs, fmt.Errorf("pool %q is not a name", p))
		}
	}
	for i, l := range c.Labels {
		if !names.Valid(l) || slices.Contains(c.Labels[:i], l) {
			errs = append(errs, fmt.Errorf("label %q is not a name, or is there twice", l))
		}
	}
	if c.MaxShadowingDelay < 0 {
		errs = append(errs, fmt.Errorf("max_shadowing_delay is %v, it must be above 0", c.MaxShadowingDelay))
	}
	if c.CheckShadowing < 0 {
		errs = append(errs, fmt.Errorf("check_shadowing is %v, it must be above 0", c.CheckShadowing))
	}
	return errors.Join(errs...)
}
