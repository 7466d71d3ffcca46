package awstest

// AddTargetGroup makes a target group of instances and returns its ARN.
func (s *Server) AddTargetGroup(name string) (arn string) {
	s.do(func(c *cloud) { arn = c.balancing.addTargetGroup(name).arn })
	return arn
}

// Register makes an instance a healthy target of a group, by its name.
func (s *Server) Register(name, id string) {
	s.t.Helper()
	s.with(id, func(c *cloud, _ *instance) {
		c.balancing.register(c.targetGroup(name), registration{id: id})
		c.targetGroup(name).set(id, 0, targetHealthy, "")
	})
}

// SetTargetHealth says what a target group, by its name, tells of an instance that
// is registered there.
func (s *Server) SetTargetHealth(name, id, state, reason string) {
	s.t.Helper()
	found := false
	s.do(func(c *cloud) {
		if g := c.targetGroup(name); g != nil && g.find(id, 0) >= 0 {
			g.set(id, 0, state, reason)
			found = true
		}
	})
	if !found {
		s.t.Errorf("awstest: no target %s in a group %s", id, name)
	}
}

// Targets returns the states of the targets of a group, by its name and their ids.
func (s *Server) Targets(name string) map[string]string {
	states := make(map[string]string)
	s.do(func(c *cloud) {
		if g := c.targetGroup(name); g != nil {
			for _, t := range g.targets {
				states[t.id] = t.state
			}
		}
	})
	return states
}

// Impair sets the status of an instance's own check and of its host's, in EC2's
// words (impaired, insufficient-data, and so on); empty: ok, once it has run for
// some time. A reboot repairs the instance, and another host both.
func (s *Server) Impair(id, machine, host string) {
	s.t.Helper()
	s.with(id, func(_ *cloud, i *instance) { i.machine, i.host = machine, host })
}

// Plan gives an instance a scheduled event of that code; empty: none.
func (s *Server) Plan(id, code string) {
	s.t.Helper()
	s.with(id, func(_ *cloud, i *instance) { i.event = code })
}

// Stop stops an instance behind its owner's back, as its own operating system would.
func (s *Server) Stop(id string) {
	s.t.Helper()
	s.with(id, func(c *cloud, i *instance) {
		if i.state == running {
			c.compute.stop(i)
		}
	})
}

// Stick has an instance that is to be stopped stay on its way, until it is let go.
func (s *Server) Stick(id string, on bool) {
	s.t.Helper()
	s.with(id, func(c *cloud, i *instance) {
		if i.stuck = on; !on {
			c.compute.halted(i)
		}
	})
}

// FailVolume has the next replacement of a root volume end in that state: failed or
// failed-detached.
func (s *Server) FailVolume(state string) { s.do(func(c *cloud) { c.compute.outcome = state }) }

// Incident puts an event of AWS Health about instances into the queue.
func (s *Server) Incident(code string, ids ...string) {
	s.do(func(c *cloud) {
		c.queue.incident(code, ids)
		s.wakeLocked()
	})
}
