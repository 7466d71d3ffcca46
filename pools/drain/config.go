package drain

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// Defaults of Config, and the assumed time from a spot notice to the interruption.
const (
	defaultCallTimeout = 5 * time.Second
	defaultConcurrency = 32
	spotNotice         = 2 * time.Minute
)

// Config bounds the drains of a pool.
type Config struct {
	// Threshold is how long to wait for a node's tasks after it was chosen:
	// draining_time_threshold_seconds.
	Threshold time.Duration
	// Force terminates the node after Threshold, unless a copy of it has no other place. Without Force, or with such a
	// copy, the node is uncordoned and stays: force_terminate.
	Force bool
	// EndSpot terminates a drained node that has a spot notice, so that its weight leaves the
	// target at once. Without EndSpot the provider takes the node, and its group replaces it.
	EndSpot bool
	// CallTimeout bounds each call of a port. 0: five seconds.
	CallTimeout time.Duration
	// Concurrency is how many nodes are processed at the same time. 0: 32.
	Concurrency int
}

// Validate returns every problem of c.
func (c Config) Validate() error {
	var errs []error
	if c.Threshold <= 0 {
		errs = append(errs, fmt.Errorf("draining time threshold %v: want more than 0", c.Threshold))
	}
	if c.CallTimeout < 0 || c.Concurrency < 0 {
		errs = append(errs, fmt.Errorf("call timeout %v, concurrency %d of drains: want at least 0", c.CallTimeout, c.Concurrency))
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	c.CallTimeout = cmp.Or(c.CallTimeout, defaultCallTimeout)
	c.Concurrency = cmp.Or(c.Concurrency, defaultConcurrency)
	return c
}
