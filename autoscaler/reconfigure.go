package autoscaler

import (
	"fmt"
)

// Reconfigure sets the configuration of the loop, from between two ticks on. A signal of the same
// name keeps its opinion. It also keeps its connection and schedule unless its windows or
// parameters change. In that case the loop connects again, because the hello carries parameters,
// and evaluates the signal at the next tick. A process whose Endpoint has a Request is not affected
// by the windows and parameters of c. Reconfigure does not wait, and any goroutine may call it. Of
// two calls between two ticks the later one counts. The caller must not change c afterwards. If c
// is invalid, or is for another pool, Reconfigure returns an error and changes nothing.
func (l *Loop) Reconfigure(c Config) error {
	if c.Cluster != l.cluster || c.Pool != l.pool {
		return fmt.Errorf("reconfigure pool %s of cluster %s: the new configuration is of pool %s of cluster %s", l.pool, l.cluster, c.Pool, c.Cluster)
	}
	if err := c.Validate(); err != nil {
		return fmt.Errorf("reconfigure pool %s: %w", l.pool, err)
	}
	for {
		select {
		case l.wanted <- c:
			return nil
		case <-l.wanted: // replaced before it took effect
		}
	}
}

// adopt applies a new configuration. State of removed signals is dropped.
func (l *Loop) adopt(c Config) {
	l.config = c
	l.signals.Reconfigure(c.panel())
	l.writer.Reconfigure(c.writer())
	l.metrics.timeout = c.stepTimeout()
	l.log.Info("configuration adopted", "pool", l.pool, "tick", c.Tick, "apps", len(c.Apps))
}
