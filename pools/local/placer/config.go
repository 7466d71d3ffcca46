package placer

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/names"
	"github.com/weirkeeper/weirkeeper/pools/liveness"
	"github.com/weirkeeper/weirkeeper/pools/local/internal/call"
)

// Config is the configuration of one pool's placer. Durations have defaults.
type Config struct {
	Cluster string
	Pool    string
	// Partition is the partition of the classic health manager's requests, which the placer accepts
	// besides its newer nudges. Default message.Partition.
	Partition string
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

// WithDefaults returns a copy with the default of each field that is zero.
func (c Config) WithDefaults() Config {
	if c.Partition == "" {
		c.Partition = message.Partition
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = liveness.DefaultPeriod
	}
	if c.NudgeTTL == 0 {
		c.NudgeTTL = 30 * time.Second
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = call.Timeout
	}
	return c
}

// Validate returns every problem of c.
func (c Config) Validate() error {
	errs := []error{
		names.CheckToken("cluster", c.Cluster), names.CheckToken("pool", c.Pool), names.CheckToken("partition", c.Partition),
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
