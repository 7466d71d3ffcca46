package bootstrap

import "github.com/weirkeeper/weirkeeper/bootstrap/supervise"

// SetPolicy sets the restart policy of signals that the pool needs.
func (c *Config) SetPolicy(p supervise.Policy) { c.policy = p }
