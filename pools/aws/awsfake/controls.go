package awsfake

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// locked is the cloud with the server's only mutex.
type locked struct {
	missing func(error) // receives the error of a control for a missing thing
	mu      sync.Mutex  // guards the fields below, and the faults and calls of the server
	cloud   *cloud
	changed chan struct{} // closed and replaced when time passes or a message arrives
}

// with calls what for an instance, or missing without one.
func (s *locked) with(id string, what func(*cloud, *instance)) {
	found := false
	s.do(func(c *cloud) {
		if i := c.instance(id); i != nil {
			what(c, i)
			s.wakeLocked()
			found = true
		}
	})
	if !found {
		s.missing(fmt.Errorf("no instance %s", id))
	}
}

func (s *locked) do(what func(*cloud)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what(s.cloud)
}

func (s *locked) wakeLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// about calls what for a group or a fleet, or missing without one.
func (s *locked) about(owner string, what func(*cloud, *group, *fleet)) {
	found := false
	s.do(func(c *cloud) {
		if g, f := c.group(owner), c.fleet(owner); g != nil || f != nil {
			what(c, g, f)
			found = true
		}
	})
	if !found {
		s.missing(fmt.Errorf("no group or fleet %s", owner))
	}
}

// groupControls change groups and fleets as another user does.
type groupControls struct{ *locked }

// AddGroup creates a group. Unless Cold, its instances are in service.
func (s *groupControls) AddGroup(a ASG) { s.do(func(c *cloud) { c.scaling.addGroup(a) }) }

// AddFleet creates a fleet and returns its id. Unless Cold, it is active and has its instances.
func (s *groupControls) AddFleet(f SpotFleet) (id string) {
	s.do(func(c *cloud) { id = c.spot.addFleet(f).ID })
	return id
}

// CancelFleet cancels a fleet, with or without its instances.
func (s *groupControls) CancelFleet(id string, terminate bool) {
	s.about(id, func(c *cloud, _ *group, f *fleet) { c.spot.cancel(f, terminate) })
}

// SetBounds changes MinSize and MaxSize of a group, as another user does. The desired capacity
// changes if it must.
func (s *groupControls) SetBounds(name string, minSize, maxSize int) {
	s.about(name, func(c *cloud, g *group, _ *fleet) {
		g.Min, g.Max = minSize, maxSize
		c.scaling.desire(g, min(max(g.Desired, minSize), maxSize), fmt.Sprintf("update of AutoScalingGroup constraints to min: %d, max: %d", minSize, maxSize))
	})
}

// SetTarget changes the desired capacity of a group or the target capacity of a fleet, as another
// user does.
func (s *groupControls) SetTarget(owner string, target int) {
	s.about(owner, func(c *cloud, g *group, f *fleet) {
		if f != nil {
			c.spot.modify(f, target, f.keep)
		} else {
			c.scaling.desire(g, target, "explicitly set group desired capacity")
		}
	})
}

// Mark sets a tag of a group, or removes it if the value is empty. Instances have the tags of their launch.
func (s *groupControls) Mark(name, key, value string) {
	s.about(name, func(_ *cloud, g *group, _ *fleet) {
		if g.Tags = maps.Clone(g.Tags); value == "" {
			delete(g.Tags, key)
		} else {
			g.Tags[key] = value
		}
	})
}

// Rename gives the instances of a group to a new one with the same settings, as if they were attached to it, and deletes the old group.
func (s *groupControls) Rename(name, to string) {
	s.about(name, func(c *cloud, g *group, _ *fleet) {
		for _, i := range c.members(name, (*instance).listed) {
			i.owner, i.tags = to, maps.Clone(i.tags)
			i.tags["aws:autoscaling:groupName"] = to
		}
		g.Name = to
	})
}

// BeginDelete begins the deletion of a group: it has a status. EndDelete ends its instances and the group.
func (s *groupControls) BeginDelete(name string) {
	s.about(name, func(_ *cloud, g *group, _ *fleet) { g.status = "Delete in progress" })
}

// EndDelete ends the deletion of a group.
func (s *groupControls) EndDelete(name string) {
	s.about(name, func(c *cloud, g *group, _ *fleet) {
		for _, i := range c.members(name, (*instance).alive) {
			c.compute.end(i, ByCancel)
		}
		c.groups = slices.DeleteFunc(c.groups, func(other *group) bool { return other == g })
	})
}

// Suspend suspends processes of a group, or resumes all without arguments. Launch, Terminate,
// HealthCheck and ReplaceUnhealthy have an effect. Others are only listed.
func (s *groupControls) Suspend(name string, processes ...string) {
	s.about(name, func(c *cloud, g *group, _ *fleet) {
		c.scaling.suspend(g, slices.Clone(processes))
	})
}

// StartRefresh begins an instance refresh of a group. It replaces all instances in sequence.
func (s *groupControls) StartRefresh(name string) {
	s.about(name, func(c *cloud, g *group, _ *fleet) { c.scaling.startRefresh(g) })
}

// Owns reports whether a group or fleet with that name exists.
func (s *groupControls) Owns(name string) (found bool) {
	s.do(func(c *cloud) { found = c.group(name) != nil || c.fleet(name) != nil })
	return found
}

// Target returns the desired capacity of a group or the target capacity of a fleet.
func (s *groupControls) Target(owner string) (target int) {
	s.about(owner, func(_ *cloud, g *group, f *fleet) {
		if f != nil {
			target = f.Target
		} else {
			target = g.Desired
		}
	})
	return target
}

// balancerControls change the content and the health of target groups.
type balancerControls struct{ *locked }

// AddTargetGroup creates a target group of instances and returns its ARN.
func (s *balancerControls) AddTargetGroup(name string) (arn string) {
	s.do(func(c *cloud) { arn = c.balancing.addTargetGroup(name).arn })
	return arn
}

// Register makes an instance a healthy target of the group with that name.
func (s *balancerControls) Register(name, id string) {
	s.with(id, func(c *cloud, _ *instance) {
		c.balancing.register(c.targetGroup(name), registration{id: id})
		c.targetGroup(name).set(id, 0, targetHealthy, "")
	})
}

// SetTargetHealth sets the health of a registered instance in the target group with that name.
func (s *balancerControls) SetTargetHealth(name, id, state, reason string) {
	found := false
	s.do(func(c *cloud) {
		if g := c.targetGroup(name); g != nil && g.find(id, 0) >= 0 {
			g.set(id, 0, state, reason)
			found = true
		}
	})
	if !found {
		s.missing(fmt.Errorf("no target %s in a target group %s", id, name))
	}
}

// Targets returns the states of the targets of the group with that name, by id.
func (s *balancerControls) Targets(name string) map[string]string {
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

// queueControls send messages to the queue.
type queueControls struct{ *locked }

// Send sends a message with any content to the queue.
func (s *queueControls) Send(body string) {
	s.do(func(c *cloud) {
		c.queue.send(body)
		s.wakeLocked()
	})
}

// Incident sends an event of AWS Health about instances to the queue.
func (s *queueControls) Incident(code string, ids ...string) {
	s.do(func(c *cloud) {
		c.queue.incident(code, ids)
		s.wakeLocked()
	})
}

// QueueLength returns how many messages are not deleted.
func (s *queueControls) QueueLength() (n int) {
	s.do(func(c *cloud) { n = len(c.queue.messages) })
	return n
}
