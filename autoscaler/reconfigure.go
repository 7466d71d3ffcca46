package autoscaler

import (
	"fmt"
)

// Reconfigure has the loop hold its pool by c, from between two ticks on. A signal of
// the same name keeps its opinion, and its connection and schedule unless its windows
// or parameters change: then the loop connects anew, as the hello carries parameters,
// and evaluates it at the next tick. The windows and parameters of c do not concern a
// process whose Endpoint has a Request of its own. Reconfigure never waits, may be called from any goroutine, and of two
// calls between two ticks the later one counts. Nobody may change c afterwards. A c
// that is not valid, or is of another pool, is an error and changes nothing.
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
		case <-l.wanted: // it never took effect
		}
	}
}

// adopt takes over a new configuration. What is not in it any more is forgotten.
func (l *Loop) adopt(c Config) {
	l.config = c
	l.signals.Reconfigure(c.panel())
	l.writer.Reconfigure(c.writer())
	l.metrics.timeout = c.stepTimeout()
	l.log.Info("configuration taken over", "pool", l.pool, "tick", c.Tick, "apps", len(c.Apps))
}
