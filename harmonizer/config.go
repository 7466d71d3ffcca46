package harmonizer

import (
	"errors"
	"fmt"

	"github.com/weirkeeper/weirkeeper/harmonizer/apps"
	"github.com/weirkeeper/weirkeeper/harmonizer/message"
)

// Config is what a Harmonizer needs to know.
type Config struct {
	Cluster string
	Pools   []string    // whose counts are published even while no app names them
	Apps    apps.Config // the rules' intervals
}

// WithDefaults returns a copy in which every interval left out is the default.
func (c Config) WithDefaults() Config {
	c.Apps = c.Apps.WithDefaults()
	return c
}

// Validate joins everything that is wrong with the configuration.
func (c Config) Validate() error {
	errs := []error{c.Apps.Validate()}
	if !message.ValidName(c.Cluster) {
		errs = append(errs, fmt.Errorf("cluster %q is not a name", c.Cluster))
	}
	for _, p := range c.Pools {
		if !message.ValidName(p) {
			errs = append(errs, fmt.Errorf("pool %q is not a name", p))
		}
	}
	return errors.Join(errs...)
}
