package placer

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirkeeper/weirkeeper/harmonizer/message"
	"github.com/weirkeeper/weirkeeper/internal/names"
	"github.com/weirkeeper/weirkeeper/pools/local/internal/call"
)

// Config is one pool's placer. Durations have defaults.
type Config struct {
	Cluster string
	Pool    string
	// Partition is that of the classic health manager's requests that are obeyed
	// beside its newer nudges. Default message.Partition.
	Partition string
	// Heartbeat is the agents' period. Default 10 s.
	Heartbeat time.Duration
	// LostAfter is the silence after which a node and its copies are gone. It
	// should be shorter than the harmonizer's droplet_lost: a nudge waits for
	// it. Default 2.5 heartbeats.
	LostAfter time.Duration
	// NudgeTTL is how long a start is held that the expected state does not
	// bear out yet: the nudge may overtake the row. Default 30 s.
	NudgeTTL time.Duration
	// StartTimeout is the deadline of a request to an agent. Default 5 s.
	StartTimeout time.Duration
}

// WithDefaults returns a copy in which what is zero has its default.
func (c Config) WithDefaults() Config {
	if c.Partition == "" {
		c.Partition = message.Partition
	}
	if c.Heartbeat == 0 {
		c.Heartbeat = 10 * time.Second
	}
	if c.LostAfter == 0 {
		c.LostAfter = c.Heartbeat * 5 / 2
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
	if c.LostAfter <= c.Heartbeat {
		errs = append(errs, fmt.Errorf("lost after %v: want more than a heartbeat of %v", c.LostAfter, c.Heartbeat))
	}
	return errors.Join(errs...)
}
