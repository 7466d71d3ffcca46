package nodehealth

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/nodehealth/judge"
)

// Config says whose machines are judged, and how.
type Config struct {
	Cluster string
	Pool    string
	Policy  judge.Policy
}

// Validate returns every mistake of c, joined; nil if there is none.
func (c Config) Validate() error {
	var errs []error
	if c.Cluster == "" || c.Pool == "" {
		errs = append(errs, fmt.Errorf("cluster %q, pool %q: want names", c.Cluster, c.Pool))
	}
	return errors.Join(append(errs, c.Policy.Validate())...)
}

// every is the policy's interval of a polling mode.
func every(m judge.DetectionMode) time.Duration {
	if m.Options.Interval == nil {
		return 0
	}
	return time.Duration(*m.Options.Interval)
}
