package placer

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/internal/platform/names"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
)

// Config is the configuration of one pool's placer. Durations have defaults.
type Config struct {
	Cluster string
	Pool    string
	// Heartbeat is the period of agents that do not publish one. Default 10 s. If a node is silent
	// (see package liveness), the placer drops it and its copies. That should happen before the
	// harmonizer's droplet_lost, because a nudge waits for it.
	Heartbeat time.Duration
	// NudgeTTL is how long the placer holds a start that the expected state does not confirm yet:
	// the nudge may arrive before the row. Default 30 s.
	NudgeTTL time.Duration
	// StartTimeout is the deadline of a request to an agent. Default 5 s.
	StartTimeout time.Duration
}

// startTimeout is the default deadline of a request to an agent.
const startTimeout = 5 * time.Second

// WithDefaults returns a copy with the default of each field that is zero.
func (c Config) WithDefaults() Config {
	if c.Heartbeat == 0 {
		c.Heartbeat = liveness.DefaultPeriod
	}
	if c.NudgeTTL == 0 {
		c.NudgeTTL = 30 * time.Second
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = startTimeout
	}
	return c
}

// Validate returns every problem of c.
func (c Config) Validate() error {
	errs := []error{
		names.CheckToken("cluster", c.Cluster), names.CheckToken("pool", c.Pool),
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{{"heartbeat", c.Heartbeat}, {"nudge ttl", c.NudgeTTL}, {"start timeout", c.StartTimeout}} {
		if d.d <= 0 {
			errs = append(errs, fmt.Errorf("%s %v: want more than 0", d.name, d.d))
		}
	}
	return errors.Join(errs...)
}
