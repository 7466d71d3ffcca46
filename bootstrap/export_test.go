package bootstrap

import "github.com/weirkeeper/weirkeeper/bootstrap/supervise"

// SetPolicy makes signals that the pool cannot do without restart by a policy of
// the test.
func (c *Config) SetPolicy(p supervise.Policy) { c.policy = p }
